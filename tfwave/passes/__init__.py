"""Passes over graphs: what one is, how they are chained, named, found and watched."""
