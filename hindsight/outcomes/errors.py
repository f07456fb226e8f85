"""Errors raised when a solver fails or results contradict each other."""

from __future__ import annotations


class SolverError(RuntimeError):
    """HiGHS failed or was stopped too early, or its result is impossible.

    An example of an impossible result: HiGHS calls a program infeasible though a feasible schedule
    is known.
    """


class ScheduleCheckError(RuntimeError):
    """A computed schedule is infeasible, or computed bounds contradict each other.

    An example of a contradiction: a lower bound exceeds the cost of a feasible schedule. The reason
    is a bug of this package or of a solver, not the user's input.
    """
