"""The schedulers of serving engines, and the orders of their queues."""
