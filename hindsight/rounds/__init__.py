"""Solving in rounds: first intervals, then what closes them, by goal and size of the memory."""
