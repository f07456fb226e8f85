"""Assignments of requests to machines, by several rules that differ as much as possible.

*By cost.* In order of arrival, each request goes to the machine on which it adds the least cost.
The cost models each machine as one of speed 1 that serves the request with the least charge
(machine seconds, `hindsight.prices.machines`) first. A new request then waits for the remaining
charges of shorter requests, and delays each longer request by its own charge (Megow, Uetz and
Vredeveld, 2006). A long prompt also delays all requests in the same batch, and fewer requests run
on a machine with long prompts. Each machine therefore has its own range of prompt lengths, with
equal work, and a request costs more the farther its prompt is from the range of the machine.

*Other rules.* Assign by the ranges of prompt lengths alone, or deal requests out in turn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from instances.arrays import FloatArray, IntArray

CLASSES = 24
"""Classes of charges in an assignment by cost."""

AFFINITIES = (0.2, 0.0)
"""Penalties per range of prompt lengths between request and machine, tried one after another. Unit:
the charge of the request times one plus the mean number of requests on a machine."""

RANGE_POWER = 0.7
"""Exponent of charges in the work that is equal in all ranges of prompt lengths."""


def assignments(
    arrival: FloatArray, prompt: IntArray, charges: FloatArray, machines: int
) -> Iterator[IntArray]:
    """Yield assignments of requests to ``machines`` machines, each an array of shape (n,).

    ``charges`` are the machine seconds of each request, shape (n,).
    """
    n = len(arrival)
    if machines == 1:
        yield np.zeros(n, dtype=np.int64)
        return
    order = np.lexsort((charges, arrival))
    ranges = _ranges(prompt, charges)
    for affinity in AFFINITIES:
        yield _by_cost(arrival, charges, order, ranges * machines, affinity, machines)
    # Deal requests out in turn: by arrival, and by charge among requests that arrive together.
    in_turn = np.empty(n, dtype=np.int64)
    in_turn[order] = np.arange(n) % machines
    yield in_turn
    # Assign by the ranges of prompt lengths alone.
    yield np.minimum((ranges * machines).astype(np.int64), machines - 1)


def _by_cost(
    arrival: FloatArray,
    charges: FloatArray,
    order: IntArray,
    ranges: FloatArray,
    affinity: float,
    machines: int,
) -> IntArray:
    """Return the assignment of each request to the machine where it costs least."""
    logs = np.log(charges)
    place = ((logs - logs.min()) / (np.ptp(logs) + 1e-9) * CLASSES).astype(np.int64)
    counts = np.bincount(place, minlength=CLASSES)
    typical = np.bincount(place, charges, CLASSES) / np.maximum(1, counts)
    typical[typical == 0] = 1.0
    work, dealt, now = np.zeros((machines, CLASSES)), np.zeros(machines, dtype=np.int64), 0.0
    assignment = np.zeros(len(arrival), dtype=np.int64)
    for i in order.tolist():
        left = np.maximum(np.cumsum(work, axis=1) - (arrival[i] - now), 0.0)
        work, now, c = np.diff(left, axis=1, prepend=0.0), arrival[i], place[i]
        there = work / typical
        cost = left[:, c] + charges[i] * there[:, c + 1 :].sum(axis=1)
        far = np.abs(ranges[i] - (np.arange(machines) + 0.5))
        cost += affinity * far * charges[i] * (1 + there.sum() / machines)
        best = np.lexsort((dealt, cost))[0]
        assignment[i] = best
        work[best, c] += charges[i]
        dealt[best] += 1
    return assignment


def _ranges(prompt: IntArray, charges: FloatArray) -> FloatArray:
    """Return a position in [0, 1] for each request, by prompt length, with evenly spread work."""
    order = np.argsort(prompt, kind="stable")
    work = charges[order] ** RANGE_POWER
    place = np.empty(len(order))
    place[order] = (np.cumsum(work) - 0.5 * work) / work.sum()
    return place
