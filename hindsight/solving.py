"""Solve a problem in seconds, or for the goal `OnTime`.

`hindsight.seconds.solving` and `hindsight.rounds.on_time` find its bounds and schedules.
"""

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
    """Solve a problem with times in seconds, or maximise the requests on time of an instance.

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
        with_late = seconds.with_late if problem.in_seconds else on_time.with_late
        served: Any = with_late(interval.schedule, interval.served, problem.source)
        interval.offer(served)
        if not served.is_feasible:
            raise ScheduleCheckError(f"a schedule is infeasible: {served.violations()[0]}")
        interval.schedule = served
        interval.note_stop()
    return interval.result()
