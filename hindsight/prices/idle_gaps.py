"""Removal of idle gaps: rounds in which no optimal schedule runs a request.

Sort the requests by arrival and cut them into blocks. A request begins a new block if it arrives at
E or later, where E = (latest arrival of the block before it) + (sum of the output lengths of this
block). In an optimal schedule each block is complete by its E: after its latest arrival, one of its
requests runs in every round until all are complete. So requests of different blocks never run in
the same round. Moving a block in time changes neither latencies nor feasibility, as long as it
begins no earlier than the E of the block before it. `compress` moves every block to begin exactly
at this E, and the first block to begin at round 0.

The same is true if requests may be stopped and keep their tokens (`PreemptiveSchedule`). Take a
schedule, and its blocks in the order of time. Let r be the first round after the latest arrival of
a block in which none of its requests runs although one is unfinished. Round r is not after E: each
round between the latest arrival and r produces a token of the block, and a token is left. So no
request runs in round r: earlier blocks are complete, and later requests arrive at E or after. Let
the unfinished request produce its next token in round r instead of a later round. It fits there
alone, as s + o <= M. The later round holds no more than before, and no request completes later.
Each such change lowers the sum of the numbers of all rounds used, so the changes end. The last
schedule costs no more than the first, and each block is complete by its E. So no request is present
in a gap, and moving blocks changes neither the latencies nor the memory of any round.
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
        Factor on the largest distance between blocks. In the result, the first arrival of a block
        is at most ``kept`` * (output tokens of the block before it) rounds after the latest arrival
        of that block. With 1 all idle gaps are removed, because a block completes within so many
        rounds of its latest arrival. Larger values keep a part of each gap.
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
    # A block is the set of requests between two gaps. Requests of one block have equal shifts, and
    # requests of later blocks have larger ones. So the shift identifies the block.
    first = {moved: int(arrivals[shifts == moved].min()) for moved in np.unique(shifts).tolist()}
    following = dict(zip(first, [*list(first.values())[1:], 2**62], strict=True))
    return np.array([following[moved] for moved in shifts.tolist()], dtype=np.int64)
