"""Schedules in seconds: rounds with their starts and what each does, and their checker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from instances.arrays import FloatArray, IntArray, read_only
from instances.errors import InvalidTypeError, InvalidValueError
from instances.problem.batches import BatchStretch, BatchTime
from instances.problem.memory import held_tokens
from instances.problem.request import RequestId
from instances.problem.schedule import TimedSchedule, Violation
from instances.problem.workload import Workload
from instances.service_level import BoolArray, Limits
from instances.validation import as_integer, as_number, decimal, set_fields

from .exact import exact_seconds

ADVANCES = -1
"""In the column ``chunk_tokens``: the request advances in every round of the stretch."""

LONGEST_SCHEDULE = 10_000_000
"""Rounds beyond which a schedule is refused instead of exhausting the machine: 200 bytes each."""

NEAR = 1e-9
"""Share of a time on the clock within which floats do not decide whether a limit is kept."""

COLUMNS = ("request", "first_round", "rounds", "chunk_tokens", "tokens_before", "prompt_left")


class Stretch(NamedTuple):
    """Consecutive rounds in which a request does the same.

    Attributes
    ----------
    request : int
        Its position in the workload.
    first_round : int
        From 1.
    rounds : int
        How many, >= 1.
    chunk_tokens : int, default `ADVANCES`
        Prompt tokens processed in each round, without emitting any; 0 where the request is only
        held. `ADVANCES` where it emits a token in each.
    tokens_before : int, default 0
        Output tokens that it has when the stretch begins.
    prompt_left : int or None, default None
        Prompt tokens still to process when the stretch begins, which the first round of an
        advancing stretch processes at once; tokens kept by a preemption count as prompt. None is
        all of them; a request that comes back and finds some of them stored has fewer left.
    """

    request: int
    first_round: int
    rounds: int
    chunk_tokens: int = ADVANCES
    tokens_before: int = 0
    prompt_left: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class SecondsSchedule(TimedSchedule):
    """Rounds, when each starts, and what each does with each request.

    In a round a request that is in the cache advances (emits its next token), or processes a chunk
    of its prompt, or is held; its first advance processes what is left of the prompt. Between two
    rounds it may leave the cache, and come back with the tokens it had (a preemption: they count as
    prompt then) or with none (an eviction). A round's length is what the batch time says of it.
    Nothing is assumed feasible: ask `violations`. All durations and costs are recomputed.

    Parameters
    ----------
    workload : Workload
        The requests, with their batch time.
    stretches : Sequence[Stretch] or int64 array
        In any order; an array has the columns `COLUMNS`, shape (stretches, 6).
    round_starts : Sequence[float] or None, default None
        Seconds, shape (rounds,). None starts every round as soon as the one before it is over and
        all it serves have arrived.

    Attributes
    ----------
    request, first_round, rounds, chunk_tokens, tokens_before, prompt_left : int64 array
        Columns of all stretches, shape (stretches,), in order of request, then of round; see
        `Stretch`. Read-only.
    round_starts : float64 array
        Seconds, shape (rounds,). Read-only.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        No schedule at all: numbers that are none or out of range, rounds that have no start, a
        workload without a batch time.
    """

    workload: Workload
    request: IntArray
    first_round: IntArray
    rounds: IntArray
    chunk_tokens: IntArray
    tokens_before: IntArray
    prompt_left: IntArray
    round_starts: FloatArray

    def __init__(
        self,
        workload: Workload,
        stretches: Sequence[Stretch] | IntArray,
        round_starts: Sequence[float] | FloatArray | None = None,
    ) -> None:
        if not isinstance(workload, Workload):
            raise InvalidTypeError(None, "workload", workload, "is not a Workload")
        workload.require_one_replica()
        workload.require_batch_time()
        table = _table(workload, stretches)
        columns = dict(zip(COLUMNS, map(read_only, table.T), strict=True))
        set_fields(self, workload=workload, **columns)
        last = int((self.first_round + self.rounds).max(initial=1)) - 1
        if last > LONGEST_SCHEDULE:
            reason = f"is above {LONGEST_SCHEDULE} rounds"
            raise InvalidValueError("seconds schedule", "last round", last, reason)
        if round_starts is None:
            starts = self._earliest_starts(last)
        else:
            owner = "seconds schedule"
            starts = np.array([as_number(one, owner, "round start") for one in round_starts])
            if len(starts) < last:
                reason = f"leaves round {last} without a start"
                raise InvalidValueError(owner, "len(round_starts)", len(starts), reason)
        set_fields(self, round_starts=read_only(starts))

    @property
    def problem(self) -> Workload:
        """The workload scheduled."""
        return self.workload

    @property
    def batch_time(self) -> BatchTime:
        """Seconds of a round."""
        return self.workload.require_batch_time()

    def without_waiting(self) -> SecondsSchedule:
        """The same rounds, each as soon as the one before it is over and all have arrived."""
        return SecondsSchedule(self.workload, self.stretches)

    @property
    def stretches(self) -> IntArray:
        """All stretches, as the constructor takes them: the columns `COLUMNS`."""
        return np.stack([getattr(self, name) for name in COLUMNS], axis=1)

    @property
    def advances(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """True where a stretch advances, shape (stretches,)."""
        return np.asarray(self.chunk_tokens == ADVANCES)

    @property
    def keeps_tokens(self) -> bool:
        """True if a request that left the cache came back without processing all of it again."""
        follows = self.first_round == self._before(self.first_round + self.rounds)
        return bool(np.any(~follows & (self.prompt_left < self._tokens)))

    @cached_property
    def _same(self) -> BoolArray:
        """Return whether the stretch before is of the same request, shape (stretches,)."""
        return np.append(False, self.request[1:] == self.request[:-1])

    def _before(self, column: IntArray) -> IntArray:
        """Return a column's entries of the stretches before, 0 at the first of each request."""
        return np.where(self._same, np.roll(column, 1), 0)

    @cached_property
    def _tokens(self) -> IntArray:
        """Return prompt and output tokens of the request when a stretch begins, (stretches,)."""
        return self.workload.prompt_lengths[self.request] + self.tokens_before

    def batches(self) -> Iterator[BatchStretch]:
        """Yield each round as a batch time takes it: its requests, tokens and memory."""
        last = int((self.first_round + self.rounds).max(initial=1)) - 1
        count = max(last, len(getattr(self, "round_starts", ())))
        before, advances = self.first_round - 1, self.advances
        stored, growth = self._stored
        chunks = np.maximum(self.chunk_tokens, 0)

        def each_round(amounts: IntArray, growth: int | IntArray = 0) -> IntArray:
            """Return the sum for each round over the stretches that cover it.

            In its k-th round, k = 1, 2, ..., a stretch counts amount + k growth.
            """
            return held_tokens(np.arange(1, count + 1), before, amounts, self.rounds, 1, growth)

        new = advances & (self.prompt_left > 0)
        prompts, entered, squares, past = np.zeros((4, count), dtype=np.int64)
        processed = self._tokens - self.prompt_left
        np.add.at(prompts, before[new], self.prompt_left[new])
        np.add.at(entered, before[new], 1)
        np.add.at(squares, before[new], self.prompt_left[new] ** 2)
        np.add.at(past, before[new], (self.prompt_left * processed)[new])
        columns = (
            each_round(advances.astype(np.int64)),
            prompts,
            entered,
            each_round(stored, growth),
            each_round(chunks),
            each_round(np.where(self.chunk_tokens == 0, stored, 0)),
            squares + each_round(chunks**2),
            # Each chunk finds those before it.
            past + each_round(chunks * (processed - chunks), chunks**2),
        )
        for row in zip(*(column.tolist() for column in columns), strict=True):
            requests, prompt, starts, memory, chunk, held, square, old = row
            counts = (1, requests, prompt, starts, memory, requests, chunk, held)
            # In a single round it does not matter whose prompts they are.
            yield BatchStretch(*counts, 0, 0, square, old)

    @cached_property
    def _stored(self) -> tuple[IntArray, IntArray]:
        """Return tokens stored in first rounds less what a round adds, and what it adds.

        Stretches are in order of request, then of round.
        """
        rule, advances = self.workload.memory_rule, self.advances
        # The newest token is stored by the round that continues from it: it is missing from one
        # that advances, and as long as the request is held after one. Prompts hold all they keep.
        continues = np.where(advances | (self.prompt_left > 0), np.arange(len(advances)), 0)
        owing = advances[np.maximum.accumulate(continues)]
        stored, growth = self._tokens - rule.unstored * owing, advances.astype(np.int64)
        if rule.prompt_allocation == "chunks":
            stored = stored - np.where(advances, 0, self.prompt_left)
            growth = np.where(advances, 1, self.chunk_tokens)
        return stored, growth

    @cached_property
    def durations(self) -> FloatArray:
        """Seconds of each round, from the batch time, shape (rounds,)."""
        durations = self.batch_time.durations
        return read_only([durations(one)[0] for one in self.batches()])

    @cached_property
    def round_ends(self) -> FloatArray:
        """Seconds at which each round is over, shape (rounds,), read-only."""
        return read_only(self.round_starts + self.durations)

    @cached_property
    def completion_times(self) -> FloatArray:
        """End of the round of each request's last token, seconds, shape (n,); NaN without one."""
        return read_only(self._last(self.round_ends))

    @cached_property
    def first_token_times(self) -> FloatArray:
        """End of the round of each request's first token that was not lost, seconds, shape (n,)."""
        return read_only(self._first(self.round_ends))

    @cached_property
    def exact_times(self) -> tuple[Any, Any]:
        """Time from arrival to the last and to the first token of each request, in fractions.

        Arrival times, numbers of the batch time, and the start of a round for which the schedule
        has the machine wait, are the decimals they are written as; so are the durations of a batch
        time whose exact seconds are not known. Shape (n,) of objects each, NaN without the token.
        """
        until = self._arrived(len(self.round_starts))
        waits = self.round_starts > np.append(0.0, self.round_ends[:-1])
        until[waits] = np.maximum(until, self.round_starts)[waits]
        seconds = exact_seconds(self.batch_time)
        lengths = map(decimal, self.durations.tolist())
        if seconds is not None:
            lengths = map(seconds, self.batches())
        now, ends = Fraction(0), np.empty(len(until), dtype=object)
        for position, (begin, length) in enumerate(zip(until.tolist(), lengths, strict=True)):
            if begin > 0:
                now = max(now, decimal(begin))
            now += length
            ends[position] = now
        arrivals = np.array([decimal(one) for one in self.workload.arrival_times.tolist()], object)
        return self._last(ends) - arrivals, self._first(ends) - arrivals

    def keeps(self, limits: Limits) -> BoolArray:
        """Return which requests keep their limits, shape (n,); where floats are near, exactly."""
        latency, first = self.latencies, self.first_token_times - self.workload.arrival_times
        slack, outputs = NEAR * self.completion_times, self.workload.output_lengths
        kept, most = (
            Limits(*(one + shift for one in limits)).on_time(latency, first, outputs)
            for shift in (-slack, slack)
        )
        near = most & ~kept
        if near.any():
            last, first = (one[near] for one in self.exact_times)
            kept[near] = limits.of(near).exactly().on_time(last, first, outputs[near])
        return kept

    @cached_property
    def total_latency(self) -> float:
        """The sum of C_i - a_i, in seconds."""
        return float(self.latencies.sum())

    def memory_profile(self) -> IntArray:
        """KV tokens held in each round, shape (rounds,); blocks count whole."""
        size, (stored, growth) = self.workload.memory_rule.block_size, self._stored
        moments = np.arange(1, len(self.round_starts) + 1)
        return held_tokens(moments, self.first_round - 1, stored, self.rounds, size, growth)

    def violations(self) -> list[Violation]:
        """Every broken rule; durations, memory and tokens are recomputed from the stretches.

        Times are floats: a round may begin where the start of the one before it and its length,
        added up as floats, end.
        """
        workload = self.workload
        found: list[Violation] = []

        def add(kind: Any, owner: RequestId | None, where: int | None, amount: Any) -> None:
            found.append(Violation(kind, owner, where, float(amount), unit=workload.unit))

        def report(kind: Any, stretches: IntArray, amounts: Any) -> None:
            for position in stretches.tolist():
                owner = workload.ids[int(self.request[position])]
                add(kind, owner, int(self.first_round[position]), amounts[position])

        def report_rounds(kind: Any, excess: Any) -> None:
            for r in np.flatnonzero(excess > 0).tolist():
                add(kind, None, r + 1, excess[r])

        early = workload.arrival_times[self.request] - self.round_starts[self.first_round - 1]
        report("early-start", np.flatnonzero(early > 0), early)
        self._check_tokens(report)
        for i in np.setdiff1d(np.arange(len(workload)), self.request).tolist():
            add("output", workload.ids[i], None, workload.output_lengths[i])
        limit = workload.memory_rule.limit(workload.memory_limit)
        report_rounds("memory", self.memory_profile() - limit)
        overlap = np.concatenate([[-self.round_starts[0]], self.round_ends[:-1]])
        overlap[1:] -= self.round_starts[1:]
        report_rounds("clock", overlap)
        return found

    def _check_tokens(self, report: Any) -> None:
        advances = self.advances
        s = self.workload.prompt_lengths[self.request]
        o = self.workload.output_lengths[self.request]
        tokens_after = self.tokens_before + np.where(advances, self.rounds, 0)
        prompt_after = np.where(
            advances, 0, self.prompt_left - np.maximum(self.chunk_tokens, 0) * self.rounds
        )
        after = self.first_round + self.rounds
        same, before = self._same, self._before
        had, left, ended = before(tokens_after), before(prompt_after), before(after)
        # What the request had processed when it left: its newest token only if it went on from it.
        processed = np.where(same & (self.tokens_before == had), s + had - np.maximum(left, 1), 0)
        reused = self._tokens - self.prompt_left
        goes_on = (
            same
            & (self.first_round == ended)
            & (self.tokens_before == had)
            & (self.prompt_left == left)
        )
        enters = (
            (self.first_round >= ended)
            & ((self.tokens_before == 0) | (self.tokens_before == had))
            & (reused >= 0)
            & (reused <= processed)
        )
        report("order", np.flatnonzero(~goes_on & ~enters), self.tokens_before - had)
        report("prompt", np.flatnonzero(prompt_after < 0), -prompt_after)
        is_last = np.append(~same[1:], True)
        right = np.where(is_last, advances & (tokens_after == o), tokens_after < o)
        report("output", np.flatnonzero(~right), np.abs(o - tokens_after))

    def _last(self, ends: Any) -> Any:
        reached = self.advances & (
            self.tokens_before + self.rounds == self.workload.output_lengths[self.request]
        )
        return self._by_request(ends, reached, self.first_round + self.rounds - 2)

    def _first(self, ends: Any) -> Any:
        begins = self.advances & (self.tokens_before == 0)
        return self._by_request(ends, begins, self.first_round - 1)

    def _by_request(self, ends: Any, chosen: Any, rounds: IntArray) -> Any:
        times = np.full(len(self.workload), np.nan, dtype=ends.dtype)
        # Stretches of a request stand in order of time, so its last one is written last.
        times[self.request[chosen]] = ends[rounds[chosen]]
        return times

    def _arrived(self, count: int) -> FloatArray:
        """Return the latest arrival of those whose stretches begin in each round."""
        arrived = np.zeros(count)
        np.maximum.at(arrived, self.first_round - 1, self.workload.arrival_times[self.request])
        return arrived

    def _earliest_starts(self, count: int) -> FloatArray:
        arrived = self._arrived(count)
        starts = np.empty(count)
        now = 0.0
        for position, (arrival, seconds) in enumerate(
            zip(arrived.tolist(), self.durations.tolist(), strict=True)
        ):
            starts[position] = now = max(now, arrival)
            now += seconds
        return starts


def _table(workload: Workload, stretches: Sequence[Stretch] | IntArray) -> IntArray:
    """Return the columns of all stretches, checked and in order."""
    bounds = dict(zip(COLUMNS, (0, 1, 1, ADVANCES, 0, 0), strict=True))
    if isinstance(stretches, np.ndarray):
        table = stretches
        if table.ndim != 2 or table.shape[1] != len(COLUMNS) or table.dtype != np.int64:
            reason = "is not an int64 array of 6 columns"
            raise InvalidValueError("seconds schedule", "stretches", table.shape, reason)
    else:
        rows = []
        for one in (Stretch(*given) for given in stretches):
            request = as_integer(one.request, "stretch", "request", minimum=0)
            if one.prompt_left is None:
                whole = workload.prompt_lengths[request : request + 1].sum() + one.tokens_before
                one = one._replace(prompt_left=whole)
            values = zip(bounds, one, strict=True)
            rows.append([as_integer(value, "stretch", name, minimum=-1) for name, value in values])
        table = np.array(rows, dtype=np.int64).reshape(-1, len(COLUMNS))
    if not len(table):
        raise InvalidValueError("seconds schedule", "stretches", 0, "are none")
    for column, (name, minimum) in zip(table.T, bounds.items(), strict=True):
        least, most = int(column.min()), int(column.max())
        if least < minimum:
            raise InvalidValueError("stretch", name, least, f"is below {minimum}")
        if most > 2**31:
            raise InvalidValueError("stretch", name, most, f"is above {2**31}")
    if table[:, 0].max() >= len(workload):
        reason = f"is none of {len(workload)} requests"
        raise InvalidValueError("stretch", "request", int(table[:, 0].max()), reason)
    ordered: IntArray = table[np.lexsort((table[:, 1], table[:, 0]))]
    return ordered
