"""Assignments of requests to machines, by rules that differ most.

Requests go, in order of arrival, to the machine where they cost least. There a machine of speed 1
serves the shortest charges first (`hindsight.prices.machines`), and a request costs what is
left of shorter ones and its own charge for each longer one (Megow, Uetz and Vredeveld, 2006). A
long prompt delays all that run beside it, and fewer run where prompts are long. So machines have
ranges of prompts of their own, with equal work, and a request costs more the farther it is from
its range. Or only these count, or requests are dealt out in turn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from instances.arrays import FloatArray, IntArray

CLASSES = 24
"""Classes of charges in an assignment by cost."""

AFFINITIES = (0.2, 0.0)
"""Costs of a range of prompts farther off, in charges of the request for each one that is there."""

RANGE_POWER = 0.7
"""Power of charges that all ranges of prompts have alike."""


def assignments(
    arrival: FloatArray, prompt: IntArray, charges: FloatArray, machines: int
) -> Iterator[IntArray]:
    """Yield assignments, shape (n,), of requests with these machine seconds to so many machines."""
    n = len(arrival)
    if machines == 1:
        yield np.zeros(n, dtype=np.int64)
        return
    order = np.lexsort((charges, arrival))
    ranges = _ranges(prompt, charges)
    for affinity in AFFINITIES:
        yield _by_cost(arrival, charges, order, ranges * machines, affinity, machines)
    # Dealt out in turn, those that arrive together by their charges; and by prompts alone.
    in_turn = np.empty(n, dtype=np.int64)
    in_turn[order] = np.arange(n) % machines
    yield in_turn
    yield np.minimum((ranges * machines).astype(np.int64), machines - 1)


def _by_cost(
    arrival: FloatArray,
    charges: FloatArray,
    order: IntArray,
    ranges: FloatArray,
    affinity: float,
    machines: int,
) -> IntArray:
    """Return the assignment to where a request costs least."""
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
    """Return the place of each request between 0 and 1, by its prompt, with work evenly spread."""
    order = np.argsort(prompt, kind="stable")
    work = charges[order] ** RANGE_POWER
    place = np.empty(len(order))
    place[order] = (np.cumsum(work) - 0.5 * work) / work.sum()
    return place
