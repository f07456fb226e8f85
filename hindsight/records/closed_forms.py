"""Costs and bounds of library entries, computed anew: by arithmetic, with no solver in sight."""

from __future__ import annotations

from hindsight.bounds.makespan import makespan_lower_bound
from hindsight.seconds.machine_bounds import machine_bounds
from hindsight.seconds.results import exact_total_latency, rounded_down
from instances import Instance, LibraryEntry, SecondsSchedule
from instances.batch_time.presets import preset
from instances.catalogue.records import Bound
from instances.problem.memory_translation import relaxed
from instances.problem.preemptive_schedule import AnySchedule

OUTPUT_LENGTHS = "output lengths"
VOLUME = "volume"
TWO_ROUNDS = "no two rounds hold them all"


def cost(schedule: AnySchedule | SecondsSchedule, goal: str) -> Bound:
    """What a goal counts of a schedule, recomputed; seconds are rounded up."""
    if isinstance(schedule, SecondsSchedule):
        exact = exact_total_latency(schedule)
        return schedule.total_latency if exact is None else -rounded_down(-exact)
    return schedule.makespan if goal == "makespan" else schedule.total_latency


def closed_form_bound(entry: LibraryEntry) -> tuple[Bound, str]:
    """A lower bound that needs no certificate, and its name.

    Of total latency in rounds, the output lengths; of the makespan, volumes
    (`hindsight.bounds.makespan.makespan_lower_bound`) or, where two rounds would have to hold all
    requests, whether any part of them fills one; in seconds the best of
    `hindsight.seconds.machine_bounds`, rounded down.
    """
    instance = entry.instance
    if not isinstance(instance, Instance):
        batch_time = preset(entry.batch_time or "").batch_time
        best = max(machine_bounds(instance, batch_time).values(), key=lambda bound: bound.total)
        return rounded_down(best.total), best.name
    if entry.goal != "makespan":
        return instance.total_output_length, OUTPUT_LENGTHS
    tokens = relaxed(instance)
    bound = makespan_lower_bound(tokens)
    if bound == 2 and not fits_two_rounds(tokens):
        return 3, TWO_ROUNDS
    return bound, VOLUME


def fits_two_rounds(instance: Instance) -> bool:
    """Whether requests of one round each, all there at round 0, fit into two rounds.

    They do iff some of them hold at most M together, and all others too. Which sums some of them
    have is told by one bit a sum. True where that says nothing: where a request runs longer or
    arrives later.
    """
    if instance.arrival_times.any() or (instance.output_lengths > 1).any():
        return True
    limit, total = instance.memory_limit, int(instance.peak_memories.sum())
    sums, kept = 1, (1 << limit + 1) - 1
    for peak in instance.peak_memories.tolist():
        sums |= sums << peak & kept
    return sums >> max(0, total - limit) != 0
