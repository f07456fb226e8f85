"""Trials: runs of policies compared with bounds on the optimum, their store and their tables."""
