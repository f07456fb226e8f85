"""Closed forms: ratios of [C25] and [F26], bounds and dual prices of [J25]."""
