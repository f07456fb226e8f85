"""Feasible schedules: lists, beams, annealing, ruin and recreate, those of the papers' proofs."""
