"""Checks of bounds, cuts and strategies on instances small enough to enumerate."""
