"""Schedules: what those in rounds and in seconds share, and the one that never stops a request."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray, read_only
from instances.errors import InvalidValueError
from instances.service_level import AnyLevel, BoolArray, Limits, limits_of
from instances.show import shown_html
from instances.validation import set_fields

from .instance import Instance
from .memory import held_tokens
from .request import RequestId, as_column, check_count
from .workload import Workload

LONGEST_PROFILE = 200_000_000
"""Rounds beyond which a memory profile is refused instead of exhausting the machine."""

EARLIEST_START = -(2**53)
"""A start before round 0 is a violation to be reported, not a malformed schedule."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule.

    Attributes
    ----------
    kind : {"early-start", "memory", "clock", "order", "prompt", "output"}
        ``"early-start"`` (a request is served before it arrives) or ``"memory"`` (a round holds
        more than M, or than the usable blocks of the memory rule). In seconds also ``"clock"`` (a
        round begins before the previous one ends), ``"order"`` (a stretch neither continues the
        previous one nor enters the cache again), ``"prompt"`` (more prompt tokens are processed
        than there are) and ``"output"`` (not all output tokens are emitted, or more, or something
        is done after the last).
    request_id : RequestId or None
        The request, or None.
    round_index : int or None
        The round, or None.
    amount : int or float
        Rounds or seconds too early, tokens above the limit, or tokens too many or missing.
    replica : int or None, default None
        The replica, in a fleet.
    unit : str, default "rounds"
        Unit of the clock.
    """

    kind: Literal["early-start", "memory", "clock", "order", "prompt", "output"]
    request_id: RequestId | None
    round_index: int | None
    amount: float
    replica: int | None = None
    unit: str = "rounds"

    def __str__(self) -> str:
        who, where = f"request {self.request_id!r}", f"round {self.round_index}"
        amount = f"{self.amount:g}" if isinstance(self.amount, float) else f"{self.amount}"
        text = {
            "early-start": f"{who} starts {amount} {self.unit} before it arrives",
            "memory": f"{where} holds {amount} tokens more than memory_limit",
            "clock": f"{where} begins {amount} s before the previous one ends",
            "order": f"{who} does not continue in {where} where it was",
            "prompt": f"{who} processes {amount} prompt tokens too many from {where} on",
            "output": f"{who} is {amount} output tokens off when it is last served",
        }[self.kind]
        return text if self.replica is None else f"{text} on replica {self.replica}"


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


class TimedSchedule(ABC):
    """Completions of requests on a clock, which counts rounds or seconds."""

    @property
    @abstractmethod
    def problem(self) -> Instance | Workload:
        """The requests scheduled."""

    @property
    @abstractmethod
    def completion_times(self) -> npt.NDArray[Any]:
        """C_i, shape (n,), read-only."""

    @property
    @abstractmethod
    def total_latency(self) -> float:
        """TEL: the sum of C_i - a_i."""

    @abstractmethod
    def violations(self) -> list[Any]:
        """Every broken rule."""

    def _times(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of `frame` between the lengths and the latency."""
        first, last = self.first_token_times, self.completion_times
        return {"first_token_time": first, "completion_time": last}

    def __getstate__(self) -> dict[str, Any]:
        # What is computed and cached stays behind.
        return {one.name: getattr(self, one.name) for one in fields(cast(Any, self))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Unpickled arrays are writable.
        arrays = {k: read_only(v) for k, v in state.items() if isinstance(v, np.ndarray)}
        set_fields(self, **state | arrays)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)
            for a, b in zip(
                self.__getstate__().values(), other.__getstate__().values(), strict=True
            )
        )

    def __hash__(self) -> int:
        return hash(self.completion_times.tobytes())

    def __repr__(self) -> str:
        cost = f"total_latency={self.total_latency:.6g} {self.problem.unit}"
        return f"{type(self).__name__}({self.problem!r}, {cost})"

    @property
    def machines(self) -> tuple[Any, ...]:
        """Schedules of one machine each that it consists of: itself, or those of a fleet."""
        return (self,)

    @property
    def latencies(self) -> npt.NDArray[Any]:
        """C_i - a_i, in units of the clock, shape (n,)."""
        latencies: npt.NDArray[Any] = self.completion_times - self.problem.arrival_times
        return latencies

    @property
    @abstractmethod
    def first_token_times(self) -> npt.NDArray[Any]:
        """Return when the first token of each request is out, on the clock, shape (n,)."""

    def on_time(self, level: AnyLevel) -> BoolArray:
        """Return which requests keep a service level, shape (n,).

        Times in seconds are compared exactly: arrivals, batch time and limits are the decimals they
        are written as.

        Parameters
        ----------
        level : ServiceLevel or Sequence[ServiceLevel]
            One for all requests or one for each, in units of the clock.
        """
        return self.keeps(limits_of(level, len(self.problem)))

    def keeps(self, limits: Limits) -> BoolArray:
        """Return which requests keep their limits, shape (n,)."""
        problem = self.problem
        first = self.first_token_times - problem.arrival_times
        return limits.on_time(self.latencies, first, problem.output_lengths)

    @property
    def mean_latency(self) -> float:
        """Total latency per request, or over the sum of weights, in units of the clock."""
        problem = self.problem
        count = problem.total_weight if isinstance(problem, Instance) else len(problem)
        return self.total_latency / count

    @property
    def makespan(self) -> Any:
        """The last completion, on the clock."""
        return self.completion_times.max().item()

    @cached_property
    def is_feasible(self) -> bool:
        """True if `violations` finds nothing."""
        return not self.violations()

    def frame(self) -> Any:
        """Return a pandas DataFrame with a row per request: lengths, times, latency."""
        import pandas

        columns = self.problem._columns() | self._times()
        return pandas.DataFrame(columns | {"latency": self.latencies})

    def _repr_html_(self) -> str:
        return shown_html(self)


class RoundSchedule(TimedSchedule):
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
    def problem(self) -> Instance:
        """The instance scheduled."""
        return self.instance

    @property
    def first_token_times(self) -> IntArray:
        """The round after t_i, shape (n,)."""
        return self.start_times + 1

    @property
    @abstractmethod
    def stretch_columns(self) -> StretchColumns:
        """Return all stretches of all requests."""

    @cached_property
    def total_latency(self) -> int:
        """TEL: the sum of w_i (C_i - a_i), in rounds."""
        latencies = self.latencies.tolist()
        return sum(map(operator.mul, self.instance.weights.tolist(), latencies))

    @property
    def total_waiting(self) -> int:
        """Total latency beyond the sum of w_i o_i: what a scheduler can influence, in rounds.

        In each of its o_i rounds a request runs; in the others since its arrival it waits, to start
        or, where it was stopped, to go on. Each round of waiting counts w_i times.
        """
        return self.total_latency - self.instance.total_output_length

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
        return self._held(np.arange(self.makespan + 1))

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
        columns, limit = self.stretch_columns, instance.memory_rule.limit(instance.memory_limit)
        rounds = np.unique(columns.begin + columns.rounds)
        memory = self._held(rounds)
        for position in np.flatnonzero(memory > limit):
            excess = int(memory[position]) - limit
            found.append(Violation("memory", None, int(rounds[position]), excess))
        return found

    def _held(self, moments: IntArray) -> IntArray:
        """Return the tokens held in some rounds."""
        (_, begins, held, rounds), rule = self.stretch_columns, self.instance.memory_rule
        return held_tokens(moments, begins, held - rule.unstored, rounds, rule.block_size)

    def _times(self) -> dict[str, npt.NDArray[Any]]:
        return {"start_time": self.start_times, "completion_time": self.completion_times}


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(RoundSchedule):
    """Start times t_i for every request of an instance.

    Request i runs in rounds t_i + 1 .. t_i + o_i and holds s_i + (r - t_i) tokens in round r,
    counted by the memory rule of the instance.
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
        instance.require_one_replica()
        check_count("schedule", "start_times", start_times, len(instance))
        starts = as_column(start_times, instance.ids, "start_time", minimum=EARLIEST_START)
        set_fields(self, instance=instance, start_times=starts)

    def moved(self, instance: Instance, rounds: IntArray) -> Schedule:
        """Return it as a schedule of ``instance``, with request i later by ``rounds[i]``."""
        return Schedule(instance, self.start_times + rounds)

    @cached_property
    def completion_times(self) -> IntArray:
        """C_i = t_i + o_i, rounds, shape (n,), read-only."""
        return read_only(self.start_times + self.instance.output_lengths)

    @property
    def stretch_columns(self) -> StretchColumns:
        """Return columns with one stretch per request."""
        instance = self.instance
        prompts, outputs = instance.prompt_lengths, instance.output_lengths
        return StretchColumns(np.arange(len(instance)), self.start_times, prompts, outputs)
