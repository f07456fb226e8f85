"""The least total latency if requests may be stopped and keep their tokens."""
