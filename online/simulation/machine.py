"""The worker: its batch, its memory and its clock."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Generator
from typing import NamedTuple

import numpy as np

from instances.arrays import FloatArray
from instances.batch_time import BatchStretch, BatchTime
from instances.problem.memory_rule import TOKENS, MemoryRule
from online.batch_time.service_model import ServiceModel
from online.policy_interface.policy import (
    Decision,
    Meters,
    PolicyError,
    RunningRequest,
    State,
    VisibleRequest,
)

LONGEST_TIMED_STRETCH = 256
"""Rounds whose durations are computed at once: more would be wasted when an arrival cuts in."""


class TimedStretch(NamedTuple):
    """Rounds that ran with an unchanged batch.

    Attributes
    ----------
    first_round, rounds : int
        Which.
    memory : int
        Tokens held in the first of them.
    batch_size : int
        Requests that advance in each; also the tokens added from round to round.
    start_time : float
        Clock at their beginning.
    round_ends : float64 array or None
        Clock at the end of each, or None in the round model.
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
        first, planned, memory, growth, begun, ends = self
        if rounds >= planned:
            return self
        ends = None if ends is None else ends[:rounds]
        return TimedStretch(first, rounds, memory, growth, begun, ends)

    def memory_at(self, time: float) -> int:
        """Return the tokens held when the rounds that end by a time have run."""
        if self.round_ends is None:
            ended = max(0, math.floor(time) - self.first_round + 1)
        else:
            ended = int(self.round_ends.searchsorted(time, "right"))
        return self.memory + self.batch_size * (ended - 1)


class Pause(NamedTuple):
    """Rounds in which part of the batch was held.

    Attributes
    ----------
    first_round, rounds : int
        Which.
    frozen : bool
        Whether ``requests`` are those that advanced, all others being held; otherwise they are
        those that were held.
    requests : tuple[int, ...]
        By index.
    chunks : tuple[tuple[int, int], ...]
        Of those that were held: index of each that processed part of its prompt in every round, and
        how many tokens of it.
    """

    first_round: int
    rounds: int
    frozen: bool
    requests: tuple[int, ...]
    chunks: tuple[tuple[int, int], ...]


class Machine:
    """Executes rounds; knows the true output lengths, which policies never see.

    Attributes
    ----------
    horizon : float
        Time on the clock before which all arrivals are known: no round that ends later is carried
        out. Infinite, unless a router is still to send requests.
    running : dict[int, RunningRequest]
        Requests in the batch by index, in order of admission.
    meters
        Clock, round and memory.
    state
        The read-only view of the machine handed to policies.
    tokens_kept : dict[int, int]
        Output tokens of preempted requests that have not started again, by index.
    first_token_rounds : dict[int, int]
        Round of the first token of each request that has emitted one and has not lost it since, by
        index.
    """

    def __init__(
        self,
        memory_limit: int,
        service_model: ServiceModel,
        batch_time: BatchTime | None,
        rule: MemoryRule = TOKENS,
    ) -> None:
        self.horizon = math.inf
        self.running: dict[int, RunningRequest] = {}
        self.meters = Meters()
        self.state = State(memory_limit, self.running, self.meters)
        self.service_model = service_model
        self.batch_time = batch_time
        self.rule = rule
        self._counts_more = rule != TOKENS
        self._in_chunks = rule.prompt_allocation == "chunks"
        # Tokens in the count of each request in the batch that are not stored, and the one more of
        # those that have advanced.
        self._padding = rule.block_size - 1
        self._newest = service_model.margin - self._padding + rule.unstored
        self.tokens_kept: dict[int, int] = {}
        self.first_token_rounds: dict[int, int] = {}
        self._output_lengths: list[int] = []
        # Ends count without frozen rounds: freezing moves all of them and touches none.
        # Entries (end, index) of evicted or moved requests go stale and are skipped.
        self._ends: list[tuple[int, int]] = []
        self._end_of: dict[int, int] = {}
        # Requests in the batch that have not advanced yet, and that have not emitted a token.
        self._fresh: dict[int, RunningRequest] = {}
        self._silent: dict[int, RunningRequest] = {}
        # Rounds planned and not yet carried out.
        self._under_way: TimedStretch | None = None

    def know(self, output_length: int) -> None:
        """Register the true output length of the next request by order of appearance."""
        self._output_lengths.append(output_length)

    def start(self, request: VisibleRequest, reused: int = 0) -> int:
        """Put a request into the batch; returns the output tokens it brings along."""
        meters, index = self.meters, request.index
        kept = self.tokens_kept.pop(index, 0)
        running = RunningRequest(request, meters, kept)
        running.prompt_left -= reused
        self.running[index] = running
        meters.memory += self._tokens(running)
        rounds = self.service_model.rounds(self._output_lengths[index]) - kept
        self._set_end(index, meters.round_index + rounds - meters.frozen_rounds)
        self._fresh[index] = running
        if not kept:
            self._silent[index] = running
        return kept

    def evict(self, index: int) -> None:
        """Take a request out of the batch, its work lost."""
        self._leave(index)
        self.first_token_rounds.pop(index, None)

    def preempt(self, index: int) -> None:
        """Take a request out of the batch, its output tokens kept."""
        running = self._leave(index)
        generated = running.output_tokens(self.service_model, self.meters.round_index)
        if generated:
            self.tokens_kept[index] = generated

    def end(self, index: int) -> None:
        """Forget a request that has ended, where ends are told from outside."""
        if index in self.running:
            self._leave(index)
        self.tokens_kept.pop(index, None)
        self.first_token_rounds.pop(index, None)
        if len(self._ends) > 4 * len(self._end_of) + LONGEST_TIMED_STRETCH:
            # No end is ever reached, so that stale entries would stay.
            self._ends = [(end, one) for one, end in self._end_of.items()]
            heapq.heapify(self._ends)

    def next_memory(self, held: Collection[int]) -> int:
        """Tokens to be counted in the next round if all running requests but these advance."""
        return self.meters.memory + len(self.running) - len(held)

    def idle_until(self, time: float) -> None:
        """Let time pass with an empty batch; idle rounds count in the round model only."""
        meters = self.meters
        if self.batch_time is None:
            meters.round_index = max(meters.round_index, math.ceil(time))
            meters.time = meters.round_index
        else:
            meters.time = max(meters.time, time)

    def advance(  # noqa: C901
        self,
        decision: Decision,
        next_arrival: Callable[[], float | None],
        max_rounds: int | None,
        policy_name: str,
    ) -> Generator[float, None, tuple[list[TimedStretch], Pause | None, list[int]]]:
        """Run rounds up to the next epoch; returns what ran, who was held, and who completed.

        Before what goes beyond the horizon it yields the time that this has to reach.
        ``next_arrival`` tells of the arrivals known.

        Raises
        ------
        PolicyError
            The very next round would hold more than M.
        """
        state, meters = self.state, self.meters
        now = meters.round_index
        chunks = self._chunks(decision)
        held = {*decision.hold, *chunks}
        growth = len(self.running) - len(held)
        # The cheaper of two ways to note who is held: one by one, or all but those that are not.
        frozen = growth < len(held)
        moved: Collection[int] = held
        if frozen:
            moved = [index for index in self.running if index not in held]
        fresh = {index: one for index, one in self._fresh.items() if index not in held}
        entering = self._entering(fresh, chunks) if self._counts_more else 0
        excess = meters.memory + growth + entering - state.memory_limit
        if excess > 0:
            latest = next(reversed(self.running.values())).request
            raise PolicyError(
                f"policy {policy_name!r}, round {now + 1}: the batch holds "
                f"{state.memory_limit + excess} tokens, {excess} above memory_limit; "
                f"request {latest.id!r} was the last to join"
            )
        limits = [
            -(-self.running[index].prompt_left // tokens) - 1
            for index, tokens in chunks.items()
            if tokens
        ]
        if self._in_chunks and limits:
            # What prompts in progress store changes from round to round.
            limits.append(1)
        if growth:
            limits += (self._next_end(moved, frozen=frozen) - now, 1 + -excess // growth)
        if decision.wake is not None:
            limits.append(max(1, decision.wake - now))
        elif not limits:
            # Everything is held and nobody asked to be woken: look again after one round.
            limits.append(1)
        if max_rounds is not None:
            limits.append(max(1, max_rounds - now))
        arrival = next_arrival()
        if arrival is not None and self.batch_time is None:
            limits.append(max(1, math.ceil(arrival) - now))
        rounds = min(limits)
        if self._counts_more:
            rounds = self._fitting(rounds, held, chunks, policy_name)
        held_memory = self._held_memory(moved, chunks, frozen=frozen) if held else 0
        meters.memory += entering
        stretches = yield from self._run(rounds, growth, next_arrival, fresh, chunks, held_memory)
        self._under_way = None
        rounds = meters.round_index - now
        for index, running in fresh.items():
            running.prompt_left = 0
            del self._fresh[index]
        for index, tokens in chunks.items():
            self.running[index].prompt_left -= tokens * rounds
        self._note_first_tokens(held, now, rounds)
        pause = None
        if held:
            self._move(moved, rounds, frozen=frozen)
            pause = Pause(now + 1, rounds, frozen, tuple(moved), tuple(chunks.items()))
        return stretches, pause, self._collect_finished()

    def _entering(self, fresh: dict[int, RunningRequest], chunks: dict[int, int]) -> int:
        """Tokens that the next round stores beyond one for each request that advances."""
        return 0

    def _fitting(
        self, rounds: int, held: set[int], chunks: dict[int, int], policy_name: str
    ) -> int:
        """Return how many of the next rounds fit into memory, beyond the count of tokens."""
        # The limit counts on a newest token that is not stored: here nobody has one.
        silent = len(self._fresh) == len(held) == len(self.running)
        excess = self.meters.memory + self._newest - self.state.memory_limit
        if silent and self._newest and excess > 0:
            raise PolicyError(
                f"policy {policy_name!r}, round {self.meters.round_index + 1}: the prompts of the "
                f"batch are {excess} tokens above what is left beside a token each"
            )
        return rounds

    def _chunks(self, decision: Decision) -> dict[int, int]:
        """Allotments that leave part of a prompt unprocessed."""
        if not decision.prefill:
            return {}
        running = self.running
        return {
            index: tokens
            for index, tokens in decision.prefill.items()
            if tokens < running[index].prompt_left
        }

    def _move(self, moved: Collection[int], rounds: int, *, frozen: bool) -> None:
        """Put off the ends of held requests after ``rounds`` rounds."""
        if frozen:
            self.meters.frozen_rounds += rounds
            rounds = -rounds
        for index in moved:
            self.running[index].count_held(rounds)
            self._set_end(index, self._end_of[index] + rounds)

    def _note_first_tokens(self, held: set[int], before: int, rounds: int) -> None:
        spoken = []
        for index, running in self._silent.items():
            if index in held:
                continue
            needed = self.service_model.prefill_rounds + 1 - running.rounds_run(before)
            if needed <= rounds:
                self.first_token_rounds[index] = before + needed
                spoken.append(index)
        for index in spoken:
            del self._silent[index]

    def _run(
        self,
        rounds: int,
        growth: int,
        next_arrival: Callable[[], float | None],
        fresh: dict[int, RunningRequest],
        chunks: dict[int, int],
        held_memory: int,
    ) -> Generator[float, None, list[TimedStretch]]:
        meters = self.meters
        unstored = self._unstored(fresh, chunks) if self._counts_more else 0
        chunk_tokens = sum(chunks.values())
        new_requests = len(fresh)
        new_prompt_tokens = sum(running.prompt_left for running in fresh.values())
        new_squares, new_past = self._attention(
            [(running, running.prompt_left) for running in fresh.values()]
        )
        chunk_squares, chunk_past = self._attention(
            [(self.running[index], tokens) for index, tokens in chunks.items()]
        )
        stretches: list[TimedStretch] = []
        remaining = rounds
        while remaining:
            block = remaining
            ends: FloatArray | None = None
            memory, begun = meters.memory + growth - unstored, meters.time
            if self.batch_time is not None:
                block = min(block, LONGEST_TIMED_STRETCH)
                stretch = BatchStretch(
                    block,
                    growth,
                    new_prompt_tokens,
                    new_requests,
                    memory,
                    growth,
                    chunk_tokens,
                    held_memory,
                    new_squares,
                    new_past,
                    chunk_squares,
                    chunk_past,
                )
                # One addition a round, begun first: the clock must not depend on how rounds are
                # cut into stretches.
                ends = np.cumsum(np.concatenate([[begun], self.batch_time.durations(stretch)]))[1:]
                if (arrival := next_arrival()) is not None:
                    block = min(block, int(ends.searchsorted(arrival)) + 1)
                    ends = ends[:block]
            ran = TimedStretch(meters.round_index + 1, block, memory, growth, begun, ends)
            if self.horizon < math.inf:
                self._under_way = ran
                while (ended := self._under_way.end_time) > self.horizon:
                    yield ended
                ran = self._under_way
                block, ends = ran.rounds, ran.round_ends
            stretches.append(ran)
            meters.round_index += block
            meters.memory += growth * block
            meters.time = meters.round_index if ends is None else float(ends[-1])
            new_requests = new_prompt_tokens = new_squares = new_past = 0
            chunk_past += chunk_squares * block
            remaining -= block
            if remaining:
                while meters.time >= self.horizon:
                    yield meters.time
                arrival = next_arrival()
                if arrival is not None and meters.time >= arrival:
                    break
        return stretches

    def hear(self, arrival: float) -> float:
        """Note the arrival of a request, which ends rounds under way; return when they end."""
        if self._under_way is None:
            return arrival
        self._under_way = self._under_way.until(arrival)
        return self._under_way.end_time

    def tokens(self, time: float) -> int:
        """Return the KV tokens stored at a time up to the horizon, rounds that ended by then run.

        Those of requests that start are their prompts, until their first round ends.
        """
        if self._under_way is not None:
            return self._under_way.memory_at(time)
        return self.meters.memory - (self._unstored({}, {}) if self._counts_more else 0)

    def _attention(self, prompts: list[tuple[RunningRequest, int]]) -> tuple[int, int]:
        """Return squares and products of prompt tokens in the next round: see `BatchStretch`."""
        squares = past = 0
        for running, tokens in prompts:
            squares += tokens * tokens
            whole = running.request.prompt_length + running.tokens_kept
            past += tokens * (whole - running.prompt_left)
        return squares, past

    def _collect_finished(self) -> list[int]:
        finished: list[int] = []
        now = self.meters.round_index - self.meters.frozen_rounds
        while self._ends and self._ends[0][0] <= now:
            end, index = heapq.heappop(self._ends)
            if self._end_of.get(index) != end:
                continue
            self._leave(index)
            finished.append(index)
        return finished

    def _next_end(self, moved: Collection[int], *, frozen: bool) -> int:
        """Round in which the first of the requests that advance ends, of which there is one."""
        put_off = self.meters.frozen_rounds
        if frozen:
            return min(self._end_of[index] for index in moved) + put_off
        while self._end_of.get(self._ends[0][1]) != self._ends[0][0]:
            heapq.heappop(self._ends)
        end, index = self._ends[0]
        if index in moved:
            end = min(end for index, end in self._end_of.items() if index not in moved)
        return end + put_off

    def _set_end(self, index: int, end: int) -> None:
        self._end_of[index] = end
        heapq.heappush(self._ends, (end, index))

    def _held_memory(self, moved: Collection[int], chunks: Collection[int], *, frozen: bool) -> int:
        """Tokens of requests that neither advance nor process a chunk of their prompt."""
        noted = sum(self._stored(self.running[index]) for index in moved)
        resting = self.meters.memory - self._unstored({}, {}) - noted if frozen else noted
        return resting - sum(self._stored(self.running[index]) for index in chunks)

    def _unstored(self, fresh: dict[int, RunningRequest], chunks: dict[int, int]) -> int:
        """Tokens counted and not stored, once ``fresh`` have advanced and chunks are processed."""
        waiting = len(self._fresh) - len(fresh)
        unstored = self._padding * len(self.running) + self._newest * (len(self.running) - waiting)
        if self._in_chunks:
            unstored -= sum(chunks.values())
            unstored += sum(
                running.prompt_left for i, running in self._fresh.items() if i not in fresh
            )
        return unstored

    def _stored(self, running: RunningRequest) -> int:
        """Tokens that a request has stored."""
        tokens = self._tokens(running) - self._padding
        if running.request.index not in self._fresh:
            return tokens - self._newest
        return tokens - (running.prompt_left if self._in_chunks else 0)

    def _tokens(self, running: RunningRequest) -> int:
        base = self.service_model.base(running.request.prompt_length)
        return base + running.rounds_run(self.meters.round_index)

    def _leave(self, index: int) -> RunningRequest:
        running = self.running.pop(index)
        del self._end_of[index]
        self._fresh.pop(index, None)
        self._silent.pop(index, None)
        self.meters.memory -= self._tokens(running)
        return running
