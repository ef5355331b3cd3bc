"""The layers of Keras 3 models, and their times, for plans of bursts."""
