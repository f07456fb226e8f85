"""Competitive ratios as intervals with exact ends, and how they are rounded and printed."""

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
"""Number of decimals of a printed ratio."""


LATENCY, MAKESPAN, ON_TIME = "latency", "makespan", "on time"
"""Texts of goals in `Trial.goal`. "on time" is followed by the limits of the service level."""

Latency: TypeAlias = int | Fraction
"""Type of the cost of a run: whole rounds, a number of requests on time, or exact seconds."""


class MismatchError(ValueError):
    """Error: a run and an optimum cannot be compared, such as those of different instances."""


def rounded(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """Return a number as text with ``decimals`` decimals, rounded to the nearest."""
    return _decimal(number, round, decimals)


def rounded_down(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """Return a number as text with ``decimals`` decimals, rounded down, for lower bounds."""
    return _decimal(number, math.floor, decimals)


def rounded_up(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """Return a number as text with ``decimals`` decimals, rounded up, for upper bounds."""
    return _decimal(number, math.ceil, decimals)


def _decimal(number: Fraction | float, rounding: Callable[[Fraction], int], decimals: int) -> str:
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)
    # Round exactly: a Fraction has the exact value of a float and all digits of a large integer.
    scaled = rounding(Fraction(number) * 10**decimals)
    digits = f"{abs(scaled):0{decimals + 1}d}"
    point = len(digits) - decimals
    sign = "-" if scaled < 0 else ""
    return f"{sign}{digits[:point]}.{digits[point:]}" if decimals else f"{sign}{digits}"


@dataclass(frozen=True)
class Interval:
    """Interval with exact ends that is known to contain a number, such as a ratio.

    Attributes
    ----------
    lower, upper : Fraction or None
        Lower and upper bound on the number. None if no such bound is known.
    """

    lower: Fraction | None
    upper: Fraction | None

    @classmethod
    def between(cls, lower: Latency | None, upper: Latency | None) -> Interval:
        """Return the interval with these ends, as fractions. None means that an end is unknown."""
        return cls(*(None if end is None else Fraction(end) for end in (lower, upper)))

    @classmethod
    def of_share(cls, part: Latency, whole: Interval) -> Interval:
        """Return an interval that contains part / x for every x > 0 in ``whole``.

        Its lower end is ``part`` / (upper end of ``whole``). Its upper end is ``part`` / (lower end
        of ``whole``). An end is unknown if its divisor is unknown or not above 0.
        """
        known = (end if end and end > 0 else None for end in (whole.upper, whole.lower))
        shares = [None if end is None else Fraction(part) / end for end in known]
        return cls(*(shares if part >= 0 else shares[::-1]))

    @classmethod
    def mean_of(cls, intervals: Sequence[Interval]) -> Interval:
        """Return an interval that contains the mean of some numbers, given an interval for each.

        Its lower end is the mean of the lower ends, or None if one of them is unknown. Its upper
        end is the mean of the upper ends, or None if one of them is unknown.
        """
        return cls(*(_mean([getattr(one, end) for one in intervals]) for end in ("lower", "upper")))

    @classmethod
    def largest_of(cls, intervals: Sequence[Interval]) -> Interval:
        """Return an interval that contains the largest of some numbers, given an interval for each.

        The lower end is the largest of the known lower ends. The upper end is the largest upper
        end, if all are known.
        """
        lowers = [one.lower for one in intervals if one.lower is not None]
        uppers = [one.upper for one in intervals if one.upper is not None]
        all_known = len(uppers) == len(intervals)
        return cls(max(lowers, default=None), max(uppers, default=None) if all_known else None)

    @property
    def is_exact(self) -> bool:
        """Whether both ends are known and equal, so that the number is known exactly."""
        return self.lower is not None and self.lower == self.upper

    def below(self, number: Latency) -> Interval:
        """Return the interval of the values ``number`` - x for all x in this interval."""
        ends = (self.upper, self.lower)
        return Interval(*(None if end is None else number - end for end in ends))

    def times(self, factor: Latency) -> Interval:
        """Return the interval with both ends multiplied by a factor >= 0."""
        ends = (self.lower, self.upper)
        return Interval(*(None if end is None else end * factor for end in ends))

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Both ends, each as the nearest float."""
        low, high = (None if end is None else float(end) for end in (self.lower, self.upper))
        return low, high

    def text(self, decimals: int = DECIMALS) -> str:
        """Return the interval as text such as ``[1.2000, ?]``, where ``?`` is an unknown end.

        The lower end is rounded down and the upper end up. If both ends are equal, the text is this
        number, rounded to the nearest.
        """
        if self.is_exact and self.lower is not None:
            return rounded(self.lower, decimals)
        low = "?" if self.lower is None else rounded_down(self.lower, decimals)
        high = "?" if self.upper is None else rounded_up(self.upper, decimals)
        return f"[{low}, {high}]"

    def __str__(self) -> str:
        return self.text()


NOTHING = Interval(None, None)
"""Interval of an unknown number without any known bound: both ends are None."""


def _mean(ends: Sequence[Fraction | None]) -> Fraction | None:
    known = [end for end in ends if end is not None]
    return sum(known, Fraction(0)) / len(known) if known and len(known) == len(ends) else None


def ratio(run: Run, result: Any) -> Interval:
    """Return the competitive ratio of a run, its cost divided by the optimum, as an interval.

    The cost and the optimum are those of the goal of ``result``. For the goals ``"latency"`` and
    ``"makespan"`` the ratio is at least 1. For the goal `hindsight.OnTime` it is (requests on time
    in the run) / (most requests on time in any schedule), at most 1.

    In rounds, the cost is that of a schedule with the completion times of the run: `Run.schedule`,
    or `Run.preemptive_schedule` if the optimum is that of ``preemption="keep"``. In seconds a run
    is a schedule itself.

    Parameters
    ----------
    run : Run
        A run that `online.simulate` returned.
    result : Result
        The result of `hindsight.solve` for the same requests, memory limit and batch time.

    Raises
    ------
    MismatchError
        The run and the result belong to different problems.
    IncompleteRunError
        The run left requests unserved.
    NoScheduleError
        The run kept the tokens of requests that it preempted, and the optimum is over schedules
        without preemption. None of these has the completion times of the run.
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
    # The optimum is the best cost of a set of schedules, and the schedule of the run is one of
    # them. So its cost is also a bound on the optimum.
    if goal in (LATENCY, MAKESPAN):
        upper = cost if upper is None else min(cost, upper)
    else:
        lower = max(cost, lower)
    return Interval.of_share(cost, Interval.between(lower, upper))


def schedule_of(run: Run, preemption: str) -> Any:
    """Return the schedule of a run that may be compared with the optimum for ``preemption``.

    In rounds it is `Run.preemptive_schedule` for ``"keep"`` and `Run.schedule` for other values.

    Raises
    ------
    IncompleteRunError
        The run left requests unserved.
    NoScheduleError
        No schedule of this kind has the completion times of the run.
    """
    keeps = preemption == "keep" and run.instance is not None
    return run.preemptive_schedule if keeps else run.schedule


def cost_of(run: Run, schedule: Any, goal: Any, level: Any) -> Latency:
    """Return the cost of the schedule of a run.

    By ``goal`` it is the total latency, the makespan, or the number of requests that meet the
    service level ``level``.

    Raises
    ------
    NoScheduleError
        Fewer requests are on time in the schedule than in the run. The schedule has no pauses, so
        its first tokens may come later.
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
    """Return the total latency of a schedule, in rounds or seconds.

    Seconds are an exact fraction if the batch time can be evaluated exactly.
    """
    if isinstance(schedule, FleetSchedule):
        return sum(total_of(part) for part in schedule.parts if part is not None)
    if isinstance(schedule, SecondsSchedule):
        from hindsight.outcomes.goals import exact_total_latency

        exact = exact_total_latency(schedule)
        return Fraction(schedule.total_latency) if exact is None else exact
    total: int = schedule.total_latency
    return total
