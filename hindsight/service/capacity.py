"""The fewest replicas that serve a share of the requests on time, or an interval around them.

Another replica may stay empty, so the most requests on time do not fall with the replicas. Where a
number of replicas is proved to have too few on time, so have all smaller ones; where a schedule
reaches the share, so does one on every larger number. Both ends are found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hindsight.outcomes.goals import OnTime
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import Progress, Result
from hindsight.rounds.on_time import ALONE
from hindsight.runtime.search import Search
from instances import Instance, InvalidTypeError, Workload
from instances.problem.instance import MOST_REPLICAS
from instances.problem.workload import as_problem
from instances.validation import as_fraction

from .attainment import solve_on_time
from .seconds import OWN_TIME

PROBE_SHARE = 0.25
"""Share of the time left for each number of replicas that is tried."""


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
    """Find them with search options that may have a clock of their own; see `fewest_replicas`."""
    exact = as_fraction(share, None, "share", above=0, maximum=1)
    problem = as_problem(problem)
    if not isinstance(goal, OnTime):
        raise InvalidTypeError(None, "goal", goal, "is not OnTime(...)")
    needed = math.ceil(exact * len(problem))
    most = min(len(problem), MOST_REPLICAS)
    clock, known = search.clock, dict[int, Result]()

    def tried(replicas: int) -> Result:
        if replicas in known:
            return known[replicas]

        def hear(news: Progress) -> bool:
            if search.progress is not None and search.progress(news) is True:
                clock.interrupt()
            return bool(news.lower_bound >= needed or news.upper_bound < needed)

        left = clock.limit_left()
        limit = None if left is None else PROBE_SHARE * left
        part = search.part(limit, progress=hear)
        tried = Problem.checked(problem.with_replicas(replicas), goal)
        known[replicas] = solve_on_time(tried, part)
        return known[replicas]

    def is_hopeless(found: Result) -> bool:
        # Requests that are late alone are late on every number of replicas.
        return found.upper_bound < needed and found.best_bound in (ALONE, OWN_TIME)

    with clock.listening():
        largest = 1
        while tried(largest).lower_bound < needed and largest < most:
            if is_hopeless(known[largest]) or clock.must_stop():
                break
            largest = min(2 * largest, most)
        for end in ("upper_bound", "lower_bound"):
            counts = range(1, largest + 1)
            while counts and not clock.must_stop():
                middle = len(counts) // 2
                reached = getattr(tried(counts[middle]), end) >= needed
                counts = counts[:middle] if reached else counts[middle + 1 :]
    # More replicas never serve fewer in time.
    too_few = max((one for one, found in known.items() if found.upper_bound < needed), default=0)
    enough = [one for one, found in known.items() if found.lower_bound >= needed]
    hopeless = too_few == len(problem) or is_hopeless(known[largest])
    return CapacityResult(
        problem=problem,
        goal=goal,
        share=float(exact),
        lower_bound=None if hopeless else too_few + 1,
        upper_bound=min(enough, default=None),
        tried=tuple(known[one] for one in sorted(known)),
    )
