"""Optimisation problems, the bounds kept during a solve, proofs of bounds, and results."""
