"""The wire formats, and the modules that are generated from them."""
