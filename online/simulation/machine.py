"""The worker: it executes rounds, and records what every request did."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Generator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from instances.arrays import FloatArray
from instances.batch_time import BatchStretch, BatchTime
from instances.batch_time.seconds_schedule import ADVANCES
from instances.problem.memory_rule import TOKENS, MemoryRule
from online.policy_interface.policy import (
    Decision,
    PolicyError,
    RunningRequest,
    State,
    VisibleRequest,
)
from online.policy_interface.token_count import TokenCount

from .batch import Batch

BEGINS, LEAVES = -2, -3
"""An attempt begins, and advances from its first round on; a request leaves the batch."""

NOTHING_NEW = {"new_prompt_tokens": 0, "new_requests": 0, "new_squares": 0, "new_past": 0}

LONGEST_TIMED_STRETCH = 256
"""Rounds whose durations are computed at once: more would be wasted when an arrival cuts in."""


class TimedStretch(NamedTuple):
    """Rounds that ran with an unchanged batch.

    Attributes
    ----------
    first_round, rounds : int
        Index of the first round, and number of rounds.
    memory : int
        Tokens stored in the first round.
    batch_size : int
        Requests that advance in each round; also the tokens added from round to round.
    start_time : float
        Clock at the beginning.
    round_ends : float64 array or None
        Clock at the end of each round, or None in the round model.
    """

    first_round: int
    rounds: int
    memory: int
    batch_size: int
    start_time: float
    round_ends: FloatArray | None

    @property
    def end_time(self) -> float:
        """Return the clock at the end of the last round."""
        if self.round_ends is None:
            return self.first_round - 1 + self.rounds
        return float(self.round_ends[-1])

    def until(self, arrival: float) -> TimedStretch:
        """Return the rounds up to the first that ends at or after an arrival, or all of them."""
        if self.round_ends is None:
            rounds = max(1, math.ceil(arrival) - self.first_round + 1)
        else:
            rounds = int(self.round_ends.searchsorted(arrival)) + 1
        if rounds >= self.rounds:
            return self
        ends = None if self.round_ends is None else self.round_ends[:rounds]
        return self._replace(rounds=rounds, round_ends=ends)

    def memory_at(self, time: float) -> int:
        """Return the tokens stored when the rounds that end by a time have run."""
        if self.round_ends is None:
            ended = max(0, math.floor(time) - self.first_round + 1)
        else:
            ended = int(self.round_ends.searchsorted(time, "right"))
        return self.memory + self.batch_size * (ended - 1)


class Machine:
    """Executes rounds; knows the true output lengths, which policies never see.

    Parameters
    ----------
    memory_limit : int
        M, tokens.
    batch_time : BatchTime or None, default None
        Seconds of a round; None in the round model.
    rule : MemoryRule, default TOKENS
        How memory is counted.
    prefill_rounds : int, default 0
        Rounds that a request spends on its prompt without emitting a token: 1 in [A25].

    Attributes
    ----------
    horizon : float
        Time on the clock before which all arrivals are known: no round that ends later is carried
        out. Infinite, unless a router is still to send requests.
    batch : Batch
        Its batch, queue and clock.
    tokens_kept : dict[int, int]
        Output tokens of preempted requests that have not started again, by index.
    count : TokenCount or None
        Count of tokens of a policy that has to be asked before it exceeds its limit.
    record : list[tuple[int, int, Collection[int]]]
        What requests do from a round on until their next entry: the round; a chunk, `ADVANCES`,
        `BEGINS` or `LEAVES`; the requests.
    begun : list[tuple[int, int]]
        Of each attempt, in order: output tokens that it kept, and prompt tokens left to process.
    state : State
        The read-only view of the machine handed to policies.
    """

    def __init__(
        self,
        memory_limit: int,
        batch_time: BatchTime | None = None,
        rule: MemoryRule = TOKENS,
        prefill_rounds: int = 0,
    ) -> None:
        self.horizon = math.inf
        self.batch = batch = Batch(rule, prefill_rounds)
        self.running, self.waiting, self._fresh = batch.running, batch.waiting, batch.fresh
        self.memory_limit, self.rule, self.batch_time = memory_limit, rule, batch_time
        self.prefill_rounds = prefill_rounds
        self.tokens_kept: dict[int, int] = {}
        self.count: TokenCount | None = None
        self.record: list[tuple[int, int, Collection[int]]] = []
        self.begun: list[tuple[int, int]] = []
        self.state = State(batch, memory_limit)
        self._output_lengths: list[int] = []
        # Ends less the rounds by which all were put off. Entries (end, index) of requests that were
        # evicted or moved go stale and are skipped.
        self._put_off_by = 0
        self._ends: list[tuple[int, int]] = []
        self._end_of: dict[int, int] = {}
        # Prompt tokens processed in each round by the requests that do not advance.
        self._resting: dict[int, int] = {}
        # Tokens of each preempted request that had been processed.
        self._left_behind: dict[int, int] = {}
        # Rounds planned and not yet carried out.
        self._under_way: TimedStretch | None = None

    @property
    def round_index(self) -> int:
        """Return the rounds run."""
        return self.batch.round_index

    @property
    def time(self) -> float:
        """Return the clock."""
        return self.batch.time

    # --- the batch ---------------------------------------------------------------------------

    def register_request(self, output_length: int) -> None:
        """Register the true output length of the next request by order of appearance."""
        self._output_lengths.append(output_length)

    def start(self, request: VisibleRequest, reused: int = 0) -> None:
        """Put a request into the batch, with the output tokens that it kept.

        Raises
        ------
        PolicyError
            It is to reuse tokens that it has not processed.
        """
        index, batch = request.index, self.batch
        had, kept = self._left_behind.pop(index, 0), self.tokens_kept.pop(index, 0)
        if not 0 <= reused <= had:
            raise PolicyError(
                f"request {request.id!r} was to reuse {reused} tokens of {had} processed before"
            )
        running = RunningRequest(request, batch, kept)
        running.prompt_left -= reused
        self.running[index] = self._fresh[index] = running
        self.batch.tokens += running.tokens
        rounds = self._output_lengths[index] + self.prefill_rounds - kept
        self._set_end(index, self.batch.round_index + rounds - self._put_off_by)
        self.record.append((self.batch.round_index + 1, BEGINS, (index,)))
        self.begun.append((kept, running.prompt_left))

    def evict(self, index: int) -> None:
        """Take a request out of the batch, its work lost."""
        self._leave(index)

    def preempt(self, index: int) -> None:
        """Take a request out of the batch, its output tokens kept."""
        running = self._leave(index)
        # The newest token is processed by the round after it.
        length = running.request.prompt_length + running.rounds_run(self.batch.round_index)
        self._left_behind[index] = length - max(running.prompt_left, 1)
        if running.output_tokens:
            self.tokens_kept[index] = running.output_tokens

    def end(self, index: int) -> None:
        """Forget a request that has ended, where the engine says so."""
        if index in self.running:
            self._leave(index)
        self.tokens_kept.pop(index, None)
        self._left_behind.pop(index, None)
        self.record.clear()
        self.begun.clear()
        if len(self._ends) > 4 * len(self._end_of) + LONGEST_TIMED_STRETCH:
            # No end is ever reached, so that stale entries would stay.
            self._ends = [(end, index) for index, end in self._end_of.items()]
            heapq.heapify(self._ends)

    def idle_until(self, time: float) -> None:
        """Let time pass with an empty batch; idle rounds count in the round model only."""
        if self.batch_time is None:
            self.batch.round_index = max(self.batch.round_index, math.ceil(time))
            self.batch.time = self.batch.round_index
        else:
            self.batch.time = max(self.batch.time, time)

    def _fitting(
        self, rounds: int, held: Collection[int], chunks: dict[int, int], memory: int, name: str
    ) -> int:
        """Return how many of the next rounds fit, of which the first stores ``memory`` tokens.

        Raises
        ------
        PolicyError
            The very next round would hold more than M.
        """
        growth, size = len(self.running) - len(held), self.rule.block_size
        usable = self.rule.limit(self.memory_limit)
        if memory + growth * (rounds - 1) + (size - 1) * len(self.running) <= usable:
            return rounds
        where = f"policy {name!r}, round {self.batch.round_index + 1}: the batch holds"
        if size == 1:
            excess = memory - usable
            if excess > 0:
                latest = next(reversed(self.running.values())).request
                raise PolicyError(
                    f"{where} {memory} tokens, {excess} above memory_limit; "
                    f"request {latest.id!r} was the last to join"
                )
            return min(rounds, 1 + -excess // growth) if growth else rounds
        blocks = usable // size
        if self.batch.blocks(rounds, held, chunks) <= blocks:
            return rounds
        fits, too_many = 0, rounds
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self.batch.blocks(middle, held, chunks) <= blocks:
                fits = middle
            else:
                too_many = middle
        if not fits:
            needed = self.batch.blocks(1, held, chunks)
            raise PolicyError(f"{where} {needed} blocks of {size} tokens, and there are {blocks}")
        return fits

    # --- rounds ------------------------------------------------------------------------------

    def advance(
        self,
        decision: Decision,
        wake: float,
        next_arrival: Callable[[], float | None],
        max_rounds: int | None,
        policy_name: str,
    ) -> Generator[float, None, tuple[list[TimedStretch], list[int]]]:
        """Run rounds up to the next epoch, ``wake`` at the latest; return what ran and who ended.

        Before what goes beyond the horizon it yields the time that this has to reach.
        ``next_arrival`` tells of the arrivals known.

        Raises
        ------
        PolicyError
            The very next round would hold more than M.
        """
        now = self.batch.round_index
        chunks = self._chunks(decision)
        held = {*decision.hold, *chunks} if decision.hold or chunks else ()
        staying = {i: one for i, one in self._fresh.items() if i in held} if held else {}
        entering = {i: one for i, one in self._fresh.items() if i not in staying}
        growth = len(self.running) - len(held)
        memory = growth + self.batch.stored_after(1, staying, chunks)
        limits = self._limits(decision, wake, held, chunks, growth)
        if max_rounds is not None:
            limits.append(max(1, max_rounds - now))
        arrival = next_arrival()
        if arrival is not None and self.batch_time is None:
            limits.append(max(1, math.ceil(arrival) - now))
        rounds = self._fitting(int(min(limits)), held, chunks, memory, policy_name)
        if held or self._resting:
            self._note_actions(held, chunks)
        stretch = self._first_rounds(memory, growth, entering, chunks, held)
        stretches = yield from self._run(rounds, stretch, next_arrival)
        self._under_way = None
        rounds = self.batch.round_index - now
        for index, running in entering.items():
            running.prompt_left = 0
            del self._fresh[index]
        if held:
            self._put_off(held, rounds)
        for index, tokens in chunks.items():
            self.running[index].prompt_left -= tokens * rounds
        return stretches, self._collect_finished()

    def _limits(
        self,
        decision: Decision,
        wake: float,
        held: Collection[int],
        chunks: dict[int, int],
        growth: int,
    ) -> list[float]:
        """Return numbers of rounds after each of which something changes."""
        now = self.batch.round_index
        limits: list[float] = [
            -(-self.running[index].prompt_left // tokens) - 1
            for index, tokens in chunks.items()
            if tokens
        ]
        if self.batch.in_chunks and limits:
            # What prompts in progress store changes from round to round.
            limits.append(1)
        if growth:
            limits.append(self._next_end(held) - now)
            if self.count is not None:
                counted = self.count.memory(self.state) + growth
                limits.append(max(1, 1 + (self.count.limit - counted) // growth))
        if wake < math.inf:
            limits.append(max(1, wake - now))
        # Everything is held and nobody asked to be woken: look again after one round.
        return limits or [1]

    def _first_rounds(
        self,
        memory: int,
        growth: int,
        entering: dict[int, RunningRequest],
        chunks: dict[int, int],
        held: Collection[int],
    ) -> BatchStretch:
        """Return the first of the next rounds as a batch time takes it."""
        batch = BatchStretch(1, growth, 0, 0, memory, growth)
        if self.batch_time is None:
            return batch
        if held:
            chunk_tokens, resting = sum(chunks.values()), self.batch.resting(held, chunks)
            squares, past = _attention([(self.running[i], n) for i, n in chunks.items()])
            counts = {"chunk_tokens": chunk_tokens, "held_memory": resting}
            batch = replace(batch, chunk_squares=squares, chunk_past=past, **counts)
        if entering:
            new = [(running, running.prompt_left) for running in entering.values()]
            squares, past = _attention(new)
            counts = {"new_prompt_tokens": sum(left for _, left in new), "new_requests": len(new)}
            batch = replace(batch, new_squares=squares, new_past=past, **counts)
        return batch

    def _run(
        self, rounds: int, batch: BatchStretch, next_arrival: Callable[[], float | None]
    ) -> Generator[float, None, list[TimedStretch]]:
        growth, memory = batch.growth, batch.memory
        stretches: list[TimedStretch] = []
        while rounds:
            block, begun = rounds, self.batch.time
            ends: FloatArray | None = None
            if self.batch_time is not None:
                block = min(block, LONGEST_TIMED_STRETCH)
                if block > 1:
                    batch = replace(batch, rounds=block)
                # One addition a round, begun first: the clock must not depend on how rounds are
                # cut into stretches.
                ends = np.cumsum(np.concatenate([[begun], self.batch_time.durations(batch)]))[1:]
                if (arrival := next_arrival()) is not None:
                    block = min(block, int(ends.searchsorted(arrival)) + 1)
                    ends = ends[:block]
            ran = TimedStretch(self.batch.round_index + 1, block, memory, growth, begun, ends)
            if self.horizon < math.inf:
                self._under_way = ran
                while (ended := self._under_way.end_time) > self.horizon:
                    yield ended
                ran = self._under_way
                block, ends = ran.rounds, ran.round_ends
            stretches.append(ran)
            self.batch.round_index += block
            self.batch.tokens += growth * block
            self.batch.time = self.batch.round_index if ends is None else float(ends[-1])
            memory += growth * block
            rounds -= block
            if rounds:
                past = batch.chunk_past + batch.chunk_squares * block
                batch = replace(batch, rounds=1, memory=memory, chunk_past=past, **NOTHING_NEW)
                while self.batch.time >= self.horizon:
                    yield self.batch.time
                arrival = next_arrival()
                if arrival is not None and self.batch.time >= arrival:
                    break
        return stretches

    def hear(self, arrival: float) -> float:
        """Note the arrival of a request, which ends rounds under way; return when they end."""
        if self._under_way is None:
            return arrival
        self._under_way = self._under_way.until(arrival)
        return self._under_way.end_time

    def stored_at(self, time: float) -> int:
        """Return the KV tokens stored at a time up to the horizon, rounds that ended by then run.

        Those of requests that start are their prompts, until their first round ends.
        """
        if self._under_way is not None:
            return self._under_way.memory_at(time)
        return self.batch.stored()

    def _chunks(self, decision: Decision) -> dict[int, int]:
        """Return the allotments that leave part of a prompt unprocessed."""
        running = self.running
        return {
            index: tokens
            for index, tokens in decision.prefill.items()
            if tokens < running[index].prompt_left
        }

    def _collect_finished(self) -> list[int]:
        finished: list[int] = []
        now = self.batch.round_index - self._put_off_by
        while self._ends and self._ends[0][0] <= now:
            end, index = heapq.heappop(self._ends)
            if self._end_of.get(index) == end:
                self._leave(index)
                finished.append(index)
        return finished

    def _next_end(self, held: Collection[int]) -> int:
        """Return the round in which the first of the requests that advance ends: there is one."""
        while self._end_of.get(self._ends[0][1]) != self._ends[0][0]:
            heapq.heappop(self._ends)
        end, index = self._ends[0]
        if index in held:
            end = min(end for index, end in self._end_of.items() if index not in held)
        return end + self._put_off_by

    def _set_end(self, index: int, end: int) -> None:
        self._end_of[index] = end
        heapq.heappush(self._ends, (end, index))

    def _put_off(self, held: Collection[int], rounds: int) -> None:
        """Put off the ends of held requests; the cheaper way where most are held moves the rest."""
        for index in held:
            self.running[index].rounds_held += rounds
        moved, by = held, rounds
        if 2 * len(held) > len(self.running):
            moved, by = [index for index in self.running if index not in held], -rounds
            self._put_off_by += rounds
        for index in moved:
            self._set_end(index, self._end_of[index] + by)

    def _leave(self, index: int) -> RunningRequest:
        running = self.running.pop(index)
        del self._end_of[index]
        self._fresh.pop(index, None)
        self._resting.pop(index, None)
        self.batch.tokens -= running.tokens
        self.record.append((self.batch.round_index + 1, LEAVES, (index,)))
        return running

    def _note_actions(self, held: Collection[int], chunks: dict[int, int]) -> None:
        """Note the requests that do something else than before."""
        now, before = self.batch.round_index + 1, self._resting
        self._resting = {**dict.fromkeys(held, 0), **chunks}
        if released := before.keys() - self._resting.keys():
            self.record.append((now, ADVANCES, released))
        changed = self._resting.items() - before.items()
        self.record.append((now, 0, [index for index, tokens in changed if not tokens]))
        self.record += [(now, tokens, (index,)) for index, tokens in changed if tokens]


def _attention(prompts: list[tuple[RunningRequest, int]]) -> tuple[int, int]:
    """Return squares and products of prompt tokens in the next round: see `BatchStretch`."""
    squares = past = 0
    for running, tokens in prompts:
        squares += tokens * tokens
        whole = running.request.prompt_length + running.tokens_kept
        past += tokens * (whole - running.prompt_left)
    return squares, past
