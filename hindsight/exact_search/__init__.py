"""Enumeration that prices prune: partial schedules, windows, trees of windows."""
