"""Policies against the hindsight optimum: ratios, trials, their tables."""
