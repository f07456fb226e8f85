"""Checks of bounds on instances small enough to enumerate."""
