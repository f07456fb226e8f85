"""The most requests that any scheduler can serve on time, or a certified interval around it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import Result
from hindsight.rounds.on_time import close_on_time, with_late
from hindsight.runtime.search import Search

from .seconds import attain_in_seconds
from .seconds import with_late as with_late_in_seconds


def solve_on_time(problem: Problem, search: Search) -> Result:
    """Find the most requests on time, or an interval around it.

    In rounds, prices bound it (`hindsight.rounds.on_time`), ruin and recreate finds schedules, and
    an integer program closes what is left of small instances. In seconds, prices of machine time
    bound it (`hindsight.seconds.solving`), and annealed keys are the schedules.

    Parameters
    ----------
    problem : Problem
        The problem, whose goal is `OnTime`.
    search : Search
        The search options, checked.
    """
    interval, source = Interval(problem, search), problem.source
    interval.phase = "schedules"
    with search.clock.listening(), interval.kept_when_interrupted():
        if problem.in_seconds:
            attain_in_seconds(interval, search.cores, search.seed)
        else:
            close_on_time(interval, search)
        interval.note_stop()
    late: Any = None
    if problem.goal.late == "serve" and len(interval.served) < len(source):
        if problem.in_seconds:
            known = interval.schedule if interval.has_schedule else None
            late = with_late_in_seconds(known, interval.served, source)
        else:
            late = with_late(interval)
        interval.offer(late, np.arange(len(source)))
        interval.note_stop()
    schedule = late or (interval.schedule if interval.has_schedule else None)
    return interval.result(schedule=schedule)
