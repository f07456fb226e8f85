"""A schedule of an instance, and the one checker of this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from instances.arrays import IntArray
from instances.errors import InvalidValueError
from instances.validation import as_integer

from .instance import Instance
from .memory import memory_at_ends, memory_profile
from .request import RequestId

LONGEST_PROFILE = 200_000_000
"""Rounds beyond which a memory profile is refused instead of exhausting the machine."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    Attributes
    ----------
    kind : {"early-start", "memory"}
        ``"early-start"`` (t_i < a_i) or ``"memory"`` (a round holds more than M).
    request_id : RequestId or None
        The request that starts early, or None.
    round_index : int or None
        The round of a memory violation, or None.
    amount : int
        Rounds too early, or tokens above M.
    """

    kind: Literal["early-start", "memory"]
    request_id: RequestId | None
    round_index: int | None
    amount: int

    def __str__(self) -> str:
        if self.kind == "early-start":
            return f"request {self.request_id!r} starts {self.amount} rounds before it arrives"
        return f"round {self.round_index} holds {self.amount} tokens more than memory_limit"


class CompletedRequests(ABC):
    """What follows from the rounds in which the requests of an instance complete."""

    instance: Instance

    @property
    @abstractmethod
    def completion_times(self) -> IntArray:
        """Last round of each request, shape (n,), read-only."""

    @property
    def latencies(self) -> IntArray:
        """C_i - a_i, rounds, shape (n,)."""
        return self.completion_times - self.instance.arrival_times

    @cached_property
    def total_latency(self) -> int:
        """TEL: the sum of C_i - a_i, in rounds."""
        return sum(self.latencies.tolist())

    @property
    def mean_latency(self) -> float:
        """Total latency per request, in rounds."""
        return self.total_latency / len(self.instance)

    @property
    def makespan(self) -> int:
        """The last completion, a round index."""
        return int(self.completion_times.max())

    @abstractmethod
    def violations(self) -> list[Violation]:
        """Every broken rule."""

    @cached_property
    def is_feasible(self) -> bool:
        """Whether `violations` finds nothing."""
        return not self.violations()

    def _profile(self, starts: IntArray, held: IntArray, rounds: IntArray) -> IntArray:
        """Memory of runs that begin after ``starts``, from ``held`` tokens on."""
        if self.makespan > LONGEST_PROFILE:
            raise InvalidValueError(
                "schedule", "makespan", self.makespan, f"is above {LONGEST_PROFILE} rounds"
            )
        return memory_profile(starts, held, rounds, self.makespan)

    def _broken(
        self, early: IntArray, starts: IntArray, held: IntArray, rounds: IntArray
    ) -> list[Violation]:
        """Requests that are ``early`` by some rounds, and rounds in which runs exceed M."""
        found = [
            Violation("early-start", self.instance.ids[index], None, int(early[index]))
            for index in np.flatnonzero(early > 0)
        ]
        ends, memory = memory_at_ends(starts, held, rounds)
        for position in np.flatnonzero(memory > self.instance.memory_limit):
            excess = int(memory[position]) - self.instance.memory_limit
            found.append(Violation("memory", None, int(ends[position]), excess))
        return found


@dataclass(frozen=True, eq=False)
class Schedule(CompletedRequests):
    """Start times t_i for every request of an instance.

    Request i runs in rounds t_i + 1 .. t_i + o_i and holds s_i + (r - t_i) tokens in round r.
    Nothing is assumed feasible: ask `violations`. All costs are recomputed from start times.

    Parameters
    ----------
    instance : Instance
        The instance scheduled.
    start_times : Sequence[int] or int64 array
        One whole number per request, in the instance's order.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A start that is not a whole number, or a wrong count.
    """

    instance: Instance
    start_times: IntArray

    def __init__(self, instance: Instance, start_times: Sequence[int] | IntArray) -> None:
        if len(start_times) != len(instance):
            raise InvalidValueError(
                "schedule",
                "len(start_times)",
                len(start_times),
                f"differs from the {len(instance)} requests",
            )
        checked = [
            # A start before round 0 is a violation to be reported, not a malformed schedule.
            as_integer(value, f"request {request.id!r}", "start_time", minimum=-(2**53))
            for request, value in zip(instance, start_times, strict=True)
        ]
        column = np.array(checked, dtype=np.int64)
        column.setflags(write=False)
        object.__setattr__(self, "instance", instance)
        object.__setattr__(self, "start_times", column)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return self.instance == other.instance and np.array_equal(
            self.start_times, other.start_times
        )

    def __hash__(self) -> int:
        return hash((self.instance, self.start_times.tobytes()))

    def __reduce__(self) -> tuple[type[Schedule], tuple[Instance, list[int]]]:
        # Unpickled arrays are writable: rebuild instead, which makes them read-only again.
        return type(self), (self.instance, self.start_times.tolist())

    def __repr__(self) -> str:
        return f"Schedule({self.instance!r}, total_latency={self.total_latency})"

    @cached_property
    def completion_times(self) -> IntArray:
        """C_i = t_i + o_i, rounds, shape (n,), read-only."""
        column = self.start_times + self.instance.output_lengths
        column.setflags(write=False)
        return column

    def memory_profile(self) -> IntArray:
        """Tokens held in rounds 0 .. makespan: int64, shape (makespan + 1,), entry 0 is 0.

        Raises
        ------
        InvalidValueError
            A start before round 0, or a makespan no array could hold.
        """
        if int(self.start_times.min()) < 0:
            earliest = int(self.start_times.min())
            raise InvalidValueError("schedule", "start_time", earliest, "is before round 0")
        return self._profile(
            self.start_times, self.instance.prompt_lengths, self.instance.output_lengths
        )

    def violations(self) -> list[Violation]:
        """Every broken rule: starts before arrival, and rounds that hold more than M tokens.

        Memory is evaluated at completion rounds of shifted time, so a schedule may start before
        round 0 or end very late and still be examined; each violating completion round is
        reported (memory only grows between completions, so no violation goes unseen).
        """
        instance = self.instance
        return self._broken(
            instance.arrival_times - self.start_times,
            *(self.start_times, instance.prompt_lengths, instance.output_lengths),
        )
