"""[A25]'s policies: WAIT, Nested WAIT, greedy first come first served."""
