"""Exact methods: the integer program and its solvers, and searches through states."""
