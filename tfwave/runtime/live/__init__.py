"""Passes on functions, sessions and graphs that run, and in Grappler; all is as it was when they end."""
