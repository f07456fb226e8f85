"""The least makespan: feasibility of one horizon after another ([W25] Theorem EC.2's objective).

A schedule completes by round T iff the integer program, [J25] Equations (2)-(4), restricted to
starts that complete by T has a point; so bisection over T needs no objective, and each answer moves
one of the two bounds. The program whose objective is the makespan is `build_model(..,
objective="makespan")`; its relaxation says next to nothing, which is why `solve` does not use it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np

from hindsight.bounds.idle_gaps import compress
from hindsight.heuristics.list_scheduling import (
    PRIORITIES,
    one_after_another,
    prefix_schedule,
    prefix_schedule_within,
)
from hindsight.integer_program.highs import Termination, compile_model, solve_linear
from hindsight.integer_program.models import BUILDERS, Formulation, schedule_from_values
from hindsight.integer_program.starts import StartSets, all_starts, count_starts
from hindsight.outcomes.results import Progress
from hindsight.outcomes.solve_state import SolveState
from hindsight.runtime.interruption import never
from instances import Instance, Request, Schedule
from instances.arrays import IntArray

from .mip import BUILD_SECONDS_PER_ENTRY

LARGEST_PROBE = 2_000_000
"""Starts in a probed horizon beyond which no program is built."""


@dataclasses.dataclass(frozen=True, eq=False)
class LastBlock:
    """The requests that decide the makespan: those after the last idle gap, moved to round 0.

    What arrives before such a gap can be complete before it ends whatever happens later
    (`hindsight.bounds.idle_gaps`), so the least makespan is that of the last block alone, plus
    `offset`.

    Attributes
    ----------
    original : Instance
        As given.
    instance : Instance
        The last block, its first arrival at round 0.
    positions : int64 array
        Of its requests in ``original``, ascending.
    offset : int
        Rounds it was moved.
    """

    original: Instance
    instance: Instance
    positions: IntArray
    offset: int

    def restore(self, schedule: Schedule) -> Schedule:
        """A schedule of `instance` as one of ``original``; earlier blocks first come first served.

        First come, first served never idles while anything waits, so it ends before the block.
        """
        starts = np.zeros(len(self.original), dtype=np.int64)
        starts[self.positions] = schedule.start_times + self.offset
        earlier = np.setdiff1d(np.arange(len(self.original)), self.positions)
        if len(earlier):
            before = _selected(self.original, earlier, 0)
            starts[earlier] = prefix_schedule(before, PRIORITIES["arrival_time"]).start_times
        return Schedule(self.original, starts)

    def move(self, schedule: Schedule) -> Schedule:
        """The part of a feasible schedule of ``original`` that concerns the block."""
        return Schedule(self.instance, schedule.start_times[self.positions] - self.offset)

    def moved(self, line: Progress) -> Progress:
        """A line of progress with the original's bounds."""
        return dataclasses.replace(
            line,
            upper_bound=line.upper_bound + self.offset,
            lower_bound=line.lower_bound + self.offset,
        )


def last_block(instance: Instance) -> LastBlock:
    """Leave out what is over before the last idle gap."""
    shifts = compress(instance).shifts
    positions = np.flatnonzero(shifts == shifts.max())
    offset = int(instance.arrival_times[positions].min())
    return LastBlock(instance, _selected(instance, positions, offset), positions, offset)


def _selected(instance: Instance, positions: IntArray, offset: int) -> Instance:
    requests = [
        dataclasses.replace(instance[k], arrival_time=instance[k].arrival_time - offset)
        for k in positions.tolist()
    ]
    return Instance(requests, instance.memory_limit, instance.name, instance.metadata)


def _longest_first(request: Request) -> int:
    return -request.output_length


def _largest_first(request: Request) -> int:
    return -request.peak_memory


def makespan_schedules(
    instance: Instance, should_stop: Callable[[], bool] = never, *, thorough: bool = True
) -> Iterator[Schedule]:
    """Prefix schedules one by one, longest and largest first included.

    ``should_stop`` ends them. There is one all the same, on few requests (``thorough``) the first
    of these, on many that of one request after another.
    """
    first = True
    for skip in (True, False) if thorough else (False,):
        for priority in (_longest_first, _largest_first, *PRIORITIES.values()):
            stop = None if first and thorough else should_stop
            schedule = prefix_schedule_within(instance, priority, stop, skip=skip)
            if schedule is None:
                if first:
                    yield one_after_another(instance)
                return
            first = False
            yield schedule


def search_makespan(
    interval: SolveState, formulation: Formulation, threads: int | None, seed: int
) -> None:
    """Close the interval around the least makespan, as far as time allows.

    The lower bound is probed first, because it is often met; then the middle.

    Raises
    ------
    SolverError
        HiGHS failed.
    """
    interval.phase = "search"
    probed = interval.lower_bound
    while not interval.is_done():
        if count_starts(interval.instance, probed) > LARGEST_PROBE:
            interval.stop_reason = "size"
            return
        starts = all_starts(interval.instance, probed)
        entries = starts.memory_entries if formulation == "dense" else 8 * starts.count
        if BUILD_SECONDS_PER_ENTRY * entries > 0.5 * interval.seconds_left():
            interval.stop_reason = "size"
            return
        if not _probe(interval, starts, formulation, threads, seed):
            interval.note_stop()
            return
        probed = (interval.lower_bound + interval.upper_bound - 1) // 2


def _probe(
    interval: SolveState,
    starts: StartSets,
    formulation: Formulation,
    threads: int | None,
    seed: int,
) -> bool:
    """Whether HiGHS decided if everything can complete by the horizon of ``starts``."""
    compiled = compile_model(BUILDERS[formulation](starts))
    # The first feasible point is as good as any.
    linear = dataclasses.replace(
        compiled.linear, costs=np.zeros_like(compiled.linear.costs), offset=0.0
    )
    left = interval.seconds_left()
    result = solve_linear(
        linear,
        time_limit=None if math.isinf(left) else max(0.0, left),
        threads=threads,
        seed=seed,
        should_stop=interval.must_stop,
    )
    interval.nodes += result.nodes
    if result.values is not None:
        interval.offer(schedule_from_values(starts, compiled, result.values))
        return True
    if result.termination is Termination.INFEASIBLE:
        interval.raise_lower(starts.horizon + 1, certified=False)
        return True
    return False
