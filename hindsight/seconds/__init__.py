"""Intervals around optima in seconds: total latency, and requests on time, of every scheduler."""
