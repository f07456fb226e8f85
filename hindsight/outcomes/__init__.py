"""Optimisation problems, the flow of a solve, its bounds, their proofs, and results."""
