"""Base classes of schedules in rounds and in seconds, and the schedule without preemption."""

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
from instances.validation import set_fields

from .instance import Instance
from .memory import held_tokens
from .request import RequestId, as_column, check_count
from .workload import Workload

LONGEST_PROFILE = 200_000_000
"""Largest makespan, in rounds, for a memory profile: a longer array could exhaust the machine."""

EARLIEST_START = -(2**53)
"""Smallest start time that is accepted. Starts from here to round 0 are reported as violations."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Violation of a constraint by a schedule.

    Attributes
    ----------
    kind : {"early-start", "memory", "clock", "order", "prompt", "output"}
        The constraint.

        - ``"early-start"``: a request is served before it arrives.
        - ``"memory"``: the requests of a round hold more than M tokens, or more than the whole
          blocks in M by the memory rule.

        The others are for schedules in seconds only:

        - ``"clock"``: a round begins before the previous one ends.
        - ``"order"``: a stretch of rounds of a request does not continue where its previous stretch
          ended, and does not process its prompt again either.
        - ``"prompt"``: a request processes more prompt tokens than it has.
        - ``"output"``: a request emits too few or too many output tokens, or is served after its
          last token.
    request_id : RequestId or None
        The request; None if the violation is of a round.
    round_index : int or None
        The round, if there is one.
    amount : int or float
        Size of the violation: rounds or seconds too early, or tokens too many or missing.
    replica : int or None, default None
        The replica, if there are several.
    unit : str, default "rounds"
        Unit of time: ``"rounds"`` or ``"s"``.
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
    """Columns of a table with k stretches: consecutive rounds in which a request runs.

    The stretches are sorted by request, then by time. Each column has shape (k,).

    Attributes
    ----------
    request : int64 array
        Position of the request in the instance.
    begin : int64 array
        The round before the first round of the stretch.
    held : int64 array
        Tokens of the request before the stretch. In the j-th round of the stretch it holds j more.
    rounds : int64 array
        Number of rounds.
    """

    request: IntArray
    begin: IntArray
    held: IntArray
    rounds: IntArray


class TimedSchedule(ABC):
    """Base class of all schedules: completion times in rounds or seconds, costs and violations.

    Below, the unit of time is rounds for an `Instance` and seconds for a `Workload`.
    """

    @property
    @abstractmethod
    def problem(self) -> Instance | Workload:
        """The instance or workload whose requests are scheduled."""

    @property
    @abstractmethod
    def completion_times(self) -> npt.NDArray[Any]:
        """Completion time C_i of each request, in rounds or seconds, shape (n,), read-only."""

    @property
    @abstractmethod
    def total_latency(self) -> float:
        """Total latency, in rounds or seconds: the sum of completion minus arrival of all requests.

        In rounds each request counts with its weight.
        """

    @abstractmethod
    def violations(self) -> list[Any]:
        """Return all violated constraints; an empty list if the schedule is feasible."""

    def _times(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns with times that `frame` puts between lengths and latency."""
        first, last = self.first_token_times, self.completion_times
        return {"first_token_time": first, "completion_time": last}

    def __getstate__(self) -> dict[str, Any]:
        # Pickle the fields only, without cached properties.
        return {one.name: getattr(self, one.name) for one in fields(cast(Any, self))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Make arrays read-only again: unpickled ones are writable.
        arrays = {k: read_only(v) for k, v in state.items() if isinstance(v, np.ndarray)}
        set_fields(self, **state | arrays)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, others = self.__getstate__(), other.__getstate__()
        pairs = ((mine[name], others[name]) for name in mine)
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b) for a, b in pairs
        )

    def __hash__(self) -> int:
        return hash(self.completion_times.tobytes())

    def __repr__(self) -> str:
        cost = f"total_latency={self.total_latency:.6g} {self.problem.unit}"
        return f"{type(self).__name__}({self.problem!r}, {cost})"

    @property
    def machines(self) -> tuple[Any, ...]:
        """Schedules of single machines: the schedule itself; of a fleet, those of its replicas."""
        return (self,)

    @property
    def latencies(self) -> npt.NDArray[Any]:
        """Latency C_i - a_i of each request, in rounds or seconds, shape (n,)."""
        latencies: npt.NDArray[Any] = self.completion_times - self.problem.arrival_times
        return latencies

    @property
    @abstractmethod
    def first_token_times(self) -> npt.NDArray[Any]:
        """Time of the first output token of each request, in rounds or seconds, shape (n,)."""

    def on_time(self, level: AnyLevel) -> BoolArray:
        """Return for each request whether it keeps its service level, shape (n,).

        Times in seconds are compared exactly: arrivals, batch times and limits count as the decimal
        numbers as which they are written (0.1 is 1/10).

        Parameters
        ----------
        level : ServiceLevel or Sequence[ServiceLevel]
            One level for all requests or one for each, in rounds or seconds.
        """
        return self.keeps(limits_of(level, len(self.problem)))

    def keeps(self, limits: Limits) -> BoolArray:
        """Return whether each request keeps its limits on latency and token times, shape (n,)."""
        problem = self.problem
        first = self.first_token_times - problem.arrival_times
        return limits.on_time(self.latencies, first, problem.output_lengths)

    @property
    def mean_latency(self) -> float:
        """Total latency divided by the sum of the weights (or by n), in rounds or seconds."""
        problem = self.problem
        count = problem.total_weight if isinstance(problem, Instance) else len(problem)
        return self.total_latency / count

    @property
    def makespan(self) -> Any:
        """Completion time of the last request, in rounds or seconds."""
        return self.completion_times.max().item()

    @cached_property
    def is_feasible(self) -> bool:
        """True if the schedule has no violations."""
        return not self.violations()

    def frame(self) -> Any:
        """Return a pandas DataFrame with one row per request: id, lengths, times and latency."""
        import pandas

        columns = self.problem._columns() | self._times()
        return pandas.DataFrame(columns | {"latency": self.latencies})

    def _repr_html_(self) -> Any:
        return self.frame()._repr_html_()


class RoundSchedule(TimedSchedule):
    """Base class of schedules in rounds, with or without preemption.

    In every round in which a request runs, it emits one token and holds one token more.

    Attributes
    ----------
    instance : Instance
        The instance scheduled.
    start_times : int64 array, shape (n,)
        Start t_i of each request: it first runs in round t_i + 1. Read-only.
    """

    instance: Instance
    start_times: IntArray

    @property
    def problem(self) -> Instance:
        """The instance whose requests are scheduled."""
        return self.instance

    @property
    def first_token_times(self) -> IntArray:
        """Round of the first token of each request, t_i + 1, shape (n,)."""
        return self.start_times + 1

    @property
    @abstractmethod
    def stretch_columns(self) -> StretchColumns:
        """Table of the stretches of rounds in which requests run, of all requests."""

    @cached_property
    def total_latency(self) -> int:
        """Total latency (TEL): the sum of w_i (C_i - a_i), in rounds."""
        latencies = self.latencies.tolist()
        return sum(map(operator.mul, self.instance.weights.tolist(), latencies))

    @property
    def total_waiting(self) -> int:
        """Total waiting time in rounds: the part of the total latency that a scheduler can change.

        A request with output length o_i runs in o_i rounds. In all other rounds from its arrival to
        its completion it waits, either to start or after a preemption. Each round of waiting counts
        with the weight of the request.
        """
        return self.total_latency - self.instance.total_output_length

    def memory_profile(self) -> IntArray:
        """Compute the tokens held by all requests in rounds 0 .. makespan, shape (makespan + 1,).

        A block that is partly filled counts as a whole block, by the memory rule of the instance.

        Raises
        ------
        InvalidValueError
            A request starts before round 0, or the makespan is above `LONGEST_PROFILE`.
        """
        earliest = int(self.start_times.min())
        if earliest < 0:
            raise InvalidValueError("schedule", "start_time", earliest, "is before round 0")
        if self.makespan > LONGEST_PROFILE:
            reason = f"is above {LONGEST_PROFILE} rounds"
            raise InvalidValueError("schedule", "makespan", self.makespan, reason)
        return self._held(np.arange(self.makespan + 1))

    def violations(self) -> list[Violation]:
        """Return all violations: starts before arrival, and rounds that hold more than M tokens.

        Memory is checked only in the rounds of `MemoryRule.fullest`: in the last round of each
        stretch of consecutive rounds of a request. If any round holds too much, one of these does
        too. The time for the check does not depend on the number of rounds, so schedules that end
        very late are checked too.
        """
        instance, rule = self.instance, self.instance.memory_rule
        early = instance.arrival_times - self.start_times
        found = [
            Violation("early-start", instance.ids[index], None, int(early[index]))
            for index in np.flatnonzero(early > 0)
        ]
        columns = self.stretch_columns
        rounds = rule.fullest(columns.begin + columns.rounds)
        excess = self._held(rounds) - rule.limits(instance.memory_limit, rounds)
        for place in np.flatnonzero(excess > 0):
            found.append(Violation("memory", None, int(rounds[place]), int(excess[place])))
        return found

    def _held(self, moments: IntArray) -> IntArray:
        """Return the tokens that all requests together hold in each of the rounds ``moments``."""
        (_, begins, held, rounds), rule = self.stretch_columns, self.instance.memory_rule
        return held_tokens(moments, begins, held - rule.unstored, rounds, rule.block_size)

    def _times(self) -> dict[str, npt.NDArray[Any]]:
        return {"start_time": self.start_times, "completion_time": self.completion_times}


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(RoundSchedule):
    """Schedule without preemption: a start time t_i for every request of an instance.

    Request i runs in rounds t_i + 1 .. t_i + o_i and holds s_i + (r - t_i) tokens in round r,
    counted by the memory rule of the instance. The schedule may be infeasible: see `violations`.
    All costs are computed from the start times.

    Parameters
    ----------
    instance : Instance
        The instance scheduled.
    start_times : Sequence[int] or int64 array
        One whole number per request, in the instance's order.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A start is not a whole number, or there are more or fewer starts than requests.
    """

    instance: Instance
    start_times: IntArray

    def __init__(self, instance: Instance, start_times: Sequence[int] | IntArray) -> None:
        instance.require_one_replica()
        check_count("schedule", "start_times", start_times, len(instance))
        starts = as_column(start_times, instance.ids, "start_time", minimum=EARLIEST_START)
        set_fields(self, instance=instance, start_times=starts)

    def moved(self, instance: Instance, rounds: IntArray) -> Schedule:
        """Return a schedule of ``instance`` in which request i starts ``rounds[i]`` later."""
        return Schedule(instance, self.start_times + rounds)

    @cached_property
    def completion_times(self) -> IntArray:
        """Completion time C_i = t_i + o_i of each request, in rounds, shape (n,), read-only."""
        return read_only(self.start_times + self.instance.output_lengths)

    @property
    def stretch_columns(self) -> StretchColumns:
        """Table of stretches, with one stretch per request: all its rounds."""
        instance = self.instance
        prompts, outputs = instance.prompt_lengths, instance.output_lengths
        return StretchColumns(np.arange(len(instance)), self.start_times, prompts, outputs)
