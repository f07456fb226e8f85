"""Least latency limit, or fewest replicas, for enough requests on time: bisection over solves.

*The least quantile of latency* (`hindsight.Tail`). If fewer than k of n requests can be on time
with latency limit x, then the k-th smallest latency of every schedule is above x. If a schedule has
k requests on time, its k-th smallest latency is an upper bound. The most requests on time never
fall as the limit grows.

*The fewest replicas that serve a share of the requests on time.* An additional replica may stay
empty, so the most requests on time never fall as replicas are added. If too few requests can be on
time with some number of replicas, the same holds for every smaller number. If a schedule reaches
the share, the same holds for every larger number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hindsight.outcomes.goals import OnTime, Tail
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import Bound, Progress, Result, StopReason
from hindsight.prices.deadlines import own_times
from hindsight.prices.minorants import affine_minorants, is_known
from hindsight.rounds.on_time import ALONE
from hindsight.runtime.clock import SPARE_SECONDS, Clock
from hindsight.runtime.search import Search
from hindsight.seconds.solving import OWN_TIME
from hindsight.solving import solve_directly
from instances import Instance, InvalidTypeError, ServiceLevel, Workload
from instances.arrays import FloatArray
from instances.problem.instance import MOST_REPLICAS
from instances.problem.workload import as_problem
from instances.progress import shows_progress
from instances.validation import as_fraction

PROBE_SHARE = 0.25
"""Share of the time left that the solve for one latency limit or one number of replicas gets."""

WIDTH = 0.01
"""Bisection for a latency limit in seconds ends once (upper - lower) / upper is at most this."""

SHORTEST = 1e-9
"""Shortest latency limit that is tried, in seconds."""


class _Bisection:
    """Bisection for the least number with which enough requests can be on time.

    The number is a latency limit, or a number of replicas. To try a number, a solve maximises the
    requests on time with it. If the solve ends early, it may leave open whether the number is too
    small. So the lower bound and the upper bound on the least number are improved by two bisections
    in turn.

    Parameters
    ----------
    search : Search
        Search options. The solves for all tried numbers share the time limit.
    needed : int
        Number of requests that must be on time.
    low, high : float
        A number that is proved to be too small, and a number that suffices. ``high`` is infinite
        if no number is known to suffice.
    is_whole : bool
        Whether only integers are tried.

    Attributes
    ----------
    low : float
        Largest number that is proved to be too small so far.
    high : float
        Smallest number so far with which a schedule has enough requests on time.
    """

    def __init__(self, search: Search, needed: int, low: Any, high: Any, *, is_whole: bool) -> None:
        self._search, self._needed, self._is_whole = search, needed, is_whole
        self.low, self.high = low, high
        # ``_unproved`` is the smallest tried number that is not proved too small. ``_failed`` is
        # the largest tried number for which no schedule with enough requests on time was found.
        # ``_tried`` is how many numbers were tried so far.
        self._unproved, self._failed, self._tried = math.inf, -math.inf, 0

    def numbers(self) -> Iterator[Any]:
        """Yield numbers to try as long as there is time, but at least one.

        The least sufficient number is the least one with which enough requests can be on time.
        Numbers are chosen in turn to raise the lower bound on it and to reduce the upper bound.
        """
        if math.isinf(self.high):
            yield self.low
        while not (self._tried and self._search.clock.must_stop()):
            maybe, failed = min(self._unproved, self.high), max(self._failed, self.low)
            wide = [one for one in ((self.low, maybe), (failed, self.high)) if self._is_wide(*one)]
            if not wide or self.high - self.low - self._is_whole <= self._search.gap * self.high:
                return
            low, high = wide[self._tried % len(wide)]
            middle = math.sqrt(max(low, SHORTEST) * high)
            yield min(max(math.floor(middle), low + 1), high - 1) if self._is_whole else middle

    def attempt(self, number: float, problem: Instance | Workload, goal: OnTime) -> Result:
        """Try a number: maximise the requests on time until it is known whether they are enough.

        ``problem`` or ``goal`` already contains ``number``: the problem as its number of replicas,
        or the goal as its latency limit. Return the result of this solve.
        """
        self._tried += 1
        clock = self._search.clock
        clock = Clock(PROBE_SHARE * clock.seconds_left(), clock.must_stop)
        part = replace(self._search, clock=clock, start=None, progress=self._follow, gap=0.0)
        found = solve_directly(Problem.checked(problem, goal), part)
        if found.upper_bound < self._needed:
            self.low = max(self.low, number)
        else:
            self._unproved = min(self._unproved, number)
        if found.lower_bound < self._needed:
            self._failed = max(self._failed, number)
        return found

    def _follow(self, news: Progress) -> bool:
        self._search.report(news)
        return bool(news.lower_bound >= self._needed or news.upper_bound < self._needed)

    def _is_wide(self, low: float, high: float) -> bool:
        return high - low > 1 if self._is_whole else max(low, SHORTEST) < (1 - WIDTH) * high


def solve_tail(stated: Problem, search: Search) -> Result:
    """Return bounds on a quantile of latency (or of time to first token) in the best schedule.

    The best schedule is the one with the smallest quantile. A bisection tries limits on the
    latencies (or on the times to first token). For each limit, it maximises the number of requests
    that keep the limit. If this number cannot reach the quantile's share of all requests, the
    quantile of every schedule is above the limit.

    Parameters
    ----------
    stated : Problem
        The problem, whose goal is `Tail`: the quantile, and which times it is of.
    search : Search
        Search options, already checked. The solves for all latency limits share the time limit.
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
            # A request is on time if its latency (or time to first token) is at most ``number``.
            # With "serve", schedules serve late requests too, so that each contains all requests.
            level = OnTime(ServiceLevel(**{goal.of: max(number, SHORTEST)}), "serve")
            found = bisection.attempt(number, problem, level)
            certified = found.certified if bisection.low > low else certified
            times: Any = found.schedule.latencies
            if goal.of == "first_token":
                times = found.schedule.first_token_times - problem.arrival_times
            # ``reached`` is the quantile of the times in the schedule found: the ``needed``-th
            # smallest time. It is an integer in rounds, or a float in seconds.
            reached = np.sort(times)[needed - 1].item()
            if reached < bisection.high:
                best, bisection.high = found.schedule, reached
    lower = bisection.low + is_whole
    is_close = bisection.high - lower <= search.gap * bisection.high
    ended: StopReason = "gap" if is_close else clock.stop_reason(SPARE_SECONDS)
    return Result(
        problem=problem,
        goal=goal,
        preemption=stated.preemption,
        schedule=best,
        cost=bisection.high,
        bounds={"requests on time": Bound(lower, certified)},
        stop_reason="proof" if lower == bisection.high else ended,
        runtime=clock.seconds(),
    )


def _own_times(problem: Instance | Workload, goal: Tail) -> FloatArray:
    """Return a lower bound on the latency or time to first token of each request, shape (n,).

    ``goal.of`` says which of the two. The bound is the least time that the request takes if it is
    served alone: in rounds for an instance, and in seconds for a workload.
    """
    is_latency = goal.of == "latency"
    if isinstance(problem, Instance):
        return np.where(is_latency, problem.output_lengths, 1)
    if not is_known(problem.batch_time):
        return np.zeros(len(problem))
    minorants = affine_minorants(problem.batch_time, problem.memory_limit)
    longest: FloatArray = np.max([own_times(problem, one)[is_latency] for one in minorants], 0)
    # Reduce the lower bounds in seconds slightly, as a margin for rounding errors.
    return longest * (1 - 1e-9)


@dataclass(frozen=True, eq=False)
class CapacityResult:
    """Bounds on the fewest replicas that serve a share of the requests on time.

    Attributes
    ----------
    problem : Instance or Workload
        The requests and the machine. Its own number of replicas is ignored.
    goal : OnTime
        Service level: the limits that a request keeps if it is on time.
    share : float
        Share of the requests that must be on time.
    lower_bound : int or None
        Lower bound on the number of replicas: no scheduler and router reach the share with fewer.
        None if no number of replicas suffices, because too many requests are late even if served
        alone.
    upper_bound : int or None
        Number of replicas with which a schedule found by the search reaches the share. None if no
        such schedule was found.
    tried : tuple[Result, ...]
        Result of the solve for each number of replicas that was tried, fewest replicas first.
    """

    problem: Instance | Workload
    goal: OnTime
    share: float
    lower_bound: int | None
    upper_bound: int | None
    tried: tuple[Result, ...] = field(repr=False)


@shows_progress
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
    """Find the fewest replicas with which some scheduler and router serve enough requests on time.

    The arrivals and the memory of each replica stay the same. The number of replicas in ``problem``
    is ignored.

    Parameters
    ----------
    problem : Instance or Workload
        The requests: an instance, whose times are in rounds, or a workload, whose times are in
        seconds.
    goal : OnTime
        Service level: the limits that a request keeps if it is on time.
    share : float, default 0.99
        Share of the requests that must be on time, above 0 and at most 1.
    time_limit : float or None, default None
        Time limit in seconds for the solves with all numbers of replicas together, or None.
    threads : int or None, default None
        See `hindsight.solve`.
    seed : int, default 0
        Seed of every random choice.
    progress : Callable[[Progress], object] or bool or None, default None
        Called at every improvement of a bound in each solve. Returning True ends the search. See
        `hindsight.solve`.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A parameter is invalid.
    """
    search = Search.checked(time_limit, threads=threads, seed=seed, progress=progress)
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
            found = bisection.attempt(replicas, problem.replaced(replicas=replicas), goal)
            known[replicas] = found
            if found.lower_bound >= needed:
                bisection.high = replicas
            # Requests that are late even if served alone are late with every number of replicas. If
            # fewer than ``needed`` other requests are left, no number of replicas suffices.
            alone = [found.bounds[one].value for one in (ALONE, OWN_TIME) if one in found.bounds]
            hopeless = len(problem) - max(alone, default=0) < needed
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
