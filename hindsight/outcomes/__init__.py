"""States and results of computations."""
