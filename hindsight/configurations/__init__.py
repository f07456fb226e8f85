"""Prices of what runs together: state tables, configurations, their ascent."""
