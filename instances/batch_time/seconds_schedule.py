"""Schedules in seconds: start of each round, actions of requests in it, and feasibility check."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray, read_only
from instances.errors import InvalidTypeError, InvalidValueError
from instances.problem.batches import BatchStretch, BatchTime
from instances.problem.memory import held_tokens
from instances.problem.schedule import TimedSchedule, Violation
from instances.problem.workload import Workload
from instances.service_level import BoolArray, Limits
from instances.validation import as_integer, as_number, decimal, set_fields

from .exact import exact_seconds

ADVANCES = -1
"""Value of ``chunk_tokens`` for a stretch in which the request emits a token in every round."""

LONGEST_SCHEDULE = 10_000_000
"""Largest number of rounds of a schedule in seconds. Each takes about 200 bytes of memory."""

NEAR = 1e-9
"""Times that differ from a limit by at most this share are compared with it exactly."""

COLUMNS = ("request", "first_round", "rounds", "chunk_tokens", "tokens_before", "prompt_left")
LEAST = (0, 1, 1, ADVANCES, 0, 0)
"""Columns of a table of stretches, named as the fields of `Stretch`, and their least values."""


class Stretch(NamedTuple):
    """Consecutive rounds in which a request does the same: emit tokens, process chunks, or pause.

    Attributes
    ----------
    request : int
        Position of the request in the workload.
    first_round : int
        Number of the first round, counted from 1.
    rounds : int
        Number of rounds, >= 1.
    chunk_tokens : int, default `ADVANCES`
        Prompt tokens processed in each round without emitting an output token, 0 if the request
        only pauses in the cache, or `ADVANCES` if it emits an output token in each round.
    tokens_before : int, default 0
        Output tokens that the request has emitted before the stretch.
    prompt_left : int or None, default None
        Prompt tokens not yet processed before the stretch. If the request emits tokens in this
        stretch, the first round of the stretch processes all of them. After a preemption, the
        output tokens so far count as prompt tokens. None means that all prompt tokens are left. A
        request that returns and finds some of its tokens still stored has fewer left.
    """

    request: int
    first_round: int
    rounds: int
    chunk_tokens: int = ADVANCES
    tokens_before: int = 0
    prompt_left: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class SecondsSchedule(TimedSchedule):
    """Schedule of a workload in seconds: the start of each round, and what each request does in it.

    In a round, a request in the cache does one of three things: it advances (emits its next token),
    processes a chunk of its prompt, or is held (pauses). Its first advance processes the rest of
    its prompt. Between two rounds it may leave the cache. After a preemption it returns with the
    output tokens that it had, which then count as prompt tokens; after an eviction it returns with
    none. The batch time of the workload determines how long each round lasts. The schedule may be
    infeasible: see `violations`. All durations and costs are computed from the stretches.

    Parameters
    ----------
    workload : Workload
        The requests, with their batch time.
    stretches : Sequence[Stretch] or int64 array
        All stretches (consecutive rounds in which a request does the same), in any order. An array
        has the columns `COLUMNS`, shape (stretches, 6).
    round_starts : Sequence[float] or None, default None
        Start of each round in seconds, shape (rounds,). None starts every round as soon as the
        previous round has ended and all its requests have arrived.

    Attributes
    ----------
    request, first_round, rounds, chunk_tokens, tokens_before, prompt_left : int64 array
        Columns of all stretches, shape (stretches,), sorted by request, then by round; see
        `Stretch`. Read-only.
    round_starts : float64 array
        Start of each round in seconds, shape (rounds,). Read-only.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A number has the wrong type or is out of range, a round has no start, or the workload has no
        batch time or several replicas.
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
        owner, last = "seconds schedule", self._last_round
        if last > LONGEST_SCHEDULE:
            reason = f"is above {LONGEST_SCHEDULE} rounds"
            raise InvalidValueError(owner, "last round", last, reason)
        if round_starts is None:
            starts = self._earliest_starts()
        elif len(round_starts) < last:
            reason = f"leaves round {last} without a start"
            raise InvalidValueError(owner, "len(round_starts)", len(round_starts), reason)
        else:
            given = [as_number(one, owner, "round start") for one in round_starts]
            starts = np.array(given[:last])
        set_fields(self, round_starts=read_only(starts))

    @property
    def problem(self) -> Workload:
        """The workload whose requests are scheduled."""
        return self.workload

    @property
    def batch_time(self) -> BatchTime:
        """Model of the seconds that a round takes, from the workload."""
        return self.workload.require_batch_time()

    def without_waiting(self) -> SecondsSchedule:
        """Return the schedule with the same rounds, each as early as possible.

        A round starts when the previous round has ended and all its requests have arrived.
        """
        return SecondsSchedule(self.workload, self.stretches)

    @property
    def stretches(self) -> IntArray:
        """Table of all stretches (consecutive rounds in which a request does the same).

        It has the columns `COLUMNS`, shape (stretches, 6).
        """
        return np.stack([getattr(self, name) for name in COLUMNS], axis=1)

    @property
    def _last_round(self) -> int:
        """Number of the last round in which a request runs."""
        return int((self.first_round + self.rounds).max()) - 1

    @property
    def advances(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each stretch of rounds, whether its request emits tokens in it, (stretches,)."""
        return np.asarray(self.chunk_tokens == ADVANCES)

    @property
    def keeps_tokens(self) -> bool:
        """True if some request left the cache and returned without processing all tokens again."""
        follows = self.first_round == self._before(self.first_round + self.rounds)
        return bool(np.any(~follows & (self.prompt_left < self._tokens)))

    @cached_property
    def _same(self) -> BoolArray:
        """For each stretch of rounds, whether the previous one is of the same request."""
        return np.append(False, self.request[1:] == self.request[:-1])

    def _before(self, column: IntArray) -> IntArray:
        """Return for each stretch the entry in ``column`` of the same request's previous stretch.

        It is 0 for the first stretch of a request.
        """
        return np.where(self._same, np.roll(column, 1), 0)

    @cached_property
    def _tokens(self) -> IntArray:
        """For each stretch, its request's prompt tokens plus output tokens emitted before it."""
        return self.workload.prompt_lengths[self.request] + self.tokens_before

    def batches(self) -> Iterator[BatchStretch]:
        """Yield the batch of each round, with its requests, tokens and memory, for a batch time."""
        count, before, advances = self._last_round, self.first_round - 1, self.advances
        stored, growth = self._stored
        chunks = np.maximum(self.chunk_tokens, 0)

        def each_round(amounts: IntArray, growth: int | IntArray = 0) -> IntArray:
            """Return a sum for each round over all stretches that include it, shape (count,).

            In its k-th round, k = 1, 2, ..., stretch i contributes amounts[i] + k * growth[i].
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
            # The tokens processed before a chunk include the earlier chunks of the stretch.
            past + each_round(chunks * (processed - chunks), chunks**2),
        )
        for row in zip(*(column.tolist() for column in columns), strict=True):
            requests, prompt, starts, memory, chunk, held, square, old = row
            counts = (1, requests, prompt, starts, memory, requests, chunk, held)
            # For a single round, squares and products of completed prompts and of chunks count
            # alike. So their sums are passed as those of completed prompts, with 0 for chunks.
            yield BatchStretch(*counts, 0, 0, square, old)

    @cached_property
    def _stored(self) -> tuple[IntArray, IntArray]:
        """KV tokens that requests store, for each stretch of rounds: two arrays (stored, growth).

        In the j-th round of stretch i, its request stores stored[i] + j * growth[i] tokens.
        """
        rule, advances = self.workload.memory_rule, self.advances
        # With emitted_token="next", the newest token of a request is stored only by the next round
        # that processes it. So it is missing in rounds that emit a token, and while the request is
        # held after such a round. While a prompt is processed, no token is missing.
        continues = np.where(advances | (self.prompt_left > 0), np.arange(len(advances)), 0)
        owing = advances[np.maximum.accumulate(continues)]
        stored, growth = self._tokens - rule.unstored * owing, advances.astype(np.int64)
        if rule.prompt_allocation == "chunks":
            stored = stored - np.where(advances, 0, self.prompt_left)
            growth = np.where(advances, 1, self.chunk_tokens)
        return stored, growth

    @cached_property
    def durations(self) -> FloatArray:
        """Duration of each round in seconds, from the batch time, shape (rounds,), read-only."""
        durations = self.batch_time.durations
        return read_only([durations(one)[0] for one in self.batches()])

    @cached_property
    def round_ends(self) -> FloatArray:
        """End of each round in seconds, shape (rounds,), read-only."""
        return read_only(self.round_starts + self.durations)

    @cached_property
    def completion_times(self) -> FloatArray:
        """Completion time of each request in seconds, shape (n,); NaN if it does not complete.

        It is the end of the round that emits its last token.
        """
        return read_only(self._last(self.round_ends))

    @cached_property
    def first_token_times(self) -> FloatArray:
        """Time of each request's first output token in seconds, shape (n,).

        It is the end of the round that emits the token. Tokens lost by an eviction do not count.
        """
        return read_only(self._first(self.round_ends))

    @cached_property
    def exact_times(self) -> tuple[Any, Any]:
        """Exact times from arrival to the last and to the first token of each request, in seconds.

        Both are arrays of `Fraction`, shape (n,), with NaN for a request that does not get the
        token. Floats count as the decimals they are written as (0.1 is 1/10): arrivals, parameters
        of the batch time, and round starts before which the machine waits. If the formula of the
        batch time is not known, the durations of rounds are taken as decimals too.
        """
        until = self._arrived()
        waits = self.round_starts > np.append(0.0, self.round_ends[:-1])
        until[waits] = np.maximum(until, self.round_starts)[waits]
        begins, exact = until.tolist(), exact_seconds(self.batch_time)
        given = map(exact, self.batches()) if exact else map(decimal, self.durations.tolist())
        lengths, known = list(given), {one: decimal(one) for one in {*begins}}
        # Whole numbers of 1 / ``unit`` seconds are added and compared faster than fractions.
        unit = math.lcm(*{one.denominator for one in (*lengths, *known.values())})
        whole = (one.numerator * (unit // one.denominator) for one in lengths)
        ends = _round_ends((one and int(known[one] * unit) for one in begins), whole, 0)
        arrivals = np.array([decimal(one) for one in self.workload.arrival_times.tolist()], object)
        last, first = (of(ends) * Fraction(1, unit) for of in (self._last, self._first))
        return last - arrivals, first - arrivals

    def keeps(self, limits: Limits) -> BoolArray:
        """Return for each request whether its latency and token times keep its limits, (n,).

        Floats are compared first. Requests whose times are near a limit are compared exactly.
        """
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
        """Total latency (TEL): the sum of C_i - a_i, in seconds."""
        return float(self.latencies.sum())

    def memory_profile(self) -> IntArray:
        """Return the KV tokens held by all requests in each round, in whole blocks, (rounds,)."""
        size, (stored, growth) = self.workload.memory_rule.block_size, self._stored
        moments = np.arange(1, len(self.round_starts) + 1)
        return held_tokens(moments, self.first_round - 1, stored, self.rounds, size, growth)

    def violations(self) -> list[Violation]:
        """Return all violations: of arrivals, memory, the order of rounds, and numbers of tokens.

        Durations, memory and tokens are computed from the stretches. Times are compared as floats:
        a round may begin at the float sum of the previous round's start and duration.
        """
        work, unit = self.workload, self.workload.unit
        early = work.arrival_times[self.request] - self.round_starts[self.first_round - 1]
        of_stretches: list[tuple[Any, Any, Any]] = [("early-start", early > 0, early)]
        found = [
            Violation(kind, work.ids[self.request[k]], int(first), float(amounts[k]), unit=unit)
            for kind, broken, amounts in of_stretches + self._token_violations()
            for k, first in zip(np.flatnonzero(broken), self.first_round[broken], strict=True)
        ]
        for i in np.setdiff1d(np.arange(len(work)), self.request).tolist():
            missing = float(work.output_lengths[i])
            found.append(Violation("output", work.ids[i], None, missing, unit=unit))
        excess = self.memory_profile() - work.memory_rule.limit(work.memory_limit)
        overlap = np.append(0.0, self.round_ends[:-1]) - self.round_starts
        of_rounds: list[tuple[Any, Any]] = [("memory", excess), ("clock", overlap)]
        for kind, amounts in of_rounds:
            for k in np.flatnonzero(amounts > 0).tolist():
                found.append(Violation(kind, None, k + 1, float(amounts[k]), unit=unit))
        return found

    def _token_violations(self) -> list[tuple[Any, Any, Any]]:
        """Return (kind, stretches that violate it as a mask, amounts) of numbers of tokens."""
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
        # ``processed`` is the number of tokens that the request had processed before the present
        # stretch. Its newest output token does not count, since only a later round processes it.
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
        is_last = np.append(~same[1:], True)
        right = np.where(is_last, advances & (tokens_after == o), tokens_after < o)
        return [
            ("order", ~goes_on & ~enters, self.tokens_before - had),
            ("prompt", prompt_after < 0, -prompt_after),
            ("output", ~right, np.abs(o - tokens_after)),
        ]

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
        # The stretches of a request are in order of time, so the last assignment to its entry is
        # that of its last stretch.
        times[self.request[chosen]] = ends[rounds[chosen]]
        return times

    def _arrived(self) -> FloatArray:
        """Return for each round the latest arrival of requests that begin in it, shape (rounds,).

        A request begins in the first round of each of its stretches.
        """
        arrived = np.zeros(self._last_round)
        np.maximum.at(arrived, self.first_round - 1, self.workload.arrival_times[self.request])
        return arrived

    def _earliest_starts(self) -> FloatArray:
        arrived = self._arrived()
        ends = _round_ends(arrived.tolist(), self.durations.tolist(), 0.0)
        return np.maximum(arrived, np.append(0.0, ends[:-1]).astype(np.float64))


def _round_ends(begins: Iterable[Any], lengths: Iterable[Any], zero: Any) -> npt.NDArray[Any]:
    """Return the end of each round, from the earliest begin and the length of each, (rounds,)."""
    rounds = zip(begins, lengths, strict=True)
    ends = accumulate(rounds, lambda now, one: max(now, one[0]) + one[1], initial=zero)
    return np.array([*ends][1:], dtype=object)


def _table(workload: Workload, stretches: Sequence[Stretch] | IntArray) -> IntArray:
    """Check the stretches of a schedule and return them as a table with the columns `COLUMNS`.

    A stretch is consecutive rounds in which a request does the same. The rows are sorted by
    request, then by round.
    """
    owner = "seconds schedule"
    if not isinstance(stretches, np.ndarray):
        rows = [_row(workload, Stretch(*one)) for one in stretches]
        stretches = np.array(rows, dtype=np.int64).reshape(-1, len(COLUMNS))
    if stretches.ndim != 2 or stretches.shape[1] != len(COLUMNS) or stretches.dtype != np.int64:
        reason = "is not an int64 array of 6 columns"
        raise InvalidValueError(owner, "stretches", stretches.shape, reason)
    if not len(stretches):
        raise InvalidValueError(owner, "stretches", 0, "are too few: give one or more")
    most = (len(workload) - 1, *[2**31] * 5)
    for column, name, least, largest in zip(stretches.T, COLUMNS, LEAST, most, strict=True):
        for one in (column.min(), column.max()):
            as_integer(int(one), "stretch", name, minimum=least, maximum=largest)
    ordered: IntArray = stretches[np.lexsort((stretches[:, 1], stretches[:, 0]))]
    return ordered


def _row(workload: Workload, one: Stretch) -> list[int]:
    request = as_integer(one.request, "stretch", "request", minimum=0)
    if one.prompt_left is None:
        whole = workload.prompt_lengths[request : request + 1].sum() + one.tokens_before
        one = one._replace(prompt_left=whole)
    values = zip(COLUMNS, one, strict=True)
    return [as_integer(value, "stretch", name, minimum=ADVANCES) for name, value in values]
