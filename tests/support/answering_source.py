"""Arrivals that answer to the policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances.problem.arrival_source import Arrival, Observation


class Grudge:
    """Sends a second request when the first completes, as long as the first was kept waiting."""

    memory_limit = 9
    name = "grudge"
    adaptive = True

    def __init__(self, gap: int) -> None:
        self.gap = gap

    def reset(self, rng: np.random.Generator) -> None:
        self._queue = [Arrival(0, 1, 2, "first")]

    def next_arrival(self) -> float | None:
        return self._queue[0].time if self._queue else None

    def release(self, now: float) -> Sequence[Arrival]:
        due = [arrival for arrival in self._queue if arrival.time <= now]
        self._queue = [arrival for arrival in self._queue if arrival.time > now]
        return due

    def observe(self, observation: Observation) -> None:
        if "first" in observation.completed:
            self._queue.append(Arrival(observation.time + self.gap, 2, 3, "second"))
