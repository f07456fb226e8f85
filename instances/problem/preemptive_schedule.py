"""Schedules with preemption: a request may leave memory between rounds and keep its tokens."""

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
    """Schedule with preemption: the set of rounds in which each request of an instance runs.

    Request i emits its k-th token in the k-th of its o_i rounds. In that round it holds s_i + k
    tokens, counted by the memory rule of the instance. In rounds in which it does not run it holds
    no memory, but it keeps the tokens that it has emitted. It completes in its last round. If the
    rounds of every request are consecutive, this is a `Schedule`. The schedule may be infeasible:
    see `violations`. All costs are computed from the rounds.

    Parameters
    ----------
    instance : Instance
        The instance scheduled.
    stretches : Sequence[Sequence[Sequence[int]]]
        For each request, in the instance's order, a list of its stretches of consecutive rounds in
        order of time. Each is a pair (first round, last round). Stretches without a round between
        them are joined.

    Attributes
    ----------
    request, first_round, rounds : int64 array, shape (stretches,)
        For each stretch: the position of its request, its first round, its number of rounds.
        Read-only.
    tokens_before : int64 array, shape (stretches,)
        Output tokens that the request has emitted before the stretch. Read-only.
    start_times : int64 array, shape (n,)
        Start t_i of each request: it first runs in round t_i + 1. Read-only.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A round is not a whole number, stretches overlap or are out of order, the number of entries
        is not n, or a request has more or fewer rounds than output tokens.
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
        """Convert a schedule without preemption: each request has one stretch of rounds."""
        starts, ends = schedule.start_times.tolist(), schedule.completion_times.tolist()
        return cls(schedule.instance, [[(t + 1, c)] for t, c in zip(starts, ends, strict=True)])

    @classmethod
    def from_rounds(
        cls, instance: Instance, rounds: Sequence[Sequence[int] | IntArray]
    ) -> PreemptiveSchedule:
        """Create a schedule from the list of rounds of each request, strictly increasing."""
        return cls(instance, [_stretches_of(own) for own in rounds])

    def moved(self, instance: Instance, rounds: IntArray) -> PreemptiveSchedule:
        """Return a schedule of ``instance`` in which request i runs ``rounds[i]`` rounds later."""
        pairs = zip(self.stretches, rounds.tolist(), strict=True)
        moved = [[(first + shift, last + shift) for first, last in own] for own, shift in pairs]
        return PreemptiveSchedule(instance, moved)

    @property
    def stretches(self) -> list[list[tuple[int, int]]]:
        """For each request the (first, last) rounds of its stretches, as in the constructor."""
        own: list[list[tuple[int, int]]] = [[] for _ in range(len(self.instance))]
        columns = (self.request, self.first_round, self.first_round + self.rounds - 1)
        for index, first, last in np.transpose(columns).tolist():
            own[index].append((first, last))
        return own

    @property
    def preemptions(self) -> int:
        """Number of preemptions, of all requests together.

        A preemption is a pause of a request after a token that is not its last.
        """
        return len(self.request) - len(self.instance)

    @cached_property
    def completion_times(self) -> IntArray:
        """Completion time of each request: its last round, shape (n,), read-only."""
        column = np.zeros(len(self.instance), dtype=np.int64)
        # The stretches of a request are in order of time, so the last assignment to its entry is
        # that of its last stretch.
        column[self.request] = self.first_round + self.rounds - 1
        return read_only(column)

    @property
    def stretch_columns(self) -> StretchColumns:
        """Table of all stretches, with their tokens and rounds."""
        held: IntArray = self.instance.prompt_lengths[self.request] + self.tokens_before
        return StretchColumns(self.request, self.first_round - 1, held, self.rounds)


def _stretches_of(rounds: Sequence[int] | IntArray) -> list[tuple[int, int]]:
    """Convert the rounds of a request to stretches (first, last), joining consecutive rounds.

    Only int64 arrays are joined here. Other sequences give one stretch per round, which the
    constructor joins.
    """
    if not isinstance(rounds, np.ndarray) or rounds.dtype != np.int64 or not len(rounds):
        return [(r, r) for r in rounds]
    begins = np.flatnonzero(np.diff(rounds, prepend=rounds[0] - 2) != 1)
    ends = np.append(begins[1:], len(rounds)) - 1
    return [*zip(rounds[begins].tolist(), rounds[ends].tolist(), strict=True)]


AnySchedule = Schedule | PreemptiveSchedule
"""A schedule in rounds of one machine, without or with preemption."""
