"""Schedules of a fleet: which replica serves each request, and a schedule for each replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray, read_only
from instances.errors import InvalidTypeError, InvalidValueError
from instances.service_level import BoolArray, Limits
from instances.validation import set_fields

from .instance import Instance
from .request import as_column, check_count
from .schedule import Schedule, TimedSchedule
from .workload import Workload


@dataclass(frozen=True, eq=False, repr=False)
class FleetSchedule(TimedSchedule):
    """A replica for each request, and a schedule of one machine for each replica.

    Replicas share nothing but the requests, so all costs and violations are those of the parts.

    Parameters
    ----------
    fleet : Instance or Workload
        The requests, with any number of replicas.
    assignment : Sequence[int] or int64 array
        Replica of each request, 0 to K - 1, shape (n,).
    parts : Sequence[Schedule, PreemptiveSchedule, SecondsSchedule or None]
        Part k is a schedule of ``fleet.alone(positions of replica k)``; None where it serves
        nothing.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A replica that is none, a wrong count, or a part that is a schedule of other requests.
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
        """Build a schedule in rounds without preemption from replicas and starts, shape (n,).

        Raises
        ------
        InvalidTypeError, InvalidValueError
            A replica that is none, a start that is no whole number, or a wrong count.
        """
        replicas = as_assignment(instance, assignment)
        check_count("schedule", "start_times", start_times, len(instance))
        parts = [
            Schedule(instance.alone(own), [start_times[i] for i in own.tolist()])
            if len(own)
            else None
            for own in by_replica(replicas, instance.replicas)
        ]
        return cls(instance, replicas, parts)

    @property
    def problem(self) -> Instance | Workload:
        """The requests scheduled, and their replicas."""
        return self.fleet

    @property
    def instance(self) -> Instance:
        """The instance scheduled, of a fleet in rounds.

        Raises
        ------
        InvalidTypeError
            The fleet is scheduled in seconds.
        """
        if not isinstance(self.problem, Instance):
            raise InvalidTypeError("fleet schedule", "problem", self.problem, "is not an Instance")
        return self.problem

    @cached_property
    def positions(self) -> tuple[IntArray, ...]:
        """Positions of the requests of each replica, which ascend."""
        return by_replica(self.assignment, self.problem.replicas)

    @property
    def machines(self) -> tuple[Any, ...]:
        """The parts of the replicas that serve requests."""
        return tuple(part for part in self.parts if part is not None)

    @property
    def keeps_tokens(self) -> bool:
        """True if a request came back with tokens that it keeps: see `SecondsSchedule`."""
        return any(part.keeps_tokens for part in self.machines)

    def without_waiting(self) -> FleetSchedule:
        """Start the rounds of each replica, of a fleet in seconds, as early as they can."""
        parts = [None if part is None else part.without_waiting() for part in self.parts]
        return FleetSchedule(self.fleet, self.assignment, parts)

    @cached_property
    def start_times(self) -> IntArray:
        """Round before the first of each request, of a fleet in rounds, shape (n,), read-only."""
        return self._gathered(lambda part, own: part.start_times)

    @cached_property
    def completion_times(self) -> npt.NDArray[Any]:
        """C_i, on the clock, shape (n,), read-only."""
        return self._gathered(lambda part, own: part.completion_times)

    @cached_property
    def first_token_times(self) -> npt.NDArray[Any]:
        """When the first token of each request is out, on the clock, shape (n,), read-only."""
        return self._gathered(lambda part, own: part.first_token_times)

    @cached_property
    def total_latency(self) -> Any:
        """TEL: the sum of w_i (C_i - a_i) over all replicas, in units of the clock."""
        return sum(part.total_latency for part in self.machines)

    @property
    def total_waiting(self) -> int:
        """Total latency beyond the sum of w_i o_i, of a fleet in rounds."""
        return int(self.total_latency) - self.instance.total_output_length

    def violations(self) -> list[Any]:
        """Every broken rule of every replica, with the replica named."""
        return [
            replace(violation, replica=replica)
            for replica, part in enumerate(self.parts)
            if part is not None
            for violation in part.violations()
        ]

    def moved(self, instance: Instance, rounds: IntArray) -> FleetSchedule:
        """Return it as a schedule of ``instance``, with request i later by ``rounds[i]``."""
        parts = [
            None if part is None else part.moved(instance.alone(own), rounds[own])
            for own, part in zip(self.positions, self.parts, strict=True)
        ]
        return FleetSchedule(instance, self.assignment, parts)

    def keeps(self, limits: Limits) -> BoolArray:
        """Return which requests keep their limits, shape (n,)."""
        return self._gathered(lambda part, own: part.keeps(limits.of(own)))

    def _gathered(self, of: Callable[[Any, IntArray], Any]) -> npt.NDArray[Any]:
        """Return a column of all requests, given that of a part and its requests."""
        served = [(own, part) for own, part in zip(self.positions, self.parts, strict=True) if part]
        column = np.concatenate([of(part, own) for own, part in served])
        order = np.argsort(np.concatenate([own for own, _ in served]))
        return read_only(column[order])

    def _times(self) -> dict[str, npt.NDArray[Any]]:
        return {"replica": self.assignment, **super()._times()}


def by_replica(assignment: IntArray, replicas: int) -> tuple[IntArray, ...]:
    """Return the positions of the requests of each replica, which ascend."""
    return tuple(np.flatnonzero(assignment == replica) for replica in range(replicas))


def as_assignment(problem: Instance | Workload, assignment: Sequence[int] | IntArray) -> IntArray:
    """Return the replica of each request as a read-only column, checked.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        An entry that is no replica, or a wrong count.
    """
    check_count("fleet schedule", "assignment", assignment, len(problem))
    most = problem.replicas - 1
    return as_column(assignment, problem.ids, "replica", minimum=0, maximum=most)
