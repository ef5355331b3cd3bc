"""Pools of memory, by a model: that which streams share (Waterwave, Sec. 4.2), and where a step's bytes lie."""
