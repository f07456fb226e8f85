"""Enumeration pruned by prices: partial schedules, windows, and trees of windows."""
