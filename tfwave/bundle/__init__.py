"""Capture bundles: a captured job on disk, and what its traces tell; loads anywhere, without TensorFlow."""
