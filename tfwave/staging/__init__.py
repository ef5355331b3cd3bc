"""What staged steps of embedding tables will take, by counted ids and a network; nothing here needs TensorFlow."""
