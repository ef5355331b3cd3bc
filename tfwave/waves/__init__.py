"""Waves of one training step: what they take and gain by a model, and, in `rewrite`, the graph that runs them."""
