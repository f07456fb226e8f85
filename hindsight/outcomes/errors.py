"""Errors raised when a solver fails or results contradict each other."""

from __future__ import annotations


class SolverError(RuntimeError):
    """HiGHS failed, or reported something that cannot be true of a scheduling instance."""


class ScheduleCheckError(RuntimeError):
    """A schedule or a bound contradicts the checker: a bug of this package or of a solver."""
