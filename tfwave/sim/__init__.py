"""A discrete-event simulator, and what runs on it: one device, whole jobs, steps with and without an order."""
