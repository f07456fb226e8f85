"""Competitive ratios as intervals, and the one way in which they and bounds are printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from instances import Instance, InvalidTypeError, InvalidValueError, SecondsSchedule, Workload
from instances.service_level import AnyLevel
from online.simulation.errors import InternalError
from online.simulation.run import NoScheduleError, Run

if TYPE_CHECKING:
    from hindsight import Result

ROUNDS, SECONDS = "rounds", "seconds"
"""Units of latency."""

DECIMALS = 4
"""Digits after the point of a printed ratio."""


Latency: TypeAlias = int | Fraction
"""Rounds, or seconds."""


@runtime_checkable
class HindsightBounds(Protocol):
    """Result of `hindsight.solve`, as far as a ratio needs it."""

    @property
    def problem(self) -> Instance | Workload:
        """The problem solved: in rounds, or in seconds."""

    @property
    def upper_bound(self) -> Any:
        """Total latency of a feasible schedule: an integer, a fraction, or None."""

    @property
    def lower_bound(self) -> Any:
        """A proved lower bound on the optimum."""


class MismatchError(ValueError):
    """A run and an optimum belong to different instances."""


def rounded(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """Write what is known exactly to the nearest decimal."""
    return _decimal(number, round, decimals)


def rounded_down(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """Write a lower bound so that what is printed is one too."""
    return _decimal(number, math.floor, decimals)


def rounded_up(number: Fraction | float, decimals: int = DECIMALS) -> str:
    """Write an upper bound so that what is printed is one too."""
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
    """Interval in which a number lies: exact fractions, None where an end is unknown.

    Attributes
    ----------
    lower, upper : Fraction or None
        The ends.
    compared_with : str or None, default None
        Of the ratio of a trial, the name of the optimum; it does not count in comparisons.
    """

    lower: Fraction | None
    upper: Fraction | None
    compared_with: str | None = field(default=None, compare=False, repr=False, kw_only=True)

    @classmethod
    def between(cls, lower: Latency | None, upper: Latency | None) -> Interval:
        """Make it from its ends."""
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
        """Bound a mean: it lies between the means of the ends, where all are known."""
        lowers, uppers = ([getattr(one, end) for one in intervals] for end in ("lower", "upper"))
        return cls(*(_mean(ends) for ends in (lowers, uppers)))

    @classmethod
    def largest_of(cls, intervals: Sequence[Interval]) -> Interval:
        """Bound the largest: it is not below any lower end, nor above all upper ones."""
        lowers = [one.lower for one in intervals if one.lower is not None]
        uppers = [one.upper for one in intervals if one.upper is not None]
        all_known = len(uppers) == len(intervals)
        return cls(max(lowers, default=None), max(uppers, default=None) if all_known else None)

    @classmethod
    def sum_of(cls, intervals: Sequence[Interval]) -> Interval:
        """Bound a sum: it lies between the sums of the ends, where all are known."""
        return cls.mean_of(intervals).times(len(intervals)) if intervals else cls.between(0, 0)

    @classmethod
    def common_to(cls, intervals: Sequence[Interval]) -> Interval:
        """Bound a number that lies in every one of the intervals."""
        lowers = [one.lower for one in intervals if one.lower is not None]
        uppers = [one.upper for one in intervals if one.upper is not None]
        return cls(max(lowers, default=None), min(uppers, default=None))

    @property
    def is_exact(self) -> bool:
        """Tell whether both ends are known and equal."""
        return self.lower is not None and self.lower == self.upper

    def below(self, number: Latency) -> Interval:
        """Subtract it from a number."""
        ends = (self.upper, self.lower)
        return Interval(*(None if end is None else number - end for end in ends))

    def times(self, factor: Latency) -> Interval:
        """Multiply by a number that is not below 0."""
        return Interval(
            *(None if end is None else end * factor for end in (self.lower, self.upper))
        )

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Both ends as the nearest floats."""
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
"""Where a number lies of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of a policy's total latency to an optimum, as an interval.

    Attributes
    ----------
    total_latency : int or Fraction
        The policy's, in ``unit``.
    optimum_upper, optimum_lower : int or Fraction or None
        Bounds of the optimum; None where nothing is known.
    preemptive : bool, default False
        Whether it is the preemptive optimum, instead of that without preemption.
    unit : str, default "rounds"
        Of the three latencies: ``"rounds"`` or ``"seconds"``.
    total_output_length : int or None, default None
        Rounds that no schedule's total latency is below; None in seconds, where how long a request
        takes by itself depends on the batches it is in.
    """

    total_latency: Latency
    optimum_upper: Latency | None
    optimum_lower: Latency | None
    preemptive: bool = False
    unit: str = ROUNDS
    total_output_length: int | None = None

    @property
    def waiting_ratio(self) -> Interval | None:
        """Ratio of what exceeds the output lengths; None where the optimum's may be 0."""
        if self.total_output_length is None:
            return None
        lengths = self.total_output_length
        optimum = waiting_of_optimum(self.optimum_lower, self.optimum_upper, lengths)
        return waiting_ratio(self.total_latency - lengths, optimum)

    @property
    def interval(self) -> Interval:
        """The ratio in exact fractions."""
        return Interval.of_share(
            self.total_latency, Interval.between(self.optimum_lower, self.optimum_upper)
        )

    @property
    def lower(self) -> float | None:
        """Total latency / upper bound: the policy is at least this far from the optimum."""
        return self.interval.ends[0]

    @property
    def upper(self) -> float | None:
        """Total latency / lower bound: the policy is at most this far from the optimum."""
        return self.interval.ends[1]

    @property
    def is_exact(self) -> bool:
        """Tell whether the optimum is proved, so that the interval is a point."""
        return self.interval.is_exact

    @property
    def exact(self) -> Fraction | None:
        """The ratio as a fraction, where the optimum is proved."""
        return self.interval.lower if self.is_exact else None

    def __str__(self) -> str:
        return str(self.interval)

    def __repr__(self) -> str:
        decimals = 0 if self.unit == ROUNDS else DECIMALS
        total, optimum = (
            f"{Interval.between(*ends).text(decimals)} {self.unit}"
            for ends in (
                (self.total_latency, self.total_latency),
                (self.optimum_lower, self.optimum_upper),
            )
        )
        return f"Ratio({self}, total latency {total}, optimum {optimum})"


def _mean(ends: Sequence[Fraction | None]) -> Fraction | None:
    known = [end for end in ends if end is not None]
    return sum(known, Fraction(0)) / len(known) if known and len(known) == len(ends) else None


def waiting_of_optimum(
    lower: Latency | None, upper: Latency | None, total_output_length: int
) -> Interval:
    """Bound an optimum's waiting: its total latency beyond the output lengths, at least 0."""
    return Interval.between(
        None if lower is None else max(0, lower - total_output_length),
        None if upper is None else upper - total_output_length,
    )


def waiting_ratio(waiting: Latency | None, optimum: Interval) -> Interval | None:
    """Bound the ratio of a policy's waiting to an optimum's; None where that may be 0."""
    if waiting is None or not optimum.lower:
        return None
    return Interval.of_share(waiting, optimum)


def ratio(run: Run, result: HindsightBounds, *, preemptive: bool | None = None) -> Ratio:
    """Bound the competitive ratio of a run by hindsight bounds, in rounds or in seconds.

    In rounds the bounds are of the instance of ``run.schedule``: with prefill rounds, not that of
    the run. In seconds they are of the least total latency of every scheduler, so that every run
    has a ratio, and each is a schedule itself (`Run.schedule`, checked): the optimum is at
    most its total, and the lower end at least 1.

    Parameters
    ----------
    run : Run
        What the policy did.
    result : HindsightBounds
        Of `hindsight.solve`, for the same requests and batch time.
    preemptive : bool or None, default None
        Whether ``result`` must be of the preemptive optimum (``preemption="keep"``). None
        takes either, but for a run that preempted requests and kept their tokens, which needs the
        preemptive one. In seconds every scheduler may preempt, and only None is allowed.

    Raises
    ------
    MismatchError
        The run and the bounds belong to different requests or batch times, or the bounds are of the
        makespan or of the other optimum, or in rounds and the run in seconds, or the reverse.
    IncompleteRunError
        The run left requests unserved.
    NoScheduleError
        No schedule of the kind compared with has the completions of the run.
    InvalidTypeError
        ``run`` is not a `Run`, or ``result`` has no bounds.
    InvalidValueError
        ``preemptive`` in seconds.

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
    if isinstance(run, Run) and run.parts:
        reason = "is of several replicas: online.compare(..., routers=...) has ratios of these"
        raise InvalidTypeError(None, "run", run, reason)
    if not isinstance(run, Run):
        reason = "is not a Run of online.simulate"
        if isinstance(run, HindsightBounds):
            reason = "is a result of hindsight.solve: write ratio(run, result)"
        raise InvalidTypeError(None, "run", run, reason)
    if not isinstance(result, HindsightBounds):
        raise InvalidTypeError(None, "result", result, "is not a result of hindsight.solve")
    timed = run.batch_time is not None
    if timed != isinstance(result.problem, Workload):
        units = (SECONDS, ROUNDS) if timed else (ROUNDS, SECONDS)
        raise MismatchError("the run is in {}, and the hindsight bounds in {}".format(*units))
    if timed and preemptive is not None:
        raise InvalidValueError(None, "preemptive", preemptive, "has no meaning in seconds")
    given = not timed and getattr(result, "preemption", "never") != "never"
    wanted = not timed and (given or run.keeps_tokens) if preemptive is None else preemptive
    schedule: Any = run.preemptive_schedule if wanted else run.schedule
    if getattr(result, "goal", "latency") != "latency":
        raise MismatchError("the hindsight bounds are not of total latency")
    if given != wanted:
        kinds = ("of schedules without preemption", "of the preemptive optimum")
        raise MismatchError(f"the hindsight bounds are {kinds[given]}, not {kinds[wanted]}")
    if not schedule.problem.matches(result.problem):
        both = "the run and the hindsight bounds"
        raise MismatchError(f"{both} belong to different requests or batch times")
    if timed:
        total = seconds_of(schedule)
        return Ratio(total, min(total, result.upper_bound), result.lower_bound, unit=SECONDS)
    total, lengths = schedule.total_latency, schedule.problem.total_output_length
    bounds = (result.upper_bound, result.lower_bound)
    return Ratio(total, *bounds, wanted, total_output_length=lengths)


def share_of_attainable(run: Run, result: Result) -> Interval:
    """Bound the requests of a run on time, divided by the most that any scheduler has on time.

    Raises
    ------
    IncompleteRunError, NoScheduleError, MismatchError
        See `attainable_beside`.
    """
    attainable = attainable_beside(run, result)
    counted: Any = run if run.batch_time is None else run.schedule
    return Interval.of_share(int(counted.on_time(_level_of(result)).sum()), attainable)


def attainable_beside(run: Run, result: Result) -> Interval:
    """Bound the most requests on time, where the run itself is one of the schedules.

    In rounds the most is of schedules that run each request from start to end: of a run that held
    requests, of the schedule without pauses that has its completions (`Run.schedule`).

    Parameters
    ----------
    run : Run
        What the policy did.
    result : Result
        Of `hindsight.solve` for the goal `hindsight.OnTime`, for the same requests and batch time.

    Raises
    ------
    IncompleteRunError
        The run left requests unserved.
    NoScheduleError
        No schedule of the kind that ``result`` is of has as many requests on time as the run.
    MismatchError
        The two belong to different requests or batch times.
    """
    schedule = run.schedule
    if not schedule.problem.matches(result.problem):
        both = "the run and the requests on time"
        raise MismatchError(f"{both} belong to different requests or batch times")
    kept = int(schedule.on_time(_level_of(result)).sum())
    if run.batch_time is None and kept < run.on_time(_level_of(result)).sum():
        raise NoScheduleError(
            f"the run of {run.policy_name!r} held requests after their first tokens: without "
            "pauses fewer are on time"
        )
    if kept > result.upper_bound:
        raise InternalError(f"{run.policy_name}: {kept} on time exceed {result.upper_bound}")
    return Interval.between(max(kept, result.lower_bound), result.upper_bound)


def _level_of(result: Result) -> AnyLevel:
    """Return the service level of a result.

    Raises
    ------
    MismatchError
        It is not about requests on time.
    """
    level: AnyLevel | None = getattr(result.goal, "level", None)
    if level is None:
        raise MismatchError("the hindsight bounds are not of requests on time")
    return level


def seconds_of(schedule: SecondsSchedule) -> Fraction:
    """Return the total latency, with all decimals as written where these are known."""
    from hindsight.outcomes.goals import exact_total_latency

    exact = exact_total_latency(schedule)
    return Fraction(schedule.total_latency) if exact is None else exact
