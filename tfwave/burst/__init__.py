"""Deciding on how many devices each layer of a model runs: burst parallelism (DeepPool section 4)."""
