"""Which ids of a table that could have any have a row of their own: admission, worth, eviction. NumPy only."""
