"""The most requests that any scheduler can serve on time, or a certified interval around it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hindsight.outcomes.goals import OnTime, Preemption
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.result import Result
from hindsight.runtime.cores import available_cores
from hindsight.runtime.search import Search
from instances import Instance, Workload

from .rounds import attain_in_rounds, with_late
from .seconds import attain_in_seconds
from .seconds import with_late as with_late_in_seconds


def solve_on_time(
    problem: Instance | Workload,
    goal: OnTime,
    search: Search,
    preemption: Preemption = "never",
) -> Result:
    """Find the most requests on time, or an interval around it.

    In rounds, prices bound it (`hindsight.service.rounds`), ruin and recreate finds schedules, and
    an integer program closes what is left of small instances. In seconds, prices of machine time
    bound it (`hindsight.service.seconds`), and annealed orders are the schedules.

    Parameters
    ----------
    problem : Instance or Workload
        The requests.
    goal : OnTime
        When they are on time.
    search : Search
        The search options, checked.
    preemption : Preemption, default "never"
        Which schedulers the result is about.
    """
    interval = Interval(problem, goal, preemption, search.clock, search.progress, search.gap)
    interval.phase = "schedules"
    late: Any = None
    with search.clock.listening(), interval.kept_when_interrupted():
        if isinstance(problem, Instance):
            attain_in_rounds(interval, search.threads, search.seed)
        else:
            threads = search.threads or available_cores()
            attain_in_seconds(interval, threads, search.seed)
        interval.note_stop()
    if goal.late == "serve" and len(interval.served) < len(problem):
        if isinstance(problem, Instance):
            late = with_late(interval)
        else:
            known = interval.schedule if interval.has_schedule else None
            late = with_late_in_seconds(known, interval.served, problem)
        interval.offer(late, np.arange(len(problem)))
        interval.note_stop()
    schedule = late or (interval.schedule if interval.has_schedule else None)
    return interval.result(schedule=schedule)
