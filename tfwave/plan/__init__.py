"""The plan and its sections, its files, and whether it belongs to a graph."""
