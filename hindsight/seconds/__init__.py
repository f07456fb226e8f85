"""Lower bounds on the latency in seconds of every scheduler; no solver."""
