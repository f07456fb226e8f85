"""Schedules in rounds in which requests may stop, found by the search for schedules in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from instances import FleetSchedule, Instance, PreemptiveSchedule, SecondsSchedule, Workload
from instances.arrays import IntArray
from instances.batch_time import AffineTime
from instances.problem.fleet_schedule import by_replica

from .keys import KeySearch


class PreemptiveKeys:
    """Search for schedules of an instance in which requests may stop and keep their tokens.

    The search is that of `KeySearch` for schedules in seconds. Each round takes one second in it.

    Attributes
    ----------
    search : KeySearch
        The search in seconds.
    """

    def __init__(self, instance: Instance, seed: int) -> None:
        self._instance = instance
        self.search = KeySearch(Workload.from_instance(instance, AffineTime(1.0)), seed)

    def improve(self, should_stop: Callable[[], bool]) -> Iterator[Any]:
        """Run one annealing, and yield each better schedule, in rounds.

        Before the first annealing, `KeySearch.open` builds first schedules, and the best of them is
        yielded. Stop once ``should_stop`` returns True.
        """
        last = self.search.cycle
        if not last:
            self.search.open(should_stop)
            yield self.schedule()
        for _ in self.search.anneal(lambda: self.search.cycle > last or should_stop()):
            yield self.schedule()

    def schedule(self) -> Any:
        """Return the best schedule so far, in rounds."""
        instance, found = self._instance, self.search.schedule()
        # ``found`` is a schedule of a workload, whose requests are in order of arrival. ``order``
        # has the index of each of them in the instance.
        order, assignment = instance.order_of_arrival, np.zeros(len(instance), dtype=np.int64)
        if isinstance(found, SecondsSchedule):
            return _in_rounds(found, instance, order)
        assignment[order] = found.assignment
        parts: list[Any] = [None] * instance.replicas
        for k, own in enumerate(by_replica(assignment, instance.replicas)):
            if len(own):
                places = np.searchsorted(own, order[found.positions[k]])
                parts[k] = _in_rounds(found.parts[k], instance.alone(own), places)
        return FleetSchedule(instance, assignment, parts)


def _in_rounds(schedule: SecondsSchedule, instance: Instance, places: IntArray) -> Any:
    """Convert a schedule in seconds, whose rounds take one second each, to a schedule in rounds.

    The result is a schedule of ``instance``. Request i of the given schedule is request
    ``places[i]`` of the instance.
    """
    ends = np.rint(schedule.round_starts).astype(np.int64) + 1
    rounds: list[list[int]] = [[] for _ in places]
    columns = places[schedule.request], schedule.first_round - 1, schedule.rounds
    for i, first, count in zip(*(column.tolist() for column in columns), strict=True):
        rounds[i] += ends[first : first + count].tolist()
    return PreemptiveSchedule.from_rounds(instance, rounds)
