"""Memory of steps: profiles, node groups and their pairs, and the pools that they share."""
