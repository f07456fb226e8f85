"""Feasible schedules: list schedules, beam search, and local search that improves them."""
