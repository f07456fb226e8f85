"""Removal of idle gaps: rounds in which no optimal schedule runs a request.

Sort the requests by arrival and cut them into blocks wherever the next arrival comes no earlier
than E = (latest arrival of the block) + (sum of the block's output lengths), counted from the
block's beginning. In an optimal schedule a block is complete by E, because after the last arrival
something runs in every round until it is; so blocks do not meet, and moving a block in time, as
long as it begins no earlier than the E of the block before, changes neither latencies nor
feasibility. `compress` moves every block to begin exactly there, the first at round 0.

The same holds where requests may be stopped and keep their tokens (`PreemptiveSchedule`). Take a
schedule and, block by block, the first round after the block's latest arrival in which none of its
requests runs although one is unfinished. It is no later than E: each round between that arrival and
it produces a token of the block, and one is left. So it is empty: earlier blocks are complete, and
later requests arrive at E or after. Produce the next token of the unfinished request in it: alone
it fits, as s + o <= M, the round that it leaves only gets lighter, and none completes later. The
sum of all rounds used falls, so this ends, with a schedule that costs no more and in which every
block is complete by its E. No request is present in a gap then, nothing but time lies in it, and
moving the blocks' rounds changes neither the latencies nor the memory of any round.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from instances import Instance
from instances.arrays import IntArray
from instances.problem.preemptive_schedule import AnySchedule


class CompressedInstance(NamedTuple):
    """Instance without idle gaps, and the shifts that relate it to the original instance.

    Idle gaps are rounds in which no optimal schedule runs a request.

    Attributes
    ----------
    original : Instance
        The instance from which the gaps were removed.
    instance : Instance
        The instance with moved arrival times; ``original`` itself if there are no gaps.
    shifts : int64 array
        Number of rounds by which each request arrives earlier in ``instance`` than in ``original``,
        shape (n,).
    """

    original: Instance
    instance: Instance
    shifts: IntArray

    @classmethod
    def unmoved(cls, instance: Instance) -> CompressedInstance:
        """Return the instance itself, with its idle gaps."""
        return cls(instance, instance, np.zeros(len(instance), dtype=np.int64))

    def restore(self, schedule: Any) -> Any:
        """Put the idle gaps back into a schedule; its latencies stay the same.

        ``schedule`` is a schedule of the instance without idle gaps (the attribute `instance`). The
        result is a schedule of the instance with its gaps (`original`).
        """
        return schedule.moved(self.original, self.shifts)

    def moved(self, schedule: AnySchedule) -> AnySchedule | None:
        """Remove the idle gaps from a schedule of `original`, the instance with its gaps.

        The result is a schedule of `instance`, which has no gaps. Return None if it would be
        infeasible. Then some requests that arrive before a gap run so long that without the gap,
        they overlap with requests that arrive after it, and together these do not fit into memory.
        """
        if self.instance is self.original:
            return schedule
        moved = schedule.moved(self.instance, -self.shifts)
        return moved if moved.is_feasible else None


def compress(instance: Instance, kept: int = 1) -> CompressedInstance:
    """Remove idle gaps, the rounds in which no optimal schedule runs a request.

    The least total latency stays the same. The requests between two gaps are called a block.

    Parameters
    ----------
    instance : Instance
        The problem.
    kept : int, default 1
        Factor on the longest distance between blocks. In the result, at most ``kept`` * (output
        tokens of a block) rounds lie between the latest arrival of the block and the first arrival
        of the next block. With 1 all idle gaps are removed, because a block completes within so
        many rounds of its latest arrival. Larger values keep a part of each gap.
    """
    order, shifts = instance.order_of_arrival, np.zeros(len(instance), dtype=np.int64)
    columns = instance.arrival_times[order], kept * instance.output_lengths[order]
    block_end = shift = work = 0
    rows = zip(order.tolist(), *(column.tolist() for column in columns), strict=True)
    for index, arrival, output in rows:
        if arrival - shift >= block_end:
            shift = arrival - block_end
            work = 0
        shifts[index] = shift
        # A block is the set of requests between two idle gaps. In an optimal schedule, each round
        # after the latest arrival of a block produces a token of the block, until all its tokens
        # are produced. So the requests of the block are complete by its latest arrival plus the
        # sum of their output lengths. ``work`` is this sum times ``kept``, a factor >= 1.
        work += output
        block_end = arrival - shift + work
    if not shifts.any():
        return CompressedInstance.unmoved(instance)
    pairs = zip(instance, (instance.arrival_times - shifts).tolist(), strict=True)
    requests = [replace(request, arrival_time=arrival) for request, arrival in pairs]
    return CompressedInstance(instance, instance.replaced(requests=requests), shifts)


def next_block_begins(compressed: CompressedInstance) -> IntArray:
    """Return, for each request, the round of the first arrival in the next block, shape (n,).

    A block is the set of requests between two idle gaps (rounds in which no optimal schedule runs a
    request). The next block is the one that follows the request's block in time. Arrivals are those
    of the instance without gaps. The value is 2^62 for requests of the last block.
    """
    arrivals, shifts = compressed.instance.arrival_times, compressed.shifts
    # The shift of a request is the number of rounds by which the removal of gaps moved its arrival.
    # Requests of one block have equal shifts, and requests of later blocks have larger ones. So the
    # shift identifies the block.
    first = {moved: int(arrivals[shifts == moved].min()) for moved in np.unique(shifts).tolist()}
    following = dict(zip(first, [*list(first.values())[1:], 2**62], strict=True))
    return np.array([following[moved] for moved in shifts.tolist()], dtype=np.int64)
