"""The least makespan, by testing one horizon after another ([W25] Theorem EC.2's objective).

A schedule completes by round T iff the integer program (`hindsight.exact.program`) restricted to
starts that complete by T has a point; so bisection over T needs no objective, and each answer moves
one of the two bounds. The program whose objective is the makespan is `build_model(..,
objective="makespan")`; its relaxation says next to nothing, which is why `solve` does not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hindsight.exact.highs import solve_linear
from hindsight.exact.program import Program
from hindsight.exact.starts import StartSets, all_starts, count_starts
from hindsight.outcomes.goals import Optimum
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.result import PROGRAM
from hindsight.runtime.clock import never
from hindsight.schedules.lists import (
    PRIORITIES,
    one_after_another,
    prefix_schedule_within,
)
from instances import Instance, Schedule

from .program import ENTRIES_PER_SECOND
from .strategy import Problem, Strategy

LARGEST_PROBE = 2_000_000
"""Most starts in a tested horizon for which a program is built."""

LARGE_FIRST = (
    lambda request: -request.output_length,
    lambda request: -request.peak_memory,
)
"""Priorities that put the longest and the largest requests first."""


def makespan_schedules(
    instance: Instance, should_stop: Callable[[], bool] = never, *, thorough: bool = True
) -> Iterator[Schedule]:
    """Yield prefix schedules one by one, including longest first and largest first.

    ``should_stop`` ends them. At least one is always yielded: for few requests (``thorough``) the
    first of these, for many the schedule of one request after another.
    """
    first = True
    for skip in (True, False) if thorough else (False,):
        for priority in (*LARGE_FIRST, *PRIORITIES.values()):
            stop = None if first and thorough else should_stop
            schedule = prefix_schedule_within(instance, priority, stop, skip=skip)
            if schedule is None:
                if first:
                    yield one_after_another(instance)
                return
            first = False
            yield schedule


@dataclass(frozen=True)
class Makespan(Strategy):
    """The integer program, solved for one horizon after another.

    A program that is too large ends the search with reason ``"size"``.
    """

    # This is the integer program's method for the makespan, and is requested by its name.
    name: ClassVar[str] = "mip"
    objectives: ClassVar[tuple[Optimum, ...]] = ("makespan",)

    def run(self, problem: Problem, state: Interval) -> None:
        """Close the interval around the least makespan, as far as time allows.

        The lower bound is tested first, because it is often attained; then the middle.

        Raises
        ------
        SolverError
            HiGHS failed.
        """
        state.phase = "search"
        probed = state.lower_bound
        while not state.is_done():
            if count_starts(state.problem, probed) > LARGEST_PROBE:
                state.stop_reason = "size"
                return
            starts = all_starts(state.problem, probed)
            if starts.memory_entries > ENTRIES_PER_SECOND * state.clock.seconds_left():
                state.stop_reason = "size"
                return
            if not _probe(problem, state, starts):
                state.note_stop()
                return
            probed = (state.lower_bound + state.upper_bound - 1) // 2


def _probe(problem: Problem, state: Interval, starts: StartSets) -> bool:
    """Ask HiGHS for a schedule that completes by the horizon of ``starts``; False if undecided."""
    program = Program(starts)
    # Any feasible point will do.
    linear = replace(program.linear, costs=np.zeros_like(program.linear.costs), offset=0.0)
    result = solve_linear(
        linear,
        time_limit=state.clock.limit_left(),
        threads=problem.threads,
        seed=problem.seed,
        should_stop=state.clock.must_stop,
    )
    state.nodes += result.nodes
    if result.values is not None:
        state.offer(program.schedule(result.values))
        return True
    if result.termination == "infeasible":
        state.prove(starts.rounds + 1, PROGRAM, certified=False)
        return True
    return False
