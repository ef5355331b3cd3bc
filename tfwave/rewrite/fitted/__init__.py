"""What a step is given so that it keeps to a limited memory: turns, tensors that are made again, and copies."""
