"""What waves of one training step take and gain, by a model; the graph that runs them is made in `rewrite`."""
