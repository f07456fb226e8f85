"""Least numbers with which enough requests can be on time, by bisection over solves.

*The shortest tail of latency.* If fewer than k of n requests can be on time with limit x, the k-th
smallest latency of every schedule is above x. If a schedule has k on time, its own k-th smallest
latency is an upper end. A longer limit never has fewer requests on time.

*The fewest replicas that serve a share of the requests on time.* Another replica may stay empty, so
the most requests on time do not fall with the replicas. Where a number of replicas is proved to
have too few on time, so have all smaller ones; where a schedule reaches the share, so does one on
every larger number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hindsight.direct import solve_directly
from hindsight.outcomes.goals import OnTime, Tail
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import Bound, Progress, Result
from hindsight.prices.deadlines import own_times
from hindsight.prices.minorants import affine_minorants, has_minorants, is_known
from hindsight.rounds.on_time import ALONE
from hindsight.runtime.clock import SPARE_SECONDS
from hindsight.runtime.search import Search
from hindsight.seconds.solving import OWN_TIME
from instances import Instance, InvalidTypeError, ServiceLevel, Workload
from instances.arrays import FloatArray
from instances.problem.instance import MOST_REPLICAS
from instances.problem.workload import as_problem
from instances.validation import as_fraction

PROBE_SHARE = 0.25
"""Share of the time left for each number that is tried."""

WIDTH = 0.01
"""In seconds, limits that differ by less than this share are not told apart."""

SHORTEST = 1e-9
"""Shortest limit that is tried."""


class _Bisection:
    """Bisection for the least number with which enough requests can be on time.

    A solve may leave open whether a number is too small, so each end has a bisection of its own.

    Parameters
    ----------
    search : Search
        The search options; the numbers that are tried share the time.
    needed : int
        Requests that must be on time.
    low, high : float
        A number known to be too small, and one known to suffice.
    is_whole : bool
        Whether numbers are integers.

    Attributes
    ----------
    low, high : float
        The largest number known to be too small, and the smallest known to suffice.
    """

    def __init__(self, search: Search, needed: int, low: Any, high: Any, *, is_whole: bool) -> None:
        self._search, self._needed, self._is_whole = search, needed, is_whole
        self.low, self.high = low, high
        # The smallest number tried that may suffice, and the largest that may be too small.
        self._unproved, self._failed, self._tried = math.inf, -math.inf, 0

    def numbers(self) -> Iterator[Any]:
        """Yield numbers to try, for either end in turn; after the first, while there is time."""
        if math.isinf(self.high):
            yield self.low
        while not (self._tried and self._search.clock.must_stop()):
            maybe, failed = min(self._unproved, self.high), max(self._failed, self.low)
            wide = [one for one in ((self.low, maybe), (failed, self.high)) if self._is_wide(*one)]
            if not wide:
                return
            low, high = wide[self._tried % len(wide)]
            middle = math.sqrt(max(low, SHORTEST) * high)
            yield min(max(math.floor(middle), low + 1), high - 1) if self._is_whole else middle

    def attempt(self, number: float, problem: Instance | Workload, goal: OnTime) -> Result:
        """Find the most requests on time with a number, until it is clear if they are enough."""
        self._tried += 1
        limit = PROBE_SHARE * self._search.clock.seconds_left()
        part = self._search.part(limit, progress=self._follow)
        found = solve_directly(Problem.checked(problem, goal), part)
        if found.upper_bound < self._needed:
            self.low = max(self.low, number)
        else:
            self._unproved = min(self._unproved, number)
        if found.lower_bound < self._needed:
            self._failed = max(self._failed, number)
        return found

    def _follow(self, news: Progress) -> bool:
        if self._search.progress is not None and self._search.progress(news) is True:
            self._search.clock.interrupt()
        return bool(news.lower_bound >= self._needed or news.upper_bound < self._needed)

    def _is_wide(self, low: float, high: float) -> bool:
        return high - low > 1 if self._is_whole else max(low, SHORTEST) < (1 - WIDTH) * high


def solve_tail(stated: Problem, search: Search) -> Result:
    """Find the least quantile of latency that any scheduler can reach, or an interval around it.

    Parameters
    ----------
    stated : Problem
        The problem, whose goal is `Tail`.
    search : Search
        The search options, checked; the limits that are tried share the time.
    """
    problem, goal, clock = stated.source, stated.goal, search.clock
    assert isinstance(goal, Tail)
    is_whole = not stated.in_seconds
    needed = math.ceil(as_fraction(goal.quantile, None, "quantile") * len(problem))
    least = np.sort(_own_times(problem, goal))[needed - 1].item()
    bisection = _Bisection(search, needed, least - is_whole, math.inf, is_whole=is_whole)
    certified = is_whole or is_known(problem.batch_time)
    best: Any = None
    with clock.listening():
        for number in bisection.numbers():
            low = bisection.low
            # Late requests are served too, so that there is a schedule whatever the limit is.
            level = OnTime(ServiceLevel(**{goal.of: max(number, SHORTEST)}), "serve")
            found = bisection.attempt(number, problem, level)
            certified = found.certified if bisection.low > low else certified
            times: Any = found.schedule.latencies
            if goal.of == "first_token":
                times = found.schedule.first_token_times - problem.arrival_times
            # Rounds are whole, seconds are floats.
            reached = np.sort(times)[needed - 1].item()
            if reached < bisection.high:
                best, bisection.high = found.schedule, reached
    lower = bisection.low + is_whole
    return Result(
        problem=problem,
        goal=goal,
        preemption=stated.preemption,
        schedule=best,
        cost=bisection.high,
        bounds={"requests on time": Bound(lower, certified)},
        stop_reason="proof" if lower == bisection.high else clock.stop_reason(SPARE_SECONDS),
        runtime=clock.seconds(),
    )


def _own_times(problem: Instance | Workload, goal: Tail) -> FloatArray:
    """Return the time that each request takes alone at least, shape (n,)."""
    is_latency = goal.of == "latency"
    if isinstance(problem, Instance):
        return np.where(is_latency, problem.output_lengths, 1)
    if not has_minorants(problem.batch_time):
        return np.zeros(len(problem))
    minorants = affine_minorants(problem.batch_time, problem.memory_limit)
    longest: FloatArray = np.max([own_times(problem, one)[is_latency] for one in minorants], 0)
    # A little less, for rounding.
    return longest * (1 - 1e-9)


@dataclass(frozen=True, eq=False)
class CapacityResult:
    """An interval around the fewest replicas that serve a share of the requests on time.

    Attributes
    ----------
    problem : Instance or Workload
        The requests; its own number of replicas does not matter.
    goal : OnTime
        When a request is on time.
    share : float
        Share of the requests that must be on time.
    lower_bound : int or None
        No scheduler and router reach the share with fewer replicas. None where no number of
        replicas suffices, as too many requests would be late even alone.
    upper_bound : int or None
        A known schedule reaches the share with so many replicas; None where none is known.
    tried : tuple[Result, ...]
        Most requests on time with each number of replicas tried, fewest replicas first.
    """

    problem: Instance | Workload
    goal: OnTime
    share: float
    lower_bound: int | None
    upper_bound: int | None
    tried: tuple[Result, ...]

    def __repr__(self) -> str:
        told = f"[{self.lower_bound}, {self.upper_bound}] replicas"
        return f"CapacityResult({self.problem!r}, {100 * self.share:g} % on time with {told})"


def fewest_replicas(
    problem: Workload | Instance,
    goal: OnTime,
    share: float = 0.99,
    time_limit: float | None = None,
    *,
    threads: int | None = None,
    seed: int = 0,
    progress: Callable[[Progress], object] | None = None,
) -> CapacityResult:
    """Find the fewest replicas with which any scheduler and router reach a share on time.

    The arrivals and the memory of each replica stay as they are; the replicas of ``problem`` do not
    count.

    Parameters
    ----------
    problem : Instance or Workload
        The requests: an instance in rounds, or a workload with its batch time in seconds.
    goal : OnTime
        When a request is on time.
    share : float, default 0.99
        Share of the requests that must be on time, above 0, at most 1.
    time_limit : float or None, default None
        Seconds, shared by the numbers of replicas that are tried, or None.
    threads : int or None, default None
        See `hindsight.solve`.
    seed : int, default 0
        Seed of every random choice.
    progress : Callable[[Progress], object] or None, default None
        Called with the improvements of each number of replicas; returning True ends the search.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A parameter is invalid.
    """
    search = Search.checked(time_limit, threads=threads, seed=seed, progress=progress)
    return replicas_within(problem, goal, share, search)


def replicas_within(
    problem: Workload | Instance, goal: OnTime, share: float, search: Search
) -> CapacityResult:
    """Do as `fewest_replicas` does, with search options that may have a clock of their own."""
    exact = as_fraction(share, None, "share", above=0, maximum=1)
    problem = as_problem(problem)
    if not isinstance(goal, OnTime):
        raise InvalidTypeError(None, "goal", goal, "is not OnTime(...)")
    needed = math.ceil(exact * len(problem))
    most = min(len(problem), MOST_REPLICAS)
    known: dict[int, Result] = {}
    bisection = _Bisection(search, needed, 0, most + 1, is_whole=True)
    with search.clock.listening():
        for replicas in bisection.numbers():
            found = bisection.attempt(replicas, problem.with_replicas(replicas), goal)
            known[replicas] = found
            if found.lower_bound >= needed:
                bisection.high = replicas
            # Requests that are late alone are late on every number of replicas.
            hopeless = found.upper_bound < needed and found.best_bound in (ALONE, OWN_TIME)
            if hopeless:
                break
    return CapacityResult(
        problem=problem,
        goal=goal,
        share=float(exact),
        lower_bound=None if hopeless or bisection.low == len(problem) else bisection.low + 1,
        upper_bound=None if bisection.high > most else bisection.high,
        tried=tuple(known[one] for one in sorted(known)),
    )
