"""The layers of Keras 3 models: measured for burst plans, and run by them."""
