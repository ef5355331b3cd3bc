"""Reduces between processes that need not wait for the slowest: RNA (ch. 5 of the thesis), mended."""
