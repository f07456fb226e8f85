"""Runs and optima of trials, for the rooms that have not moved to `online.trials`."""
