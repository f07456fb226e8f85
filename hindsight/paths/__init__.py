"""Paths through what runs together: a relaxation as a graph, priced, pruned from both ends."""
