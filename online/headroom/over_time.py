"""Queue and memory of a run over time, in stretches of equal length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from instances import Workload
from instances.arrays import FloatArray
from online.simulation.metrics import memory_over_time
from online.simulation.run import Run

LENGTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
"""Seconds that a stretch may have: the least of which there are no more than `MOST`."""

MOST = 120
"""Stretches from the first arrival to the last; a run may go on for longer."""

LONGEST = 1000
"""Stretches that are looked at, however long a run goes on."""


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


def stretch_seconds(workload: Workload) -> float:
    """How long the stretches of all runs on a workload are."""
    span = float(workload.arrival_times[-1])
    return float(next((one for one in LENGTHS if span <= MOST * one), span / MOST))


def over_time(run: Run, seconds: float) -> OverTime:
    """Queue and memory of a completed run."""
    assert run.round_end_times is not None
    end = float(run.completion_times.max())
    count = min(max(1, int(np.ceil(end / seconds))), LONGEST)
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


def _seconds_since(moments: FloatArray, now: Any) -> FloatArray:
    """The sum over ``moments`` of the seconds since then, at each time ``now``."""
    ordered = np.sort(moments)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    past = np.searchsorted(ordered, now)
    since: FloatArray = past * now - sums[past]
    return since
