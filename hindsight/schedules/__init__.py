"""Feasible schedules: lists, annealed orders, beams, and moves that improve them."""
