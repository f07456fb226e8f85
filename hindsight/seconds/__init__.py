"""Solver for problems in seconds: bounds on total latency and on requests on time."""
