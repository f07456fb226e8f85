"""The record of a run of a fleet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from instances import FleetSchedule, Instance, Workload
from instances.arrays import FloatArray, IntArray
from instances.batch_time import BatchTime
from instances.problem.fleet_schedule import by_replica
from instances.problem.request import RequestId

from .run import Run, Served
from .run_columns import RunStatus


class Load(NamedTuple):
    """Load of each replica at times on the clock.

    Attributes
    ----------
    times : float64 array, shape (t,)
        On the clock.
    tokens : int64 array, shape (K, t)
        KV tokens held in the round under way.
    waiting, running : int64 array, shape (K, t)
        Requests in the queue and in the batch.
    """

    times: FloatArray
    tokens: IntArray
    waiting: IntArray
    running: IntArray


@dataclass(frozen=True)
class FleetRun(Served):
    """Record of a router and a policy on a fleet.

    Attributes
    ----------
    problem : Instance or Workload or None
        The requests; None where arrivals of a source were not whole rounds.
    router_name : str
        Registered name.
    seed : int
        Seed of every random choice of the run.
    assignment : int64 array, shape (n,)
        Replica of each request, in the order of the requests.
    runs : tuple[Run or None, ...]
        Of each replica on the requests sent there, in their order; None where nothing was.
    """

    problem: Instance | Workload | None
    router_name: str
    seed: int
    assignment: IntArray
    runs: tuple[Run | None, ...]

    def __repr__(self) -> str:
        told = f"{len(self.assignment)} requests, {len(self.runs)} replicas, {self.status}"
        ended = ""
        if self.status == "completed":
            ended = f", mean latency {self.mean_latency:.6g} {self._first._unit}"
        return f"FleetRun({self.policy_name!r} under {self.router_name!r}, {told}{ended})"

    @cached_property
    def _served(self) -> list[tuple[IntArray, Run]]:
        """Positions and run of each replica that served requests."""
        own = by_replica(self.assignment, len(self.runs))
        return [(place, run) for place, run in zip(own, self.runs, strict=True) if run is not None]

    @property
    def instance(self) -> Instance | None:
        """Return the requests in rounds; None in seconds."""
        return self.problem if isinstance(self.problem, Instance) else None

    @property
    def batch_time(self) -> BatchTime | None:
        """Return the seconds of each round; None in the round model."""
        return self._first.batch_time

    @property
    def policy_name(self) -> str:
        """Return the registered name of the policy."""
        return self._first.policy_name

    @property
    def status(self) -> RunStatus:
        """Return ``"completed"`` if all replicas did, else the status of the first that did not."""
        statuses = [run.status for _, run in self._served]
        return next((one for one in statuses if one != "completed"), "completed")

    @property
    def evictions(self) -> int:
        """Return the total number of evictions."""
        return sum(run.evictions for _, run in self._served)

    @property
    def decisions(self) -> int:
        """Return how often the policies were asked."""
        return sum(run.decisions for _, run in self._served)

    @property
    def keeps_tokens(self) -> bool:
        """Tell whether some request was preempted and later continued with its tokens."""
        return any(run.keeps_tokens for _, run in self._served)

    @cached_property
    def schedule(self) -> FleetSchedule:
        """Return the schedules of all replicas, each checked as `Run` has them.

        In rounds without preemption, unless some replica kept the tokens of preempted requests:
        then all are preemptive.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        NoScheduleError
            A replica's run has no such schedule; the message says why.
        """
        in_rounds = self.batch_time is None
        return self._of("preemptive_schedule" if in_rounds and self.keeps_tokens else "schedule")

    @cached_property
    def preemptive_schedule(self) -> FleetSchedule:
        """Return the rounds in which the tokens of each request came out, checked."""
        return self._of("preemptive_schedule")

    @cached_property
    def total_latency(self) -> int | float:
        """Return the sum of latencies over all replicas, see `Run.total_latency`.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        """
        return sum(run.total_latency for _, run in self._served)

    @property
    def mean_latency(self) -> float:
        """Return the mean latency per request, or over the sum of weights."""
        problem = self.problem
        count = problem.total_weight if isinstance(problem, Instance) else len(self.assignment)
        return self.total_latency / count

    @cached_property
    def ids(self) -> tuple[RequestId, ...]:
        """Return the requests' labels."""
        return tuple(self.per_request()["id"])

    @cached_property
    def output_lengths(self) -> IntArray:
        """Return the output lengths, tokens, shape (n,)."""
        column: IntArray = self._column("output_lengths")
        return column

    @cached_property
    def arrival_times(self) -> FloatArray:
        """Return the arrivals on the clock, shape (n,)."""
        column: FloatArray = self._column("arrival_times")
        return column

    @cached_property
    def completion_times(self) -> FloatArray:
        """Return the completions on the clock, shape (n,); NaN where there is none."""
        column: FloatArray = self._column("completion_times")
        return column

    def per_request(self) -> dict[str, Any]:
        """Return the columns of `Run.per_request`, and the replica of each request."""
        columns: dict[str, Any] = {"replica": self.assignment}
        for place, run in self._served:
            for name, own in run.per_request().items():
                kind = object if name == "id" else own.dtype
                column = columns.setdefault(name, np.zeros(len(self.assignment), dtype=kind))
                column[place] = own
        return columns | {"id": columns["id"].tolist()}

    def load(self, points: int = 200) -> Load:
        """Return the load of each replica at equally spaced times, from 0 to the last round's end.

        A round that begins at a time is under way then, and one that ends is not.
        """
        last = max(run.round_times()[1].max(initial=0.0) for _, run in self._served)
        times = np.linspace(0.0, last, points)
        load = Load(times, *np.zeros((3, len(self.runs), points), dtype=np.int64))
        for replica, run in enumerate(self.runs):
            if run is not None:
                load.tokens[replica], load.waiting[replica], load.running[replica] = _loads(
                    run, times
                )
        return load

    def _of(self, name: str) -> FleetSchedule:
        parts = [None if run is None else getattr(run, name) for run in self.runs]
        fleet: Any = self.problem
        if isinstance(fleet, Instance):
            fleet = self._first.service_model.with_tokens_every_round(fleet)
        return FleetSchedule(fleet, self.assignment, parts)

    def _column(self, name: str) -> Any:
        column = np.zeros(len(self.assignment), dtype=getattr(self._first, name).dtype)
        for place, run in self._served:
            column[place] = getattr(run, name)
        return column

    @property
    def _first(self) -> Run:
        return self._served[0][1]


def _loads(run: Run, times: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return tokens held, requests waiting and requests running at each time."""
    begins, ends = run.round_times()
    at = np.searchsorted(begins, times, "right") - 1
    under_way = (at >= 0) & (times < np.append(ends, np.inf)[at])
    tokens = np.where(under_way, np.append(run.memory_of_rounds, 0)[at], 0)
    # What left before its first round was never in a batch.
    stays = run.attempts.start_round < run.attempts.end_round
    first: Any = run.attempts.start_round[stays]
    last: Any = run.attempts.end_round[stays]
    if run.round_end_times is not None:
        first, last = begins[first], ends[last - 1]
    running = _count(first, times) - _count(last, times)
    waiting = _count(run.arrival_times, times) - _count(run.completion_times, times) - running
    return tokens, waiting, running


def _count(events: Any, times: FloatArray) -> IntArray:
    """Return how many of the events have happened by each time; NaN is never."""
    return np.searchsorted(np.sort(events), times, "right")
