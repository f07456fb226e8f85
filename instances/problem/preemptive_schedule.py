"""A schedule that may stop requests between rounds and keep their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from instances.arrays import IntArray, read_only
from instances.errors import InvalidValueError
from instances.validation import as_integer, set_fields

from .instance import Instance
from .request import check_count
from .schedule import EARLIEST_START, RoundSchedule, Schedule, StretchColumns


@dataclass(frozen=True, eq=False, repr=False)
class PreemptiveSchedule(RoundSchedule):
    """The rounds in which each request of an instance runs.

    Request i produces its k-th token in the k-th of its o_i rounds and holds s_i + k tokens then,
    counted by the memory rule of the instance; between two of them it holds nothing and keeps
    what it has produced. It completes in the last. A `Schedule` is the special case of o_i
    rounds back to back. Nothing is assumed feasible: ask `violations`. All costs are recomputed
    from the rounds.

    Parameters
    ----------
    instance : Instance
        The instance scheduled.
    stretches : Sequence[Sequence[Sequence[int]]]
        For each request, in the instance's order, the first and the last round of each stretch of
        consecutive rounds, in order of time. Stretches without a round between them become one.

    Attributes
    ----------
    request, first_round, rounds : int64 array, shape (stretches,)
        Columns of all stretches: whose, its first round, its number of rounds. Read-only.
    tokens_before : int64 array, shape (stretches,)
        Output tokens that the request has when the stretch begins.
    start_times : int64 array, shape (n,)
        The round before the first of each request. Read-only.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A round that is not a whole number, stretches out of order or overlapping, a wrong count of
        requests, or a request whose rounds are not as many as its output tokens.
    """

    instance: Instance
    request: IntArray
    first_round: IntArray
    rounds: IntArray
    tokens_before: IntArray
    start_times: IntArray

    def __init__(
        self, instance: Instance, stretches: Sequence[Sequence[Sequence[int] | IntArray]]
    ) -> None:
        instance.require_one_replica()
        check_count("preemptive schedule", "stretches", stretches, len(instance))
        rows: list[list[int]] = []
        for index, (request, own) in enumerate(zip(instance, stretches, strict=True)):
            owner = f"request {request.id!r}"
            produced, last = 0, EARLIEST_START - 2
            for stretch in own:
                if len(stretch) != 2:
                    raise InvalidValueError(owner, "stretch", stretch, "is not (first, last)")
                begin, end = stretch
                first = as_integer(begin, owner, "first round", minimum=EARLIEST_START)
                if first <= last:
                    reason = f"is not after round {last}"
                    raise InvalidValueError(owner, "first round", first, reason)
                if first > last + 1:
                    rows.append([index, first, 0, produced])
                last = as_integer(end, owner, "last round", minimum=first)
                rows[-1][2] += last - first + 1
                produced += last - first + 1
            if produced != request.output_length:
                reason = f"differ from output_length {request.output_length}"
                raise InvalidValueError(owner, "rounds", produced, reason)
        table = np.array(rows, dtype=np.int64).T
        names = ("request", "first_round", "rounds", "tokens_before", "start_times")
        columns = zip(names, map(read_only, (*table, table[1][table[3] == 0] - 1)), strict=True)
        set_fields(self, instance=instance, **dict(columns))

    @classmethod
    def from_schedule(cls, schedule: Schedule) -> PreemptiveSchedule:
        """The schedule of requests that are never stopped."""
        starts, ends = schedule.start_times.tolist(), schedule.completion_times.tolist()
        return cls(schedule.instance, [[(t + 1, c)] for t, c in zip(starts, ends, strict=True)])

    @classmethod
    def from_rounds(
        cls, instance: Instance, rounds: Sequence[Sequence[int] | IntArray]
    ) -> PreemptiveSchedule:
        """Create a schedule from the rounds of each request, strictly increasing."""
        return cls(instance, [_stretches_of(own) for own in rounds])

    def moved(self, instance: Instance, rounds: IntArray) -> PreemptiveSchedule:
        """Return it as a schedule of ``instance``, with request i later by ``rounds[i]``."""
        return PreemptiveSchedule(
            instance,
            [
                [(first + later, last + later) for first, last in own]
                for own, later in zip(self.stretches, rounds.tolist(), strict=True)
            ],
        )

    @property
    def stretches(self) -> list[list[tuple[int, int]]]:
        """First and last round of each stretch of each request, as the constructor takes them."""
        own: list[list[tuple[int, int]]] = [[] for _ in range(len(self.instance))]
        for index, first, count in zip(
            self.request.tolist(), self.first_round.tolist(), self.rounds.tolist(), strict=True
        ):
            own[index].append((first, first + count - 1))
        return own

    @property
    def preemptions(self) -> int:
        """Number of times that a request is stopped before its last token."""
        return len(self.request) - len(self.instance)

    @cached_property
    def completion_times(self) -> IntArray:
        """Last round of each request, shape (n,), read-only."""
        column = np.zeros(len(self.instance), dtype=np.int64)
        # Stretches of a request stand in order of time, so its last one is written last.
        column[self.request] = self.first_round + self.rounds - 1
        return read_only(column)

    @property
    def stretch_columns(self) -> StretchColumns:
        """Return columns with a row for each stretch."""
        held: IntArray = self.instance.prompt_lengths[self.request] + self.tokens_before
        return StretchColumns(self.request, self.first_round - 1, held, self.rounds)


def _stretches_of(rounds: Sequence[int] | IntArray) -> list[tuple[int, int]]:
    """Join consecutive rounds of an array, of which a request may have thousands."""
    if not isinstance(rounds, np.ndarray) or rounds.dtype != np.int64 or not len(rounds):
        return [(r, r) for r in rounds]
    begins = np.flatnonzero(np.diff(rounds, prepend=rounds[0] - 2) != 1)
    ends = np.append(begins[1:], len(rounds)) - 1
    return [*zip(rounds[begins].tolist(), rounds[ends].tolist(), strict=True)]


AnySchedule = Schedule | PreemptiveSchedule
"""Both have costs and violations, and can be moved in time."""
