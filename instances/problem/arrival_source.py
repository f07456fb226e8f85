"""Arrival sources, which release the requests of a simulation and may react to the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from .batches import BatchTime, check_batch_time
from .instance import Instance
from .memory_rule import TOKENS, MemoryRule
from .request import RequestId
from .workload import Workload


class Arrival(NamedTuple):
    """A request that an arrival source releases to a simulation.

    Attributes
    ----------
    time : float
        Arrival time: a whole number of rounds in the round model, else seconds.
    prompt_length, output_length : int
        Prompt and output tokens, as in `Request`.
    id : RequestId or None
        Label; None takes the number of the request in order of arrival.
    weight : int, default 1
        Weight of the latency in the round model, as in `Request`.
    """

    time: float
    prompt_length: int
    output_length: int
    id: RequestId | None = None
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Observation:
    """Events of one decision of the policy, as an arrival source observes them.

    A source observes only events that a client of the server could see too.

    Attributes
    ----------
    round_index : int
        Number of rounds run before the decision.
    time : float
        Time of the decision, in seconds, or equal to ``round_index`` in the round model.
    started, evicted : tuple[RequestId, ...]
        Ids of the requests that the policy started or evicted.
    completed : tuple[RequestId, ...]
        Ids of the requests that completed just before the decision.
    """

    round_index: int
    time: float
    started: tuple[RequestId, ...] = ()
    evicted: tuple[RequestId, ...] = ()
    completed: tuple[RequestId, ...] = ()


@runtime_checkable
class ArrivalSource(Protocol):
    """Protocol of arrival sources, which release requests over time.

    An adaptive source reacts to the policy's decisions. A source may have two more attributes:
    ``memory_rule``, if memory is not counted in tokens (read it with `memory_rule_of`), and
    ``batch_time``, the model of a round's seconds, if times are in seconds (read it with
    `batch_time_of`).

    Attributes
    ----------
    memory_limit : int
        Capacity M, in tokens, of the machine that serves the requests.
    name : str or None
        Label for tables, or None.
    adaptive : bool
        Whether later arrivals depend on what `observe` receives.
    """

    memory_limit: int
    name: str | None
    adaptive: bool

    def reset(self, rng: np.random.Generator) -> None:
        """Return to the state before the first arrival; a random source draws from ``rng`` only."""

    def next_arrival(self) -> float | None:
        """Return the time of the next arrival, or None if no further arrival is known now."""

    def release(self, now: float) -> Sequence[Arrival]:
        """Return all requests with time <= ``now`` not returned before, in order of time."""

    def observe(self, observation: Observation) -> None:
        """Receive the events of a decision of the policy; called in order of time."""


AnySource: TypeAlias = Instance | Workload | ArrivalSource
"""Sources of requests for a simulation of a policy."""


def memory_rule_of(source: ArrivalSource) -> MemoryRule:
    """Return the memory rule of the machine that serves the requests of a source."""
    rule: MemoryRule = getattr(source, "memory_rule", TOKENS)
    return rule


def batch_time_of(source: AnySource) -> BatchTime | None:
    """Return the batch time (model of a round's seconds) of a source; None if time counts rounds.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A workload has no batch time, or the attribute ``batch_time`` is not a batch time.
    """
    if isinstance(source, Workload):
        return source.require_batch_time()
    found = getattr(source, "batch_time", None)
    return None if found is None else check_batch_time(found)


def in_seconds(source: Any, batch_time: BatchTime) -> Any:
    """Return ``source`` with a batch time, so that runs of it count time in seconds.

    An instance becomes a workload. For a workload the result is a copy. An arrival source itself is
    returned, after its attribute ``batch_time`` has been set.
    """
    if isinstance(source, Instance):
        return Workload.from_instance(source, batch_time)
    if isinstance(source, Workload):
        return source.replaced(batch_time=batch_time)
    source.batch_time = batch_time
    return source


class FixedArrivals:
    """Base class of arrival sources whose arrivals do not depend on the policy."""

    adaptive = False
    memory_rule = TOKENS
    batch_time: BatchTime | None = None
    _arrivals: list[Arrival]
    _position = 0

    def reset(self, rng: np.random.Generator) -> None:
        """Return to the state before the first arrival; ``rng`` is unused."""
        self._position = 0

    def next_arrival(self) -> float | None:
        """Return the arrival time of the first request not yet released; None if all are."""
        if self._position == len(self._arrivals):
            return None
        return self._arrivals[self._position].time

    def release(self, now: float) -> list[Arrival]:
        """Return the requests that arrive by ``now`` and have not been released yet."""
        begun = self._position
        arrivals, count = self._arrivals, len(self._arrivals)
        while self._position < count and arrivals[self._position].time <= now:
            self._position += 1
        return arrivals[begun : self._position]

    def observe(self, observation: Observation) -> None:
        """Ignore the policy's decision, as arrivals are fixed."""


class ProblemSource(FixedArrivals):
    """Arrival source with the requests of an instance or workload at their arrival times.

    Requests with equal arrival times keep the order of the problem.
    """

    def __init__(self, problem: Instance | Workload) -> None:
        self.problem = problem
        self.name, self.memory_limit = problem.name, problem.memory_limit
        self.memory_rule, self.batch_time = problem.memory_rule, batch_time_of(problem)
        weights = problem.weights.tolist() if isinstance(problem, Instance) else [1] * len(problem)
        lengths = (problem.prompt_lengths.tolist(), problem.output_lengths.tolist())
        rows = zip(problem.arrival_times.tolist(), *lengths, problem.ids, weights, strict=True)
        arrivals = [Arrival(*row) for row in rows]
        self._arrivals = [arrivals[position] for position in problem.order_of_arrival.tolist()]
