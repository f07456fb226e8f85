"""User-defined lower bounds.

A bound is a function of an instance. It returns one of two things:

* A number, an integer or a fraction: a *claim* that no schedule of the goal costs less. Costs are
integers, so it is rounded up. Nothing here proves it: `hindsight.solve` reports it in
``own_bounds`` and does not use it.
* Prices (`hindsight.outcomes.proofs`): a *proof*. Whatever the numbers are, the checker of
certificates evaluates exactly the bound that they prove, so they count as certified and can be
written into a certificate.

A claim that exceeds the cost of a known schedule is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, TypeVar, get_args

from hindsight.outcomes.proofs import Proof
from hindsight.outcomes.results import PREEMPTIVE, Goal
from instances import Instance, InvalidValueError
from instances.registry import Registry
from instances.user_modules import described
from instances.validation import as_exact

BoundFunction: TypeAlias = Callable[[Instance], int | Fraction | Proof]
"""Kinds of values that a bound may return."""

Function = TypeVar("Function", bound=Callable[[Instance], object])
GOALS = get_args(Goal)


@dataclass(frozen=True)
class OwnBound:
    """A user-defined bound.

    Attributes
    ----------
    name : str
        Registered name, or name of the function.
    function : Callable[[Instance], object]
        The function of an instance.
    goal : Goal
        Goal whose cost it bounds.
    """

    name: str
    function: Callable[[Instance], object]
    goal: Goal = "total_latency"

    @property
    def label(self) -> str:
        """Return the name used in results and errors."""
        return f"bound {self.name!r}"

    def holds_of(self, goal: Goal) -> bool:
        """Tell whether this bound also bounds ``goal``.

        Schedules without preemption are also preemptive schedules, so the preemptive optimum is
        never above the other one.
        """
        return self.goal == goal or (self.goal == PREEMPTIVE and goal == "total_latency")

    def of(self, instance: Instance) -> int | Proof:
        """Return the bound of an instance: a number rounded up, or prices.

        Raises
        ------
        InvalidValueError
            The function fails; the message names the user's line.
        InvalidTypeError
            It returns neither an exact number nor prices.
        """
        value = described(lambda: self.function(instance), self.name, "bound")
        if isinstance(value, Proof):
            return value
        return math.ceil(as_exact(value, self.label, "value"))


AnyBound: TypeAlias = str | BoundFunction | OwnBound
"""Ways to name a bound: a registered name, ``FILE.py:NAME``, or a function."""

BOUNDS: Registry[OwnBound] = Registry("bound", OwnBound)


def register_bound(name: str, *, goal: Goal = "total_latency") -> Callable[[Function], Function]:
    """Decorator: register ``function(instance)`` for ``solve(..., bounds=(name,))``.

    The function is called once per solve with the original instance. A returned number, an int or a
    `fractions.Fraction`, claims that every feasible schedule of that instance costs at least that.
    Returned prices, such as `Relaxation.memory_prices`, `StrengthenedRelaxation.prices` or
    `SolveResult.proof`, prove the bound that the checker of certificates computes from them.
    `hindsight.check_bound` tests the function.

    A function with the same module and qualified name replaces the earlier one, with a warning.

    Parameters
    ----------
    name : str
        Name by which the bound is requested.
    goal : Goal, default "total_latency"
        Goal bounded: ``"total_latency"``, ``"makespan"`` or ``"preemptive_total_latency"``. The
        last, for schedules that may stop requests, also bounds total latency.

    Raises
    ------
    ValueError
        Another function has this name, or there is no such goal.
    """
    if goal not in GOALS:
        raise InvalidValueError(None, "goal", goal, f"is not one of {', '.join(GOALS)}")

    return BOUNDS.register(name, goal=goal)


def bound_names() -> list[str]:
    """Return the names of the registered bounds, sorted."""
    return BOUNDS.names()
