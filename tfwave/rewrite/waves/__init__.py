"""A training step and its copies in one graph: where it turns, what each wave has for itself, what they share."""
