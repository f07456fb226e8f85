"""The shortest tail of latency that any scheduler can reach, by bisection on a service level.

If fewer than k of n requests can be on time with limit x, the k-th smallest latency of every
schedule is above x. If a schedule has k on time, its own k-th smallest latency is an upper end.
Both ends move with every limit tried, as a longer limit never has fewer requests on time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from hindsight.runtime.search import Search
from hindsight.seconds.deadlines import own_times
from hindsight.seconds.minorants import affine_minorants, has_minorants, is_known
from instances import Instance, InvalidValueError, ServiceLevel, Workload
from instances.arrays import FloatArray
from instances.problem.schedule import TimedSchedule
from instances.problem.workload import as_problem
from instances.validation import as_fraction

from .attainment import attainment

TailLimit = Literal["latency", "first_token"]
"""Which time the tail is of."""

WIDTH = 0.01
"""In seconds, limits that differ by less than this share are not told apart."""

PROBES = 12
"""About how many limits are tried within a time limit."""


@dataclass(frozen=True, eq=False)
class TailResult:
    """An interval around the least quantile of latency that any scheduler can reach.

    Attributes
    ----------
    problem : Instance or Workload
        The requests.
    quantile : float
        0.99 for p99: the k-th smallest of n values, where k is n times this, rounded up.
    limit : {"latency", "first_token"}
        Time from arrival to the last token, or to the first.
    lower_bound : float
        No scheduler has a smaller quantile, in rounds or seconds.
    upper_bound : float
        The quantile of ``schedule``.
    schedule : Schedule, SecondsSchedule or FleetSchedule
        A schedule of all requests, checked.
    certified : bool
        Whether ``lower_bound`` is proved in exact arithmetic or with directed rounding.
    runtime : float
        Seconds.
    """

    problem: Instance | Workload
    quantile: float
    limit: TailLimit
    lower_bound: float
    upper_bound: float
    schedule: TimedSchedule
    certified: bool
    runtime: float

    def __repr__(self) -> str:
        told = f"[{self.lower_bound:.6g}, {self.upper_bound:.6g}] {self.problem.unit}"
        return f"TailResult({self.problem!r}, {self.limit} at {self.quantile:g} in {told})"


def tail(
    problem: Workload | Instance,
    quantile: float,
    time_limit: float | None = None,
    *,
    limit: TailLimit = "latency",
    threads: int | None = None,
    seed: int = 0,
    should_stop: Callable[[], bool] | None = None,
) -> TailResult:
    """Find the least quantile of latency that any scheduler can reach, or an interval around it.

    Parameters
    ----------
    problem : Instance or Workload
        The requests: an instance in rounds, or a workload with its batch time in seconds.
    quantile : float
        Above 0, at most 1: 0.99 is p99.
    time_limit : float or None, default None
        Seconds, shared by the limits that are tried, or None.
    limit : {"latency", "first_token"}, default "latency"
        Time from arrival to the last token, or to the first.
    threads : int or None, default None
        See `hindsight.attainment`.
    seed : int, default 0
        Seed of every random choice.
    should_stop : Callable[[], bool] or None, default None
        Polled; returning True interrupts. With None Ctrl-C does.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A parameter is invalid.
    """
    search = Search.checked(time_limit, should_stop, threads=threads, seed=seed)
    share = as_fraction(quantile, None, "quantile", above=0, maximum=1)
    if limit not in get_args(TailLimit):
        known = ", ".join(get_args(TailLimit))
        raise InvalidValueError(None, "limit", limit, f"is not one of {known}")
    bisection = _Bisection(as_problem(problem, "problem"), share, limit, search)
    with search.clock.listening():
        bisection.run()
    return bisection.result()


class _Bisection:
    """Bisection: limits known to be too short or long enough for k requests, and the interval."""

    def __init__(
        self,
        problem: Instance | Workload,
        quantile: Fraction,
        limit: TailLimit,
        search: Search,
    ) -> None:
        self._problem, self._quantile, self._limit = problem, quantile, limit
        self._in_rounds, self._search = isinstance(problem, Instance), search
        self._count = math.ceil(quantile * len(problem))
        self._certified = self._in_rounds or is_known(problem.batch_time)
        self._lower = float(np.sort(self._own())[self._count - 1])
        self._schedule: TimedSchedule | None = None
        self._upper = math.inf

    def run(self) -> None:
        """Halve what is open below and above, in turn, as long as there is time."""
        is_whole = self._in_rounds
        # Late requests are served too, so that there is a schedule whatever the limit is.
        self._try(max(self._lower, 1e-9), PROBES)
        # The least length tried that was not proved too short, the longest that was not reached.
        unproved, failed = self._upper, self._lower - is_whole
        for tried in range(10 * PROBES):
            sides = [(self._lower - is_whole, unproved), (failed, self._upper)]
            sides = [one for one in sides if not self._is_narrow(*one)]
            if not sides or self._search.clock.must_stop():
                return
            low, high = sides[tried % len(sides)]
            length = math.sqrt(max(low, 1e-9) * high)
            if is_whole:
                length = float(min(max(math.floor(length), low + 1), high - 1))
            is_short, is_reached = self._try(length, max(2, PROBES - tried))
            if not is_short:
                unproved = min(unproved, length)
            if not is_reached:
                failed = max(failed, length)

    def result(self) -> TailResult:
        """Return the present interval."""
        assert self._schedule is not None
        return TailResult(
            problem=self._problem,
            quantile=float(self._quantile),
            limit=self._limit,
            lower_bound=self._lower,
            upper_bound=self._upper,
            schedule=self._schedule,
            certified=self._certified,
            runtime=self._search.clock.seconds(),
        )

    def _is_narrow(self, low: float, high: float) -> bool:
        if self._in_rounds:
            return high - low <= 1
        return high - low <= WIDTH * high

    def _own(self) -> FloatArray:
        """Return the time that each request takes alone at least, shape (n,)."""
        problem, is_latency = self._problem, self._limit == "latency"
        if not isinstance(problem, Workload):
            return np.where(is_latency, problem.output_lengths, 1).astype(np.float64)
        if not has_minorants(problem.batch_time):
            return np.zeros(len(problem))
        minorants = affine_minorants(problem.batch_time, problem.memory_limit)
        longest: FloatArray = np.max([own_times(problem, one)[is_latency] for one in minorants], 0)
        # A little less, for rounding.
        return longest * (1 - 1e-9)

    def _try(self, length: float, probes: int) -> tuple[bool, bool]:
        """Try a limit; return whether it is proved too short, and whether a schedule reaches it."""
        clock = self._search.clock
        left = clock.limit_left()
        found = attainment(
            self._problem,
            ServiceLevel(**{self._limit: length}),
            None if left is None else left / probes,
            late="serve",
            threads=self._search.threads,
            seed=self._search.seed,
            progress=False,
            should_stop=clock.must_stop,
        )
        is_short = found.upper_bound < self._count
        if is_short:
            # In rounds limits are whole: above one is the next.
            longer = length + 1 if self._in_rounds else length
            if longer > self._lower:
                self._lower, self._certified = longer, found.certified
        if found.schedule is not None:
            self._keep(found.schedule)
        return is_short, found.lower_bound >= self._count

    def _keep(self, schedule: TimedSchedule) -> None:
        """Keep the schedule with the smallest quantile."""
        times: Any = schedule.latencies
        if self._limit == "first_token":
            times = schedule.first_token_times - self._problem.arrival_times
        reached = float(np.sort(times)[self._count - 1])
        if reached < self._upper:
            self._upper, self._schedule = reached, schedule
