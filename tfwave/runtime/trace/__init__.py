"""What TensorFlow's profiler says of steps: those of a server's functions, and the memory of this process's."""
