"""A schedule of an instance: when each request starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from instances.arrays import IntArray
from instances.errors import InvalidValueError
from instances.validation import LARGEST_INTEGER, as_integer

from .instance import Instance
from .round_schedule import RoundSchedule, StretchColumns

EARLIEST_START = -(2**53)
"""A start before round 0 is a violation to be reported, not a malformed schedule."""


@dataclass(frozen=True, eq=False)
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
        if len(start_times) != len(instance):
            raise InvalidValueError(
                "schedule",
                "len(start_times)",
                len(start_times),
                f"differs from the {len(instance)} requests",
            )
        column = np.array(start_times) if isinstance(start_times, np.ndarray) else None
        if (
            column is None
            or column.dtype != np.int64
            or column.min() < EARLIEST_START
            or column.max() > LARGEST_INTEGER
        ):
            checked = [
                as_integer(value, f"request {request.id!r}", "start_time", minimum=EARLIEST_START)
                for request, value in zip(instance, start_times, strict=True)
            ]
            column = np.array(checked, dtype=np.int64)
        column.setflags(write=False)
        object.__setattr__(self, "instance", instance)
        object.__setattr__(self, "start_times", column)

    def moved(self, instance: Instance, rounds: IntArray) -> Schedule:
        """As a schedule of ``instance``, request i later by ``rounds[i]``."""
        return Schedule(instance, self.start_times + rounds)

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
        return (
            f"Schedule({self.instance!r}, total_latency={self.total_latency}, "
            f"total_waiting={self.total_waiting})"
        )

    @cached_property
    def completion_times(self) -> IntArray:
        """C_i = t_i + o_i, rounds, shape (n,), read-only."""
        column = self.start_times + self.instance.output_lengths
        column.setflags(write=False)
        return column

    @property
    def stretch_columns(self) -> StretchColumns:
        """One stretch a request."""
        instance = self.instance
        return StretchColumns(
            np.arange(len(instance)),
            self.start_times,
            instance.prompt_lengths,
            instance.output_lengths,
        )
