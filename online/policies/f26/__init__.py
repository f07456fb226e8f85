"""Policies of [F26]: geometric slicing and geometric batching."""
