"""A training step that does not fit is made to fit (Dymem): what is kept, offloaded, or computed again."""
