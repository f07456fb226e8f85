"""A policy played on an instance: the machine, the run, what it measures."""
