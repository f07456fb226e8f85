"""Exact methods: the integer program with its solvers, and dynamic-programming state searches."""
