"""Intervals around the least latency in seconds of every scheduler, without a solver."""
