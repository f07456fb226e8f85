"""A schedule in rounds, of either kind: its costs, and the one checker of this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from instances.arrays import IntArray
from instances.errors import InvalidValueError
from instances.frames import data_frame, request_columns
from instances.html import figure_of, memory_picture

from .instance import Instance
from .memory import memory_at_ends, memory_profile
from .memory_rule import TOKENS
from .request import RequestId

LONGEST_PROFILE = 200_000_000
"""Rounds beyond which a memory profile is refused instead of exhausting the machine."""

LONGEST_PICTURE = 20_000_000
"""Rounds beyond which none is drawn."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    Attributes
    ----------
    kind : {"early-start", "memory"}
        ``"early-start"`` (t_i < a_i) or ``"memory"`` (a round holds more than M, or than the usable
        blocks of the memory rule).
    request_id : RequestId or None
        The request that starts early, or None.
    round_index : int or None
        The round of a memory violation, or None.
    amount : int
        Rounds too early, or tokens above M or the usable blocks.
    """

    kind: Literal["early-start", "memory"]
    request_id: RequestId | None
    round_index: int | None
    amount: int

    def __str__(self) -> str:
        if self.kind == "early-start":
            return f"request {self.request_id!r} starts {self.amount} rounds before it arrives"
        return f"round {self.round_index} holds {self.amount} tokens more than memory_limit"


class StretchColumns(NamedTuple):
    """Stretches of rounds in which a request holds memory, by request and time, shape (k,).

    Attributes
    ----------
    request : int64 array
        Whose.
    begin : int64 array
        The round before the first.
    held : int64 array
        Tokens held before the first round; one more in each of them.
    rounds : int64 array
        How many.
    """

    request: IntArray
    begin: IntArray
    held: IntArray
    rounds: IntArray


class RoundSchedule(ABC):
    """Stretches of rounds in which requests hold memory and grow by a token a round.

    Attributes
    ----------
    instance : Instance
        The instance scheduled.
    start_times : int64 array, shape (n,)
        t_i, the round before the first of each request. Read-only.
    """

    instance: Instance
    start_times: IntArray

    @property
    @abstractmethod
    def completion_times(self) -> IntArray:
        """C_i, the last round of each request, shape (n,), read-only."""

    @property
    @abstractmethod
    def stretch_columns(self) -> StretchColumns:
        """All stretches of all requests."""

    @property
    def latencies(self) -> IntArray:
        """C_i - a_i, rounds, shape (n,)."""
        return self.completion_times - self.instance.arrival_times

    @cached_property
    def total_latency(self) -> int:
        """TEL: the sum of C_i - a_i, in rounds."""
        return sum(self.latencies.tolist())

    @property
    def total_waiting(self) -> int:
        """Total latency beyond the output lengths: what a scheduler can influence, in rounds.

        In each of its o_i rounds a request runs; in the others since its arrival it waits, to start
        or, where it was stopped, to go on.
        """
        return self.total_latency - self.instance.total_output_length

    @property
    def mean_latency(self) -> float:
        """Total latency per request, in rounds."""
        return self.total_latency / len(self.instance)

    @property
    def makespan(self) -> int:
        """The last completion, a round index."""
        return int(self.completion_times.max())

    def memory_profile(self) -> IntArray:
        """Tokens held in rounds 0 .. makespan: int64, shape (makespan + 1,), entry 0 is 0.

        Blocks count whole, by the memory rule of the instance.

        Raises
        ------
        InvalidValueError
            A start before round 0, or a makespan no array could hold.
        """
        earliest = int(self.start_times.min())
        if earliest < 0:
            raise InvalidValueError("schedule", "start_time", earliest, "is before round 0")
        if self.makespan > LONGEST_PROFILE:
            raise InvalidValueError(
                "schedule", "makespan", self.makespan, f"is above {LONGEST_PROFILE} rounds"
            )
        rule = self.instance.memory_rule
        return memory_profile(*self.stretch_columns[1:], self.makespan, rule)

    def violations(self) -> list[Violation]:
        """Every broken rule: starts before arrival, and rounds that hold more than there is.

        Memory is evaluated at the ends of stretches, in shifted time, so a schedule may start
        before round 0 or end very late and still be examined; each of these rounds that holds too
        much is reported (memory only grows between them, so no violation goes unseen).
        """
        instance = self.instance
        early = instance.arrival_times - self.start_times
        found = [
            Violation("early-start", instance.ids[index], None, int(early[index]))
            for index in np.flatnonzero(early > 0)
        ]
        rounds, memory = memory_at_ends(*self.stretch_columns[1:], instance.memory_rule)
        limit = instance.memory_rule.limit(instance.memory_limit)
        for position in np.flatnonzero(memory > limit):
            excess = int(memory[position]) - limit
            found.append(Violation("memory", None, int(rounds[position]), excess))
        return found

    @cached_property
    def is_feasible(self) -> bool:
        """Whether `violations` finds nothing."""
        return not self.violations()

    def frame(self) -> Any:
        """A pandas DataFrame, one line a request: lengths, arrival, start, completion, latency.

        Raises
        ------
        ImportError
            Pandas is not installed.
        """
        times = {
            "start_time": self.start_times,
            "completion_time": self.completion_times,
            "latency": self.latencies,
        }
        return data_frame(request_columns(self.instance) | times)

    def _repr_html_(self) -> str:
        violations = self.violations()
        facts = {
            "requests": len(self.instance),
            "total latency": f"{self.total_latency} rounds",
            "of it waiting": f"{self.total_waiting} rounds",
            "mean latency": f"{self.mean_latency:.6g} rounds",
            "last completion": f"round {self.makespan}",
            "feasible": f"no: {violations[0]}" if violations else "yes",
        }
        return figure_of(type(self).__name__, self.instance.name, facts, self.picture())

    def picture(self) -> str:
        """Stacked memory over rounds against M, as SVG; the sum alone of many requests.

        Empty where it begins before round 0 or has too many rounds.
        """
        if self.start_times.min() < 0 or self.makespan > LONGEST_PICTURE:
            return ""
        columns = self.stretch_columns
        ids = self.instance.ids

        def label(row: int) -> str:
            first, last = columns.begin[row] + 1, columns.begin[row] + columns.rounds[row]
            return f"request {ids[columns.request[row]]}: rounds {first} to {last}"

        # What blocks hold is no band that grows by a token a round.
        shown = columns[1:] if self.instance.memory_rule == TOKENS else None
        limit = self.instance.memory_limit
        return memory_picture(shown, limit, label, self.memory_profile)
