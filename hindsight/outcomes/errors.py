"""Errors raised when a solver fails or results contradict each other."""

from __future__ import annotations


class SolverError(RuntimeError):
    """HiGHS failed, or its result cannot be true for a scheduling instance."""


class ScheduleCheckError(RuntimeError):
    """The check of a schedule or of a bound failed: a bug of this package or of a solver."""
