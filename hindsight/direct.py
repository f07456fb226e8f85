"""Solve problems by one search: requests on time, and total latency in seconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from hindsight.outcomes.errors import ScheduleCheckError
from hindsight.outcomes.goals import OnTime
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import Result
from hindsight.rounds import on_time
from hindsight.runtime.search import Search
from hindsight.seconds import solving as seconds


def solve_directly(problem: Problem, search: Search, *, anneal: bool = True) -> Result:
    """Solve a problem in seconds, or maximise the requests on time in rounds.

    Problems in rounds are solved by `hindsight.rounds.on_time`, problems in seconds by
    `hindsight.seconds.solving`.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    search : Search
        Search options, already checked.
    anneal : bool, default True
        Whether to improve list schedules in seconds by annealing; `hindsight.relax` does not.
    """
    interval, source, goal = Interval(problem, search), problem.source, problem.goal
    with search.clock.listening(), interval.kept_when_interrupted():
        if problem.in_seconds:
            seconds.close_in_seconds(interval, search, anneal=anneal)
        else:
            on_time.close_on_time(interval, search)
        interval.note_stop()
    schedule: Any = interval.schedule if interval.has_schedule else None
    is_served = len(interval.served) == len(source)
    if isinstance(goal, OnTime) and goal.late == "serve" and not is_served:
        if problem.in_seconds:
            schedule = seconds.with_late(schedule, interval.served, source)
        else:
            schedule = on_time.with_late(interval)
        interval.offer(schedule, np.arange(len(source)))
        if not schedule.is_feasible:
            raise ScheduleCheckError(f"a schedule is infeasible: {schedule.violations()[0]}")
        interval.note_stop()
    return interval.result(schedule=schedule)
