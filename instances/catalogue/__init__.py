"""The library: sets of named instances, and records with bounds on their optima."""
