"""Steps of this process that keep to a limited memory."""
