"""Arrival sources, which supply a simulation's requests and may react to the policy."""

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
    """A request at the moment it appears.

    Attributes
    ----------
    time : float
        Rounds in the round model (a whole number), seconds in continuous time.
    prompt_length, output_length : int
        Tokens, as in `Request`.
    id : RequestId or None
        Label; None takes the order of arrival.
    weight : int, default 1
        Importance in the round model, as in `Request`.
    """

    time: float
    prompt_length: int
    output_length: int
    id: RequestId | None = None
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Observation:
    """View of one decision epoch for an arrival source: nothing a client could not see.

    Attributes
    ----------
    round_index : int
        Rounds run so far.
    time : float
        The clock (equal to ``round_index`` in the round model).
    started, evicted : tuple[RequestId, ...]
        Ids of the requests the policy started or evicted at this epoch.
    completed : tuple[RequestId, ...]
        Ids of the requests that completed at this epoch, before the policy decided.
    """

    round_index: int
    time: float
    started: tuple[RequestId, ...] = ()
    evicted: tuple[RequestId, ...] = ()
    completed: tuple[RequestId, ...] = ()


@runtime_checkable
class ArrivalSource(Protocol):
    """Releases requests over time; an adaptive one reacts to the policy's decisions.

    A source whose memory is not counted in tokens has the attribute ``memory_rule`` as well; ask
    for it with `memory_rule_of`. One whose times are seconds has ``batch_time``, the seconds of a
    round; ask for it with `batch_time_of`.

    Attributes
    ----------
    memory_limit : int
        Capacity M of the machine the requests are meant for.
    name : str or None
        Label for tables, or None.
    adaptive : bool
        Whether `observe` can change what is released later.
    """

    memory_limit: int
    name: str | None
    adaptive: bool

    def reset(self, rng: np.random.Generator) -> None:
        """Begin again; all randomness comes from ``rng``."""

    def next_arrival(self) -> float | None:
        """The time of the next release as far as is known now, or None."""

    def release(self, now: float) -> Sequence[Arrival]:
        """Hand over, once, every request with time <= ``now``, in order of time."""

    def observe(self, observation: Observation) -> None:
        """Hear what happened at a decision epoch, in order of time."""


AnySource: TypeAlias = Instance | Workload | ArrivalSource
"""What a policy can be run on."""


def memory_rule_of(source: ArrivalSource) -> MemoryRule:
    """Memory rule of the machine that the requests are meant for."""
    rule: MemoryRule = getattr(source, "memory_rule", TOKENS)
    return rule


def batch_time_of(source: AnySource) -> BatchTime | None:
    """Return the seconds of a round of what requests come from; None where rounds are counted.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A workload without a batch time, or a source with something else as one.
    """
    if isinstance(source, Workload):
        return source.require_batch_time()
    found = getattr(source, "batch_time", None)
    return None if found is None else check_batch_time(found)


def in_seconds(source: Any, batch_time: BatchTime | None) -> Any:
    """Return what requests come from with a batch time; None leaves it as it is.

    An instance becomes a workload. An arrival source keeps the batch time as its attribute
    ``batch_time``.
    """
    if batch_time is None:
        return source
    if isinstance(source, Instance):
        return Workload.from_instance(source, batch_time)
    if isinstance(source, Workload):
        return source.with_batch_time(batch_time)
    source.batch_time = batch_time
    return source


class FixedArrivals:
    """Arrivals in order of time, released as it passes whatever the policy does."""

    adaptive = False
    memory_rule = TOKENS
    batch_time: BatchTime | None = None
    _arrivals: list[Arrival]
    _position = 0

    def reset(self, rng: np.random.Generator) -> None:
        """Begin again; there is no randomness left."""
        self._position = 0

    def next_arrival(self) -> float | None:
        """The arrival time of the first request not yet released."""
        if self._position == len(self._arrivals):
            return None
        return self._arrivals[self._position].time

    def release(self, now: float) -> list[Arrival]:
        """The requests that arrive by ``now``."""
        begun = self._position
        arrivals, count = self._arrivals, len(self._arrivals)
        while self._position < count and arrivals[self._position].time <= now:
            self._position += 1
        return arrivals[begun : self._position]

    def observe(self, observation: Observation) -> None:
        """Ignore it: the arrivals are fixed."""


class ProblemSource(FixedArrivals):
    """The requests of an instance or workload at their arrival times, ties in its order."""

    def __init__(self, problem: Instance | Workload) -> None:
        self.problem = problem
        self.name, self.memory_limit = problem.name, problem.memory_limit
        self.memory_rule, self.batch_time = problem.memory_rule, batch_time_of(problem)
        weights = problem.weights.tolist() if isinstance(problem, Instance) else [1] * len(problem)
        lengths = (problem.prompt_lengths.tolist(), problem.output_lengths.tolist())
        rows = zip(problem.arrival_times.tolist(), *lengths, problem.ids, weights, strict=True)
        arrivals = [Arrival(*row) for row in rows]
        self._arrivals = [arrivals[position] for position in problem.order_of_arrival.tolist()]
