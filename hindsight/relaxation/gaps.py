"""Relaxation at scale of an instance whose arrivals lie far apart.

Prices need an array entry a round, so arrivals at round 10^9 would need gigabytes for rounds in
which nothing runs. Where the last arrival is beyond `LONGEST_AXIS`, `hindsight.bounds.idle_gaps`
takes the gaps out first. Optima are the same with and without gaps; of the *relaxation* that is not
proved, because a little of a request may run later than any schedule would. So what is said of the
original one is checked: let a block be what `compress` moves together, and B the round in which the
next block begins. A fractional solution that completes every request by its block's B fits as it is
moved back. For the prices, moved back with no price in the gaps: what request i pays is the same
for starts that complete by B, and at least w_i (B + 1 - a_i) for others, so

    L >= sum_i min(cheapest_i, w_i (B + 1 - a_i)) - M sum_r lambda_r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hindsight.bounds.idle_gaps import CompressedInstance, compress
from hindsight.bounds.memory_prices import price_bound
from hindsight.heuristics.list_scheduling import one_after_another
from hindsight.outcomes.results import Relaxation
from instances import Instance
from instances.arrays import IntArray

LONGEST_AXIS = 2**20
"""Most rounds, with gaps, up to the last arrival that are represented one by one."""


def relax_without_gaps(instance: Instance, relax: Callable[[Instance], Relaxation]) -> Relaxation:
    """Return ``relax(instance)``, with idle gaps removed if the last arrival is very late.

    The result is about ``instance``, except that ``memory_prices`` are those of the rounds of
    ``compress(instance).instance``.
    """
    if int(instance.arrival_times.max()) <= LONGEST_AXIS:
        return relax(instance)
    compressed = compress(instance)
    if compressed.instance is instance:
        return relax(instance)
    return _moved_back(compressed, relax(compressed.instance))


def _moved_back(compressed: CompressedInstance, relaxed: Relaxation) -> Relaxation:
    instance, shifts = compressed.instance, compressed.shifts
    begins = next_block_begins(compressed)
    bound = price_bound(instance, relaxed.memory_prices)
    denominator = relaxed.memory_prices.denominator
    # Limit very late blocks, so that products fit into 64 bits.
    most = int(bound.cheapest.max()) // denominator + 1
    late = np.minimum(begins + 1 - instance.arrival_times, most // instance.weights + 1)
    late *= instance.weights
    lost = np.maximum(bound.cheapest - late * denominator, 0)
    overlaps = bool((relaxed.fractions.last_starts + instance.output_lengths > begins).any())
    objective, feasible = relaxed.objective, relaxed.is_feasible
    stop_reason = relaxed.stop_reason
    if stop_reason == "tolerance" and (overlaps or lost.any()):
        stop_reason = "stalled"
    if overlaps:
        objective = float(one_after_another(compressed.original).total_latency)
        feasible = False
    return replace(
        relaxed,
        instance=compressed.original,
        objective=objective,
        is_feasible=feasible,
        stop_reason=stop_reason,
        dual_value=relaxed.dual_value - sum(lost.tolist()) / denominator,
        expected_start_times=relaxed.expected_start_times + shifts,
        fractions=relaxed.fractions.moved(shifts),
        horizon=relaxed.horizon + int(shifts.max()),
    )


def next_block_begins(compressed: CompressedInstance) -> IntArray:
    """Return for each request the moved round in which the next block begins, shape (n,).

    2^62 for requests of the last block.
    """
    arrivals = compressed.instance.arrival_times
    order = np.argsort(arrivals, kind="stable")
    begins = np.full(len(order), 2**62, dtype=np.int64)
    following = 2**62
    later = None
    for index in order[::-1].tolist():
        if later is not None and compressed.shifts[index] != compressed.shifts[later]:
            following = int(arrivals[later])
        begins[index] = following
        later = index
    return begins
