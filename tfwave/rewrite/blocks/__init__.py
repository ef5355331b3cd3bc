"""Cutting variables into blocks: which can be, how, and what computes them block by block."""
