"""What waiting for the slowest worker costs, and what partial reduces would gain, by a simulation."""
