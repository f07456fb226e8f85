"""Competitive ratios as intervals, and the one way in which they and bounds are printed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from instances import Instance
from online.simulation.run import Run

DECIMALS = 4
"""Digits after the point of a printed ratio."""


class HindsightBounds(Protocol):
    """What `hindsight.solve` returns, as far as a ratio needs it."""

    @property
    def instance(self) -> Instance:
        """The instance solved."""

    @property
    def upper_bound(self) -> int | None:
        """Total latency of a feasible schedule."""

    @property
    def lower_bound(self) -> int | None:
        """A proved lower bound on the optimum."""


class MismatchError(ValueError):
    """A run and an optimum belong to different instances."""


def rounded(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """What is known exactly, to the nearest decimal."""
    return _decimal(number, round, decimals)


def rounded_down(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """A lower bound: what is printed is one too."""
    return _decimal(number, math.floor, decimals)


def rounded_up(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """An upper bound: what is printed is one too."""
    return _decimal(number, math.ceil, decimals)


def _decimal(number: Fraction | float, rounding: Callable[[Fraction], int], decimals: int) -> str:
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)
    # Fraction takes a float for what it is, and loses no digit of a large number.
    scaled = rounding(Fraction(number) * 10**decimals)
    digits = f"{abs(scaled):0{decimals + 1}d}"
    point = len(digits) - decimals
    sign = "-" if scaled < 0 else ""
    return f"{sign}{digits[:point]}.{digits[point:]}" if decimals else f"{sign}{digits}"


@dataclass(frozen=True)
class Interval:
    """Where a number lies: exact fractions, None where an end is unknown."""

    lower: Fraction | None
    upper: Fraction | None

    @classmethod
    def of_quotient(cls, numerator: int, most: int | None, least: int | None) -> Interval:
        """Of numerator / x, where x > 0 lies in [least, most] as far as these are known."""
        return cls(
            Fraction(numerator, most) if most is not None and most > 0 else None,
            Fraction(numerator, least) if least is not None and least > 0 else None,
        )

    @property
    def is_exact(self) -> bool:
        """Whether both ends are known and equal."""
        return self.lower is not None and self.lower == self.upper

    def text(self, decimals: int = DECIMALS) -> str:
        """A point rounded to the nearest, or an interval rounded outwards."""
        if self.is_exact and self.lower is not None:
            return rounded(self.lower, decimals)
        low = "?" if self.lower is None else rounded_down(self.lower, decimals)
        high = "?" if self.upper is None else rounded_up(self.upper, decimals)
        return f"[{low}, {high}]"

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of a policy's total latency to an optimum, as an interval.

    Attributes
    ----------
    total_latency : int
        The policy's, in rounds.
    optimum_upper, optimum_lower : int or None
        Bounds of the optimum; None where nothing is known.
    preemptive : bool, default False
        Whether it is the preemptive optimum, instead of that without preemption.
    """

    total_latency: int
    optimum_upper: int | None
    optimum_lower: int | None
    preemptive: bool = False

    @property
    def interval(self) -> Interval:
        """The ratio in exact fractions."""
        return Interval.of_quotient(self.total_latency, self.optimum_upper, self.optimum_lower)

    @property
    def lower(self) -> float | None:
        """Total latency / upper bound: the policy is at least this far from the optimum."""
        return _nearest(self.interval.lower)

    @property
    def upper(self) -> float | None:
        """Total latency / lower bound: the policy is at most this far from the optimum."""
        return _nearest(self.interval.upper)

    @property
    def is_exact(self) -> bool:
        """Whether the optimum is proved, so that the interval is a point."""
        return self.interval.is_exact

    @property
    def exact(self) -> Fraction | None:
        """The ratio as a fraction, where the optimum is proved."""
        return self.interval.lower if self.is_exact else None

    def __str__(self) -> str:
        return str(self.interval)


def _nearest(end: Fraction | None) -> float | None:
    return None if end is None else float(end)


def ratio(run: Run, result: HindsightBounds, *, preemptive: bool | None = None) -> Ratio:
    """Competitive ratio of a run of the round model against hindsight bounds.

    The bounds are of the instance of ``run.schedule``: with prefill rounds, not that of the run.

    Parameters
    ----------
    run : Run
        What the policy did.
    result : HindsightBounds
        Of `hindsight.solve`.
    preemptive : bool or None, default None
        Whether ``result`` is to be of the preemptive optimum (``solve(.., preemptive=True)``);
        None asks for it where the run preempted requests and kept their tokens, and nowhere else.

    Raises
    ------
    MismatchError
        The run and the bounds belong to different instances, or the bounds are of the makespan or
        of the other optimum.
    IncompleteRunError
        The run left requests unserved.
    NoScheduleError
        No schedule of the kind compared with has the completions of the run.
    """
    wanted = run.keeps_tokens if preemptive is None else preemptive
    schedule = run.preemptive_schedule if wanted else run.schedule
    if getattr(result, "objective", "total_latency") != "total_latency":
        raise MismatchError("the hindsight bounds are not of total latency")
    given = bool(getattr(result, "preemptive", False))
    if given != wanted:
        kinds = ("of schedules without preemption", "of the preemptive optimum")
        raise MismatchError(f"the hindsight bounds are {kinds[given]}, not {kinds[wanted]}")
    if schedule.instance.digest != result.instance.digest:
        raise MismatchError("the run and the hindsight bounds belong to different instances")
    return Ratio(schedule.total_latency, result.upper_bound, result.lower_bound, wanted)
