"""Bodies of functions put in the place of their calls, branches and loops, as TensorFlow does before placement."""
