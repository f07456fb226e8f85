"""Where a simulation's requests come from, possibly in answer to what the policy does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """

    time: float
    prompt_length: int
    output_length: int
    id: RequestId | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What an arrival source sees of one decision epoch: nothing a client could not see.

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
    for it with `memory_rule_of`.

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
    """How the memory of the machine that the requests are meant for is counted."""
    rule: MemoryRule = getattr(source, "memory_rule", TOKENS)
    return rule


@dataclass
class InstanceSource:
    """The requests of an instance at their arrival times: nothing adaptive."""

    instance: Instance
    adaptive: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.memory_limit = self.instance.memory_limit
        self.memory_rule = self.instance.memory_rule
        self.name = self.instance.name
        self._order: list[int] = np.argsort(self.instance.arrival_times, kind="stable").tolist()
        self._position = 0

    @property
    def order(self) -> list[int]:
        """Instance positions in the order in which `release` hands them over."""
        return self._order

    def reset(self, rng: np.random.Generator) -> None:
        """Begin again; an instance has no randomness left."""
        self._position = 0

    def next_arrival(self) -> float | None:
        """The arrival time of the first request not yet released."""
        if self._position == len(self._order):
            return None
        return self.instance[self._order[self._position]].arrival_time

    def release(self, now: float) -> list[Arrival]:
        """The requests that arrive by ``now``, ties in the instance's order."""
        released = []
        while self._position < len(self._order):
            request = self.instance[self._order[self._position]]
            if request.arrival_time > now:
                break
            released.append(
                Arrival(
                    request.arrival_time, request.prompt_length, request.output_length, request.id
                )
            )
            self._position += 1
        return released

    def observe(self, observation: Observation) -> None:
        """Ignore it: the arrivals are fixed."""
