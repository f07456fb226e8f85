"""Solvers for problems in rounds: first bounds, then methods by goal and memory limit."""
