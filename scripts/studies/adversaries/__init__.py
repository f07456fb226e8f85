"""Policies measured on the papers' hard instances."""
