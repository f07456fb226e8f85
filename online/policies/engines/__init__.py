"""Policies that imitate the schedulers of serving engines, and the orders of their queues."""
