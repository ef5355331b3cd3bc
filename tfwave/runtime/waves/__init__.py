"""Waves of a traced training step in one call (`grappler_passes.tick_tock`), with the variables that they keep."""
