"""Lower bounds of one's own.

A bound is a function of an instance. What it returns is one of two things:

* A number, an integer or a fraction: a *claim* that no schedule of the goal costs less. Costs are
  integers, so it is rounded up. Nothing here proves it. `hindsight.solve` reports it as
  ``conditional_lower_bound`` with the name of the bound, and leaves ``lower_bound`` and
  ``certified_lower_bound`` as they are without it. It ends no search for a proof; a strategy of the
  user's ends where a schedule reaches it.
* Prices (`hindsight.outcomes.proofs`): a *proof*. Whatever the numbers are, the checker of
  certificates evaluates what they prove, exactly, so they count as certified and can be written
  into a certificate.

A claim that is false may end such a strategy too early, with a schedule that is not optimal, and
says so by its condition; one that exceeds the cost of a schedule is refused.
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
"""What a bound is to be."""

Function = TypeVar("Function", bound=Callable[[Instance], object])
GOALS = get_args(Goal)


@dataclass(frozen=True)
class OwnBound:
    """A bound of the user's.

    Attributes
    ----------
    name : str
        As registered, or that of the function.
    function : Callable[[Instance], object]
        What is called.
    goal : Goal
        What it bounds.
    """

    name: str
    function: Callable[[Instance], object]
    goal: Goal = "total_latency"

    @property
    def label(self) -> str:
        """The name in results and errors."""
        return f"bound {self.name!r}"

    def holds_of(self, goal: Goal) -> bool:
        """Tell whether it bounds ``goal`` too.

        Schedules without preemption are among those with it, so no minimum over these exceeds the
        minimum over those.
        """
        return self.goal == goal or (self.goal == PREEMPTIVE and goal == "total_latency")

    def of(self, instance: Instance) -> int | Proof:
        """Return what it says of an instance: a number rounded up, or prices.

        Raises
        ------
        InvalidValueError
            It fails; the message tells the user's line.
        InvalidTypeError
            What it returns is neither an exact number nor prices.
        """
        value = described(lambda: self.function(instance), self.name, "bound")
        if isinstance(value, Proof):
            return value
        return math.ceil(as_exact(value, self.label, "value"))


AnyBound: TypeAlias = str | BoundFunction | OwnBound
"""What stands for a bound: a registered name, ``FILE.py:NAME``, a function."""

BOUNDS: Registry[OwnBound] = Registry("bound", OwnBound)


def register_bound(name: str, *, goal: Goal = "total_latency") -> Callable[[Function], Function]:
    """Decorator: make ``function(instance)`` known as ``solve(..., bounds=(name,))``.

    The function is called once for each solve, with the instance as it was given. A number it
    returns, an int or a `fractions.Fraction`, claims that every feasible schedule of that instance
    costs at least as much. Prices it returns, such as `Relaxation.memory_prices`,
    `StrengthenedRelaxation.prices` or `SolveResult.proof` have them, prove what the checker of
    certificates finds that they prove. `hindsight.check_bound` tries it.

    What has the same module and qualified name takes the place of the one before, with a warning.

    Parameters
    ----------
    name : str
        How it is asked for.
    goal : Goal, default "total_latency"
        What it bounds: ``"total_latency"``, ``"makespan"``, or ``"preemptive_total_latency"``, of
        schedules that may stop requests, which is a bound of total latency too.

    Raises
    ------
    ValueError
        Another function has the name, or there is no such goal.
    """
    if goal not in GOALS:
        raise InvalidValueError(None, "goal", goal, f"is not one of {', '.join(GOALS)}")

    return BOUNDS.register(name, goal=goal)


def bound_names() -> list[str]:
    """The registered bounds, sorted."""
    return BOUNDS.names()
