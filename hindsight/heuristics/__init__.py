"""Heuristics for feasible schedules: lists, beams, annealing, ruin and recreate, papers' proofs."""
