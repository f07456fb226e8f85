"""Policies of [J25]: MC-SF, first come first served, alpha-protection."""
