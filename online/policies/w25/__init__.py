"""Policies of [W25]: Sorted-F with its batch builders, and orders from a linear relaxation."""
