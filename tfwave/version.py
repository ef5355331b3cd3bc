"""The version of tfwave: setup.py reads it here too."""

__version__ = "0.1.0"
