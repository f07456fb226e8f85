"""Generators: families of instances drawn from a seed, by name."""
