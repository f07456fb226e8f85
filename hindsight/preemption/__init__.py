"""The least total latency when requests may be stopped and keep their tokens."""
