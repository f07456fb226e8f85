"""Describe who waits and when: stretches of time, classes of requests, the load of the machine.

The load and the requests' own times are those of `hindsight.prices.machines`, in floats:
these figures describe and prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances import Workload
from instances.arrays import FloatArray, IntArray
from online.simulation.metrics import memory_over_time
from online.simulation.run import Run

LENGTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
"""Seconds that a stretch may have: the least of which there are no more than `MOST`."""

MOST = 120
"""Stretches from the first arrival to the last; a run may go on for longer."""

LONGEST = 1000
"""Most stretches of a run: one that goes on for longer has longer ones."""

WORST = 5
"""Stretches shown."""

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, eq=False)
class OverTime:
    """A run in stretches of ``seconds`` each, the first from 0; columns of shape (k,).

    Attributes
    ----------
    seconds : float
        Length of each.
    queue : float64 array
        Requests that have arrived and are not in the batch, averaged over the stretch.
    memory : float64 array
        Share of M that is held, averaged over it.
    """

    seconds: float
    queue: FloatArray
    memory: FloatArray

    @property
    def waiting(self) -> FloatArray:
        """Seconds waited in each stretch, summed over requests."""
        return self.queue * self.seconds

    @property
    def worst(self) -> list[int]:
        """Places of the stretches with most waiting, the worst first; none without any waiting."""
        order = np.argsort(-self.waiting, kind="stable")[:WORST]
        return [int(one) for one in order if self.waiting[one] > 0]


def stretch_seconds(workload: Workload) -> float:
    """Choose the length of the stretches, one for all runs on a workload."""
    span = float(workload.arrival_times[-1])
    return float(next((one for one in LENGTHS if span <= MOST * one), span / MOST))


def over_time(run: Run, seconds: float) -> OverTime:
    """Average the queue and the memory of a completed run over stretches of so many seconds.

    Where they would be more than `LONGEST`, each is a multiple of that length.
    """
    assert run.round_end_times is not None
    end = float(run.completion_times.max())
    seconds *= max(1, math.ceil(end / (LONGEST * seconds)))
    count = max(1, math.ceil(end / seconds))
    edges = np.arange(count + 1, dtype=np.float64) * seconds
    # A stay begins where the first of its rounds does, which is not before its request arrives.
    memory = memory_over_time(run)
    attempts = run.attempts
    served = attempts.end_round > attempts.start_round
    begun = memory.starts[attempts.start_round[served]]
    ended = run.round_end_times[attempts.end_round[served] - 1]
    queue = (
        _seconds_since(run.arrival_times, edges)
        - _seconds_since(run.completion_times, edges)
        - _seconds_since(begun, edges)
        + _seconds_since(ended, edges)
    )
    held = np.concatenate([[0.0], np.cumsum(memory.values * (memory.ends - memory.starts))])
    # Flat while the machine is idle, as it holds nothing then.
    times = np.stack([memory.starts, memory.ends], axis=1).ravel()
    stored = np.interp(edges, times, np.stack([held[:-1], held[1:]], axis=1).ravel())
    # A difference of large sums may come out a hair below 0.
    return OverTime(
        seconds,
        np.maximum(0.0, np.diff(queue)) / seconds,
        np.diff(stored) / (seconds * run.memory_limit),
    )


def together(parts: Sequence[OverTime]) -> OverTime:
    """Sum up the queues of replicas, and average their memory."""
    most = max(len(one.queue) for one in parts)
    queue, memory = (
        np.array([np.pad(getattr(one, name), (0, most - len(one.queue))) for one in parts])
        for name in ("queue", "memory")
    )
    return OverTime(parts[0].seconds, queue.sum(axis=0), memory.mean(axis=0))


def _seconds_since(moments: FloatArray, now: Any) -> FloatArray:
    """Sum over ``moments`` the seconds since then, at each time ``now``."""
    ordered = np.sort(moments)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    past = np.searchsorted(ordered, now)
    since: FloatArray = past * now - sums[past]
    return since


def length_classes(workload: Workload) -> list[IntArray]:
    """Part the requests by output length into up to four classes of about equal size.

    Equal lengths are never parted. A class is the positions of its requests.
    """
    lengths = np.asarray(workload.output_lengths)
    place = np.searchsorted(np.quantile(lengths, QUARTILES, method="inverted_cdf"), lengths)
    return [np.flatnonzero(place == one) for one in np.unique(place)]


def own_seconds(workload: Workload) -> FloatArray:
    """Compute the seconds that each request takes alone on the machine, shape (n,).

    Its prompt is processed at once; no scheduler serves it faster.
    """
    parts = [d0 * o + work for d0, o, work, _ in _parts(workload)]
    longest: FloatArray = np.max(parts, axis=0)
    return longest


def load(workload: Workload) -> float | None:
    """Compute the machine seconds asked for in a second, from the first arrival to the last.

    A request asks for d1 a token processed and d2 + d0 / M a token held for a round, which is
    what it costs in rounds that fill the memory, and replicas share what is asked for: above 1
    nobody keeps up. None where all arrive at once.
    """
    span = float(workload.arrival_times[-1] - workload.arrival_times[0])
    if span <= 0:
        return None
    limit = workload.memory_limit
    parts = _parts(workload)
    asked = max(float((work + d0 / limit * held).sum()) for d0, _, work, held in parts)
    return asked / span / workload.replicas


def _parts(workload: Workload) -> list[tuple[float, FloatArray, FloatArray, FloatArray]]:
    """For each minorant: d0, rounds, seconds beyond d0 in them, tokens held summed over them."""
    from hindsight.prices.minorants import affine_minorants

    s, o = (
        column.astype(np.float64) for column in (workload.prompt_lengths, workload.output_lengths)
    )
    held = o * s + o * (o + 1) / 2 - workload.memory_rule.unstored * o
    return [
        (float(one.d0), o, float(one.d1) * (s + o - 1) + float(one.d2) * held, held)
        for one in affine_minorants(workload.require_batch_time(), workload.memory_limit)
    ]
