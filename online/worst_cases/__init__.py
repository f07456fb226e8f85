"""The search for small instances that hurt a policy most, and its archive."""
