"""Arrival sources, which supply a simulation's requests and may react to the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from .instance import Instance
from .memory_rule import TOKENS, MemoryRule
from .request import RequestId


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
    round; ask for it with `instances.problem.workload.source_batch_time`.

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


def memory_rule_of(source: ArrivalSource) -> MemoryRule:
    """Memory rule of the machine that the requests are meant for."""
    rule: MemoryRule = getattr(source, "memory_rule", TOKENS)
    return rule


class FixedArrivals:
    """Arrivals in order of time, released as it passes whatever the policy does."""

    adaptive = False
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


class InstanceSource(FixedArrivals):
    """The requests of an instance at their arrival times, ties in the instance's order.

    Attributes
    ----------
    order : list[int]
        Instance positions in the order in which `release` hands them over.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.memory_limit, self.memory_rule = instance.memory_limit, instance.memory_rule
        self.name = instance.name
        self.order: list[int] = np.argsort(instance.arrival_times, kind="stable").tolist()
        ordered = (instance[position] for position in self.order)
        self._arrivals = [
            Arrival(one.arrival_time, one.prompt_length, one.output_length, one.id, one.weight)
            for one in ordered
        ]
