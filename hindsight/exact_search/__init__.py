"""Enumeration pruned by prices: partial schedules, and trees of start windows."""
