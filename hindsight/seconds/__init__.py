"""Intervals around the least latency in seconds of every scheduler; no solver."""
