"""The catalogue of graph rewrites: one file each, named as its class."""
