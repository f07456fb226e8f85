"""The schedulers of serving engines."""
