"""Feasible schedules: lists, beams, annealing, and those of the papers' proofs."""
