"""Schedules of a fleet: which replica serves each request, and a schedule for each replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray, read_only
from instances.errors import InvalidValueError
from instances.service_level import BoolArray, Limits
from instances.validation import set_fields

from .instance import Instance
from .request import as_column, check_count
from .schedule import Schedule, TimedSchedule
from .workload import Workload


@dataclass(frozen=True, eq=False, repr=False)
class FleetSchedule(TimedSchedule):
    """Schedule of a fleet of K replicas: the replica of each request, and a schedule per replica.

    Replicas do not share memory, so costs and violations of the fleet are those of its replicas.

    Parameters
    ----------
    fleet : Instance or Workload
        The requests, with any number K of replicas.
    assignment : Sequence[int] or int64 array
        Replica of each request, 0 to K - 1, shape (n,).
    parts : Sequence[Schedule, PreemptiveSchedule, SecondsSchedule or None]
        Schedule of each replica. Part k is a schedule of ``fleet.alone(positions)``, with the
        positions of the requests of replica k. It is None if replica k has no request.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A replica is not in 0 .. K - 1, the number of entries or parts is wrong, or a part is a
        schedule of other requests.
    """

    fleet: Instance | Workload
    assignment: IntArray
    parts: tuple[Any, ...]

    def __init__(
        self,
        fleet: Instance | Workload,
        assignment: Sequence[int] | IntArray,
        parts: Sequence[TimedSchedule | None],
    ) -> None:
        replicas = as_assignment(fleet, assignment)
        parts = tuple(parts)
        if len(parts) != fleet.replicas:
            reason = f"differs from the {fleet.replicas} replicas"
            raise InvalidValueError("fleet schedule", "len(parts)", len(parts), reason)
        set_fields(self, fleet=fleet, assignment=replicas, parts=parts)
        for replica, (own, part) in enumerate(zip(self.positions, parts, strict=True)):
            fits = part is None
            if len(own):
                fits = isinstance(part, TimedSchedule) and fleet.alone(own).matches(part.problem)
            if not fits:
                reason = f"is not a schedule of the {len(own)} requests of replica {replica}"
                raise InvalidValueError("fleet schedule", "part", part, reason)

    @classmethod
    def from_starts(
        cls,
        instance: Instance,
        assignment: Sequence[int] | IntArray,
        start_times: Sequence[int] | IntArray,
    ) -> FleetSchedule:
        """Build a schedule in rounds without preemption from the requests' replicas and starts.

        ``assignment`` and ``start_times`` have shape (n,), and starts are in rounds.

        Raises
        ------
        InvalidTypeError, InvalidValueError
            A replica is not in 0 .. K - 1, a start is not a whole number, or the number of entries
            is not n.
        """
        replicas = as_assignment(instance, assignment)
        check_count("schedule", "start_times", start_times, len(instance))
        starts = np.array(start_times, dtype=object)
        served = by_replica(replicas, instance.replicas)
        parts = [Schedule(instance.alone(own), starts[own]) if len(own) else None for own in served]
        return cls(instance, replicas, parts)

    @property
    def problem(self) -> Instance | Workload:
        """The instance or workload whose requests are scheduled, with its number of replicas."""
        return self.fleet

    @cached_property
    def positions(self) -> tuple[IntArray, ...]:
        """Positions of the requests of each replica, in increasing order."""
        return by_replica(self.assignment, self.problem.replicas)

    @property
    def machines(self) -> tuple[Any, ...]:
        """Schedules of the replicas that serve at least one request."""
        return tuple(part for part in self.parts if part is not None)

    @property
    def keeps_tokens(self) -> bool:
        """True if some preempted request resumes without processing all its tokens again.

        This is for fleets in seconds; see `SecondsSchedule.keeps_tokens`.
        """
        return any(part.keeps_tokens for part in self.machines)

    def without_waiting(self) -> FleetSchedule:
        """Return the schedule, in seconds, with each replica's rounds as early as possible."""
        parts = [part and part.without_waiting() for part in self.parts]
        return FleetSchedule(self.fleet, self.assignment, parts)

    @cached_property
    def start_times(self) -> IntArray:
        """Start t_i of each request (it first runs in round t_i + 1), shape (n,), read-only."""
        return self._gathered(lambda part, own: part.start_times)

    @cached_property
    def completion_times(self) -> npt.NDArray[Any]:
        """Completion time C_i of each request, in rounds or seconds, shape (n,), read-only."""
        return self._gathered(lambda part, own: part.completion_times)

    @cached_property
    def first_token_times(self) -> npt.NDArray[Any]:
        """Time of each request's first output token, rounds or seconds, shape (n,), read-only."""
        return self._gathered(lambda part, own: part.first_token_times)

    @cached_property
    def total_latency(self) -> Any:
        """Total latency (TEL): the sum of w_i (C_i - a_i) of all requests, in rounds or seconds."""
        return sum(part.total_latency for part in self.machines)

    def violations(self) -> list[Any]:
        """Return the violations of all replicas, each with the number of its replica."""
        return [
            replace(violation, replica=replica)
            for replica, part in enumerate(self.parts)
            for violation in (part.violations() if part else ())
        ]

    def moved(self, instance: Instance, rounds: IntArray) -> FleetSchedule:
        """Return a schedule of ``instance`` in which request i starts ``rounds[i]`` later."""
        pairs = zip(self.positions, self.parts, strict=True)
        parts = [part and part.moved(instance.alone(own), rounds[own]) for own, part in pairs]
        return FleetSchedule(instance, self.assignment, parts)

    def keeps(self, limits: Limits) -> BoolArray:
        """Return whether each request keeps its limits on latency and token times, shape (n,)."""
        return self._gathered(lambda part, own: part.keeps(limits.of(own)))

    def _gathered(self, of: Callable[[Any, IntArray], Any]) -> npt.NDArray[Any]:
        """Combine arrays of the replicas into one with an entry for each request of the fleet.

        ``of`` returns the array of a replica from its schedule and the positions of its requests.
        """
        served = [(own, part) for own, part in zip(self.positions, self.parts, strict=True) if part]
        column = np.concatenate([of(part, own) for own, part in served])
        order = np.argsort(np.concatenate([own for own, _ in served]))
        return read_only(column[order])

    def _times(self) -> dict[str, npt.NDArray[Any]]:
        return {"replica": self.assignment, **super()._times()}


def by_replica(assignment: IntArray, replicas: int) -> tuple[IntArray, ...]:
    """Return for each replica the positions of its requests, in increasing order."""
    return tuple(np.flatnonzero(assignment == replica) for replica in range(replicas))


def as_assignment(problem: Instance | Workload, assignment: Sequence[int] | IntArray) -> IntArray:
    """Check the replica of each request, and return them as a read-only array, shape (n,).

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A replica is not in 0 .. K - 1, or the number of entries is not n.
    """
    check_count("fleet schedule", "assignment", assignment, len(problem))
    most = problem.replicas - 1
    return as_column(assignment, problem.ids, "replica", minimum=0, maximum=most)
