"""Enumeration of partial schedules, pruned by prices."""
