"""Competitive ratios as intervals, and the one way in which they and bounds are printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from instances import FleetSchedule, InvalidTypeError, SecondsSchedule
from online.simulation.run import Run
from online.simulation.schedules import NoScheduleError

DECIMALS = 4
"""Digits after the point of a printed ratio."""


LATENCY, MAKESPAN, ON_TIME = "latency", "makespan", "on time"
"""Goals; a goal on time continues with its service level."""

Latency: TypeAlias = int | Fraction
"""Rounds, or seconds."""


class MismatchError(ValueError):
    """A run and an optimum belong to different instances."""


def rounded(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """Write a number rounded to the nearest decimal."""
    return _decimal(number, round, decimals)


def rounded_down(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """Write a number rounded down, so that a printed lower bound is a lower bound."""
    return _decimal(number, math.floor, decimals)


def rounded_up(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """Write a number rounded up, so that a printed upper bound is an upper bound."""
    return _decimal(number, math.ceil, decimals)


def _decimal(number: Fraction | float, rounding: Callable[[Fraction], int], decimals: int) -> str:
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)
    # A Fraction has the exact value of a float and all digits of a large number.
    scaled = rounding(Fraction(number) * 10**decimals)
    digits = f"{abs(scaled):0{decimals + 1}d}"
    point = len(digits) - decimals
    sign = "-" if scaled < 0 else ""
    return f"{sign}{digits[:point]}.{digits[point:]}" if decimals else f"{sign}{digits}"


@dataclass(frozen=True)
class Interval:
    """Interval in which a number lies: exact fractions, None where an end is unknown.

    Attributes
    ----------
    lower, upper : Fraction or None
        The ends.
    """

    lower: Fraction | None
    upper: Fraction | None

    @classmethod
    def between(cls, lower: Latency | None, upper: Latency | None) -> Interval:
        """Return the interval with given ends."""
        ends = [None if end is None else Fraction(end) for end in (lower, upper)]
        return cls(*ends)

    @classmethod
    def of_share(cls, part: Latency, whole: Interval) -> Interval:
        """Bound part / x for x in ``whole``; an end that only x <= 0 could give is unknown."""
        known = (end if end and end > 0 else None for end in (whole.upper, whole.lower))
        shares = [None if end is None else Fraction(part) / end for end in known]
        return cls(*(shares if part >= 0 else shares[::-1]))

    @classmethod
    def mean_of(cls, intervals: Sequence[Interval]) -> Interval:
        """Bound a mean by the means of the ends; an end is known if all have it."""
        lowers, uppers = ([getattr(one, end) for one in intervals] for end in ("lower", "upper"))
        return cls(*(_mean(ends) for ends in (lowers, uppers)))

    @classmethod
    def largest_of(cls, intervals: Sequence[Interval]) -> Interval:
        """Bound a largest number by the largest lower and the largest upper end."""
        lowers = [one.lower for one in intervals if one.lower is not None]
        uppers = [one.upper for one in intervals if one.upper is not None]
        all_known = len(uppers) == len(intervals)
        return cls(max(lowers, default=None), max(uppers, default=None) if all_known else None)

    @classmethod
    def sum_of(cls, intervals: Sequence[Interval]) -> Interval:
        """Bound a sum by the sums of the ends; an end is known if it is known for all."""
        return cls.mean_of(intervals).times(len(intervals)) if intervals else cls.between(0, 0)

    @property
    def is_exact(self) -> bool:
        """Whether both ends are known and equal."""
        return self.lower is not None and self.lower == self.upper

    def below(self, number: Latency) -> Interval:
        """Return the interval of a number minus this one."""
        ends = (self.upper, self.lower)
        return Interval(*(None if end is None else number - end for end in ends))

    def times(self, factor: Latency) -> Interval:
        """Return the interval times a number >= 0."""
        return Interval(
            *(None if end is None else end * factor for end in (self.lower, self.upper))
        )

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Both ends, each as the nearest float."""
        low, high = (None if end is None else float(end) for end in (self.lower, self.upper))
        return low, high

    def text(self, decimals: int = DECIMALS) -> str:
        """Write a point rounded to the nearest, or an interval rounded outwards."""
        if self.is_exact and self.lower is not None:
            return rounded(self.lower, decimals)
        low = "?" if self.lower is None else rounded_down(self.lower, decimals)
        high = "?" if self.upper is None else rounded_up(self.upper, decimals)
        return f"[{low}, {high}]"

    def __str__(self) -> str:
        return self.text()


NOTHING = Interval(None, None)
"""Interval of a number with unknown bounds."""


def _mean(ends: Sequence[Fraction | None]) -> Fraction | None:
    known = [end for end in ends if end is not None]
    return sum(known, Fraction(0)) / len(known) if known and len(known) == len(ends) else None


def ratio(run: Run, result: Any) -> Interval:
    """Divide the cost of a run by the optimum of the goal of a result, as an interval.

    For the goals ``"latency"`` and ``"makespan"`` the interval is at least 1 if the optimum is over
    schedules as the run's own. For the goal `hindsight.OnTime` it is the number of requests on time
    over the most that any scheduler has on time, at most 1.

    In rounds the run is represented by a schedule of the kind that the optimum is taken over
    (`Run.schedule`, or `Run.preemptive_schedule` for ``preemption="keep"``), which has the same
    completions. In seconds each run is such a schedule itself.

    Parameters
    ----------
    run : Run
        Of `online.simulate`.
    result : Result
        Of `hindsight.solve`, for the same requests, memory and batch time.

    Raises
    ------
    MismatchError
        The run and the result belong to different problems.
    IncompleteRunError
        The run left requests unserved.
    NoScheduleError
        No schedule of the kind that the optimum is taken over has the completions of the run.
    InvalidTypeError
        ``run`` is not a `Run`, or ``result`` has no bounds.

    Examples
    --------
    >>> import hindsight
    >>> import online
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> run = online.simulate(instance, "fcfs")
    >>> print(online.ratio(run, hindsight.solve(instance, progress=False)))
    1.2857
    """
    if not isinstance(run, Run):
        is_result = hasattr(run, "upper_bound")
        reason = "is a result: write ratio(run, result)" if is_result else "is not a Run"
        raise InvalidTypeError(None, "run", run, reason)
    if not hasattr(result, "upper_bound"):
        raise InvalidTypeError(None, "result", result, "is not a result of hindsight.solve")
    goal, preemption = getattr(result, "goal", LATENCY), getattr(result, "preemption", "never")
    if goal not in (LATENCY, MAKESPAN) and not hasattr(goal, "level"):
        raise MismatchError("the hindsight bounds are of a quantile, which has no ratio")
    schedule = schedule_of(run, preemption)
    if not schedule.problem.matches(result.problem):
        both = "the run and the hindsight bounds"
        raise MismatchError(f"{both} belong to different requests or batch times")
    cost = cost_of(run, schedule, goal, getattr(goal, "level", None))
    lower, upper = result.lower_bound, result.upper_bound
    # The schedule of the run is one of those that the optimum is taken over.
    if goal in (LATENCY, MAKESPAN):
        upper = cost if upper is None else min(cost, upper)
    else:
        lower = max(cost, lower)
    return Interval.of_share(cost, Interval.between(lower, upper))


def schedule_of(run: Run, preemption: str) -> Any:
    """Return the schedule of a run that is of the kind that an optimum is taken over.

    Raises
    ------
    IncompleteRunError, NoScheduleError
        There is none.
    """
    keeps = preemption == "keep" and run.instance is not None
    return run.preemptive_schedule if keeps else run.schedule


def cost_of(run: Run, schedule: Any, goal: Any, level: Any) -> Latency:
    """Return the cost of the schedule of a run: for other goals, its requests on time.

    Raises
    ------
    NoScheduleError
        Without pauses fewer requests are on time than in the run.
    """
    if goal == LATENCY:
        return total_of(schedule)
    if goal == MAKESPAN:
        return int(schedule.makespan)
    on_time = int(schedule.on_time(level).sum())
    if run.instance is not None and on_time < run.on_time(level).sum():
        reason = "requests were held after their first tokens: without pauses fewer are on time"
        raise NoScheduleError(f"{run.policy_name!r}: {reason}")
    return on_time


def total_of(schedule: Any) -> Latency:
    """Return the total latency of a schedule; in seconds with all decimals where they are known."""
    if isinstance(schedule, FleetSchedule):
        return sum(total_of(part) for part in schedule.parts if part is not None)
    if isinstance(schedule, SecondsSchedule):
        from hindsight.outcomes.goals import exact_total_latency

        exact = exact_total_latency(schedule)
        return Fraction(schedule.total_latency) if exact is None else exact
    total: int = schedule.total_latency
    return total
