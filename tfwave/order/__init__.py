"""Policies, which make an order of a graph and its times, and bounds that no order beats."""
