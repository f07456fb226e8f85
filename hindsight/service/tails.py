"""The shortest tail of latency that any scheduler can reach, by bisection on a service level.

If fewer than k of n requests can be on time with limit x, the k-th smallest latency of every
schedule is above x. If a schedule has k on time, its own k-th smallest latency is an upper end.
Both ends move with every limit tried, as a longer limit never has fewer requests on time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hindsight.outcomes.goals import OnTime, Preemption, Tail
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import Bound, Result
from hindsight.prices.deadlines import own_times
from hindsight.prices.minorants import affine_minorants, has_minorants, is_known
from hindsight.runtime.clock import SPARE_SECONDS
from hindsight.runtime.search import Search
from instances import Instance, ServiceLevel, Workload
from instances.arrays import FloatArray
from instances.problem.schedule import TimedSchedule
from instances.validation import as_fraction

from .attainment import solve_on_time

WIDTH = 0.01
"""In seconds, limits that differ by less than this share are not told apart."""

PROBES = 12
"""About how many limits are tried within a time limit."""


def solve_tail(problem: Problem, search: Search) -> Result:
    """Find the least quantile of latency that any scheduler can reach, or an interval around it.

    Parameters
    ----------
    problem : Problem
        The problem, whose goal is `Tail`.
    search : Search
        The search options, checked; the limits that are tried share the time.
    """
    bisection = _Bisection(problem.source, problem.goal, search)
    with search.clock.listening():
        bisection.run()
    return bisection.result(problem.preemption)


class _Bisection:
    """Bisection: limits known to be too short or long enough for k requests, and the interval."""

    def __init__(self, problem: Instance | Workload, goal: Tail, search: Search) -> None:
        self._problem, self._goal, self._limit = problem, goal, goal.of
        self._search = search
        self._count = math.ceil(as_fraction(goal.quantile, None, "quantile") * len(problem))
        self._is_whole = isinstance(problem, Instance)
        self._certified = isinstance(problem, Instance) or is_known(problem.batch_time)
        self._lower = float(np.sort(self._own())[self._count - 1])
        self._schedule: TimedSchedule | None = None
        self._upper = math.inf

    def run(self) -> None:
        """Halve what is open below and above, in turn, as long as there is time."""
        is_whole = self._is_whole
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

    def result(self, preemption: Preemption) -> Result:
        """Return the present interval."""
        clock, is_proved = self._search.clock, self._lower == self._upper
        return Result(
            problem=self._problem,
            goal=self._goal,
            preemption=preemption,
            schedule=self._schedule,
            cost=self._upper,
            bounds={"requests on time": Bound(self._lower, self._certified)},
            stop_reason="proof" if is_proved else clock.stop_reason(SPARE_SECONDS),
            runtime=clock.seconds(),
        )

    def _is_narrow(self, low: float, high: float) -> bool:
        if self._is_whole:
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
        limit = None if left is None else left / probes
        part = self._search.part(limit)
        goal = OnTime(ServiceLevel(**{self._limit: length}), "serve")
        found = solve_on_time(Problem.checked(self._problem, goal), part)
        is_short = found.upper_bound < self._count
        if is_short:
            # In rounds limits are whole: above one is the next.
            longer = length + 1 if self._is_whole else length
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
