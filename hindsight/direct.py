"""Solve problems by one search: requests on time, and total latency in seconds."""

from __future__ import annotations

from typing import Any

from hindsight.outcomes.errors import ScheduleCheckError
from hindsight.outcomes.goals import OnTime
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import Result
from hindsight.rounds import on_time
from hindsight.runtime.search import Search
from hindsight.seconds import solving as seconds


def solve_directly(problem: Problem, search: Search, *, anneal: bool = True) -> Result:
    """Solve a problem in seconds, or maximise the number of requests on time in rounds.

    In seconds, each round lasts as long as its batch takes, and `hindsight.seconds.solving` solves
    the problem for the goals of total latency and requests on time. In rounds,
    `hindsight.rounds.on_time` solves it for the goal of requests on time.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    search : Search
        Search options, already checked.
    anneal : bool, default True
        For problems in seconds: whether simulated annealing improves the list schedules.
        `hindsight.relax`, which is for lower bounds, passes False.
    """
    interval, goal = Interval(problem, search), problem.goal
    with search.clock.listening(), interval.kept_when_interrupted():
        if problem.in_seconds:
            seconds.close_in_seconds(interval, search, anneal=anneal)
        else:
            on_time.close_on_time(interval, search)
        interval.note_stop()
    is_served = len(interval.served) == len(problem.source)
    if isinstance(goal, OnTime) and goal.late == "serve" and not is_served:
        if problem.in_seconds:
            served: Any = seconds.with_late(interval.schedule, interval.served, problem.source)
        else:
            served = on_time.with_late(interval)
        interval.offer(served)
        if not served.is_feasible:
            raise ScheduleCheckError(f"a schedule is infeasible: {served.violations()[0]}")
        interval.schedule = served
        interval.note_stop()
    return interval.result()
