"""TensorFlow's pruning, placement and cut of a graph, without TensorFlow."""
