"""The allowed (request, start) pairs of a time-indexed model.

A fleet is modelled as one timeline with a segment for each replica: start t on replica k is start
k H + t, where H is a round by which all requests complete. No request runs across the end of a
segment, so the memory rows of one machine over K H rounds are those of K machines. Replicas are
interchangeable. If they are numbered in the order in which their first requests arrive, the i-th
request to arrive, counted from 0, needs only replicas 0 .. i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hindsight.outcomes.problem import busy_end
from hindsight.schedules.timetables import schedule_on
from instances import FleetSchedule, Instance, InvalidValueError, Schedule
from instances.arrays import IntArray
from instances.service_level import Limits
from instances.validation import as_integer

LARGEST_RELAXATION = 400_000
"""Largest number of (request, start) pairs with which the linear relaxation is solved."""


@dataclass(frozen=True, eq=False)
class StartSets:
    """Allowed starts of each request in a time-indexed model. All requests complete by the horizon.

    A fleet is modelled as one timeline with a segment of H rounds for each replica: start t on
    replica k is start k H + t. The model has no memory constraints after the horizon, so all
    requests must complete by then.

    Attributes
    ----------
    instance : Instance
        The instance.
    horizon : int
        Last round of the model. For a fleet it is the last round of the timeline, H times
        `useful_replicas`.
    starts : tuple[int64 array, ...]
        Sorted starts of each request, on the timeline for a fleet. Non-empty unless ``optional``.
    optional : bool, default False
        Whether requests may be left out. If so, the starts are those that meet the service level,
        and the model minimises the number of late requests.
    """

    instance: Instance
    horizon: int
    starts: tuple[IntArray, ...]
    optional: bool = False

    def __post_init__(self) -> None:
        for request, starts in zip(self.instance, self.starts, strict=True):
            if not len(starts) and not self.optional:
                reason = f"leaves no start to a request that arrives at {request.arrival_time} and "
                reason += f"runs {request.output_length} rounds"
                raise InvalidValueError(f"request {request.id!r}", "horizon", self.rounds, reason)

    @property
    def rounds(self) -> int:
        """Return the number of rounds H that the model has for each replica."""
        return self.horizon // useful_replicas(self.instance)


def useful_replicas(instance: Instance) -> int:
    """Return the number of replicas, or the number of requests if that is smaller."""
    return min(instance.replicas, len(instance))


def _needed_replicas(instance: Instance) -> IntArray:
    """Return the number of replicas on which each request must be able to start, shape (n,).

    Replicas are interchangeable, so they can be numbered in the order of the first arrival on each.
    Then the i-th request to arrive, counted from 0, is on one of the replicas 0 .. i.
    """
    needed = np.empty(len(instance), dtype=np.int64)
    count = useful_replicas(instance)
    needed[by_arrival(instance)] = np.minimum(np.arange(len(instance)), count - 1) + 1
    return needed


def by_arrival(instance: Instance) -> IntArray:
    """Return the indices of the requests in order of arrival, shape (n,)."""
    return np.argsort(instance.arrival_times, kind="stable")


def on_timeline(starts: StartSets, schedule: Schedule | FleetSchedule) -> IntArray:
    """Return the starts of a schedule on the timeline of an integer program, shape (n,).

    For a fleet, start t on replica k is start k H + t on the timeline, with H rounds per replica.
    Replicas are first renumbered in the order in which their first requests arrive, because the
    program lets the i-th request to arrive use only the first i replicas.
    """
    if not isinstance(schedule, FleetSchedule):
        return schedule.start_times
    seen = dict.fromkeys(schedule.assignment[by_arrival(starts.instance)].tolist())
    number = {replica: place for place, replica in enumerate(seen)}
    replicas = np.array([number[one] for one in schedule.assignment.tolist()])
    return replicas * starts.rounds + schedule.start_times


def from_timeline(starts: StartSets, times: IntArray) -> Schedule | FleetSchedule:
    """Return the schedule with starts ``times``, shape (n,), on the timeline of an integer program.

    For a fleet, start k H + t on the timeline is start t on replica k, with H rounds per replica.
    """
    return schedule_on(starts.instance, *np.divmod(times, starts.rounds))


def count_starts(instance: Instance, horizon: int) -> int:
    """Count the (request, start) pairs that `all_starts` lists, without listing them.

    In such a pair, the request starts at its arrival or later, and completes by round ``horizon``.
    """
    latest = horizon - instance.output_lengths - instance.arrival_times + 1
    return int(np.maximum(latest, 0) @ _needed_replicas(instance))


def all_starts(instance: Instance, horizon: int) -> StartSets:
    """List all starts of each request, from its arrival on, that complete by ``horizon``.

    Raises
    ------
    InvalidValueError
        Some request cannot complete by the horizon.
    """
    horizon = as_integer(horizon, None, "horizon", minimum=1)
    return start_sets(instance, _ranges(instance, horizon - instance.output_lengths), horizon)


def start_sets(
    instance: Instance,
    starts: Sequence[IntArray],
    horizon: int | None = None,
    *,
    optional: bool = False,
) -> StartSets:
    """Return the `StartSets` with the given starts of each request, on every replica of a fleet.

    The model has ``horizon`` rounds on each replica. If ``horizon`` is None, it has the rounds up
    to the latest completion with a given start. On the timeline of a fleet, start t on replica k is
    start k H + t, where H is this number of rounds. The starts of a request are repeated on each
    replica that it may use (`_needed_replicas`).
    """
    if horizon is None:
        last = np.array([allowed.max(initial=0) for allowed in starts])
        horizon = int((last + instance.output_lengths).max())
    own = tuple(
        (np.arange(replicas)[:, np.newaxis] * horizon + allowed).ravel()
        for replicas, allowed in zip(_needed_replicas(instance).tolist(), starts, strict=True)
    )
    return StartSets(instance, useful_replicas(instance) * horizon, own, optional)


def starts_until(instance: Instance, last: IntArray) -> StartSets:
    """List the starts of each request from its arrival to round ``last``, shape (n,).

    A request whose ``last`` is before its arrival has no start. The field ``optional`` is True:
    schedules may leave requests out.
    """
    return start_sets(instance, _ranges(instance, last), optional=True)


def _ranges(instance: Instance, last: IntArray) -> list[IntArray]:
    """Return the starts of each request from its arrival to round ``last``, shape (n,)."""
    pairs = zip(instance.arrival_times.tolist(), (last + 1).tolist(), strict=True)
    return [np.arange(first, end, dtype=np.int64) for first, end in pairs]


def latest_starts(instance: Instance, limits: Limits) -> IntArray:
    """Return the last start of each request that meets the limits of its service level, shape (n,).

    The limits are on its latency, on the time to its first token and on its mean time per later
    token. The entry is the arrival minus 1 if no start meets them.
    """
    a, o = instance.arrival_times, instance.output_lengths
    most = busy_end(instance)
    by_latency = np.floor(np.minimum(limits.latency, most + o)) - o
    by_first_token = np.floor(np.minimum(limits.first_token, most + 1)) - 1
    wait = np.minimum(by_latency, by_first_token).astype(np.int64)
    # A running request emits one token per round, so no start meets a limit on time per token below
    # 1 round. This limit does not apply to requests with one token.
    wait[(o > 1) & (limits.time_per_token < 1)] = -1
    return np.asarray(a + np.maximum(wait, -1))
