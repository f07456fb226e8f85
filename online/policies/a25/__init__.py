"""Policies of [A25]: WAIT, Nested WAIT, and greedy first come, first served."""
