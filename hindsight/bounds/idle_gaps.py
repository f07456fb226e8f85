"""Taking out the time in which no optimal schedule runs anything.

Sort the requests by arrival and cut them into blocks wherever the next arrival comes no earlier
than E = (latest arrival of the block) + (sum of the block's output lengths), counted from the
block's beginning. In an optimal schedule a block is complete by E, because after the last arrival
something runs in every round until it is; so blocks do not meet, and moving a block in time, as
long as it begins no earlier than the E of the block before, changes neither latencies nor
feasibility. `compress` moves every block to begin exactly there, the first at round 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from instances import Instance, Request, Schedule
from instances.arrays import IntArray


@dataclass(frozen=True, eq=False)
class CompressedInstance:
    """An instance without idle gaps, and the way back.

    Attributes
    ----------
    original : Instance
        As given.
    instance : Instance
        With arrival times moved; ``original`` itself where nothing moves.
    shifts : int64 array
        Rounds each request was moved towards 0, shape (n,).
    """

    original: Instance
    instance: Instance
    shifts: IntArray

    def restore(self, schedule: Schedule) -> Schedule:
        """A schedule of `instance` as one of `original`, with the same latencies."""
        if self.instance is self.original:
            return schedule
        return Schedule(self.original, schedule.start_times + self.shifts)

    def fits(self, schedule: Schedule) -> bool:
        """Whether a schedule of `original` moves along: every block completes before the next."""
        moved = Schedule(self.instance, schedule.start_times - self.shifts)
        return moved.is_feasible

    def move(self, schedule: Schedule) -> Schedule:
        """A schedule of `original` as one of `instance`; meaningful where `fits` says so."""
        if self.instance is self.original:
            return schedule
        return Schedule(self.instance, schedule.start_times - self.shifts)


def compress(instance: Instance) -> CompressedInstance:
    """Take out idle gaps; the optimum is the same."""
    arrivals = instance.arrival_times
    shifts = np.zeros(len(instance), dtype=np.int64)
    block_end = 0
    shift = 0
    # Everything of the block completes by its latest arrival plus its work, in moved time.
    work = 0
    for index in np.argsort(arrivals, kind="stable").tolist():
        arrival = int(arrivals[index])
        if arrival - shift >= block_end:
            shift = arrival - block_end
            work = 0
        shifts[index] = shift
        work += instance[index].output_length
        block_end = arrival - shift + work
    if not shifts.any():
        return CompressedInstance(instance, instance, shifts)
    requests = [
        Request(
            request.arrival_time - int(moved),
            request.prompt_length,
            request.output_length,
            request.id,
        )
        for request, moved in zip(instance, shifts, strict=True)
    ]
    compressed = Instance(requests, instance.memory_limit, instance.name, instance.metadata)
    return CompressedInstance(instance, compressed, shifts)
