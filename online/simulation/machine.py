"""The worker: it executes rounds, and records what every request did."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Generator
from typing import Any, NamedTuple

import numpy as np

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
"""Codes of actions: an attempt begins and then advances; a request leaves the batch."""

RUNS, COMPLETED, PREEMPTED, EVICTED = range(4)
"""How an attempt has ended: 0 not yet, 1 by completion, 2 by preemption, 3 by eviction."""


class PlannedRounds(NamedTuple):
    """Consecutive rounds with an unchanged batch, planned up to the next change.

    Attributes
    ----------
    first_round : int
        Number of the first of these rounds.
    memory : int
        Tokens stored in the first of these rounds.
    batch_size : int
        Requests that advance in each round; also the tokens added from round to round.
    start_time : float
        Clock at the beginning of the first round.
    ends : range or float64 array
        Clock at the end of each round.
    """

    first_round: int
    memory: int
    batch_size: int
    start_time: float
    ends: Any

    def until(self, arrival: float | None, done: int, most: float) -> int:
        """Return how many of these rounds run before the next decision.

        These are at most ``most`` more after the ``done`` that have run. They end with the first
        round during which the arrival comes.
        """
        count = int(min(len(self.ends), done + most))
        if arrival is None or arrival > self.ends[count - 1]:
            return count
        return min(count, bisect_left(self.ends, arrival, done) + 1)


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
    policy_name : str, default ""
        Name of the policy in error messages.

    Attributes
    ----------
    horizon : float
        Clock time up to which all arrivals are known; no round that ends later is executed.
        Infinite, unless a router may still send requests.
    batch : Batch
        The batch, the queue and the clock.
    tokens_kept : dict[int, int]
        Output tokens of preempted requests that have not started again, by index.
    count : TokenCount or None
        Token count of the policy, if it has one. The policy is asked before the count exceeds its
        limit.
    state : State
        The read-only view of the machine that policies get.
    attempts : list[list[int]]
        Every stay in the batch, in order of start: request, rounds run at its start and at its end,
        how it has ended (`RUNS` and so on), output tokens kept and tokens reused.
    start_times : list[float]
        Clock at the start of each attempt.
    actions : list[tuple[int, int, int, int, Collection[int]]]
        Changes of what requests do: round of the change; number of prompt tokens (a chunk) a round,
        0 for held, or a code (`ADVANCES`, `BEGINS`, `LEAVES`); at a beginning, output tokens kept
        and prompt tokens left; the requests. An entry holds until the request's next entry.
    ran : list[tuple[PlannedRounds, int]]
        Planned rounds, and how many of them ran.
    """

    def __init__(
        self,
        memory_limit: int,
        batch_time: BatchTime | None = None,
        rule: MemoryRule = TOKENS,
        prefill_rounds: int = 0,
        policy_name: str = "",
    ) -> None:
        self.horizon = math.inf
        self.batch = Batch(rule, prefill_rounds)
        self.running, self.waiting = self.batch.running, self.batch.waiting
        self.memory_limit, self.batch_time, self.policy_name = memory_limit, batch_time, policy_name
        self.tokens_kept: dict[int, int] = {}
        self.count: TokenCount | None = None
        self.state = State(self.batch, memory_limit)
        self.attempts: list[list[int]] = []
        self.start_times: list[float] = []
        self.actions: list[tuple[int, int, int, int, Collection[int]]] = []
        self.ran: list[tuple[PlannedRounds, int]] = []
        self.output_lengths: list[int] = []
        self._attempt: dict[int, list[int]] = {}
        # A heap of (round of completion, request). An entry may be too early if the request was
        # held since, or belong to a request that has left the batch.
        self._ends: list[tuple[int, int]] = []
        # Requests that do not advance, with the prompt tokens that each processes in a round.
        self._resting: dict[int, int] = {}
        # Tokens that each preempted request had processed; it may reuse them when it starts again.
        self._left_behind: dict[int, int] = {}
        # The rounds planned for the present batch if no request is held, and how many of them have
        # run.
        self._planned: PlannedRounds | None = None
        self._done = 0

    def error(self, what: str) -> PolicyError:
        """Return an error that names the policy and the round."""
        return PolicyError(
            f"policy {self.policy_name!r}, round {self.batch.round_index + 1}: {what}"
        )

    # --- changes of the batch ----------------------------------------------------------------

    def register_request(self, output_length: int) -> None:
        """Store the true output length of the next request by order of appearance, tokens."""
        self.output_lengths.append(output_length)

    def start(self, request: VisibleRequest, reused: int = 0) -> None:
        """Put a request into the batch, with the output tokens kept by its preemption.

        ``reused`` of its processed tokens are still stored and are not processed again.

        Raises
        ------
        PolicyError
            ``reused`` is more than the tokens that its preempted attempt had processed.
        """
        index, batch = request.index, self.batch
        had, kept = self._left_behind.pop(index, 0), self.tokens_kept.pop(index, 0)
        if not 0 <= reused <= had:
            what = f"was to reuse {reused} tokens of {had} processed before"
            raise self.error(f"request {request.id!r} {what}")
        running = RunningRequest(request, batch, kept)
        running.prompt_left -= reused
        batch.running[index] = batch.fresh[index] = running
        batch.tokens += running.tokens
        heapq.heappush(self._ends, (self._end(running), index))
        self._attempt[index] = [index, batch.round_index, -1, RUNS, kept, reused]
        self.attempts.append(self._attempt[index])
        self.start_times.append(batch.time)
        first = batch.round_index + 1
        self.actions.append((first, BEGINS, kept, running.prompt_left, (index,)))
        self._planned = None

    def evict(self, index: int) -> None:
        """Take a request out of the batch; its progress is lost."""
        self._leave(index, EVICTED)

    def preempt(self, index: int) -> None:
        """Take a request out of the batch; its output tokens are kept."""
        running = self._leave(index, PREEMPTED)
        # The newest output token does not count: the next round would have processed it.
        length = running.request.prompt_length + running.rounds_run(self.batch.round_index)
        self._left_behind[index] = length - max(running.prompt_left, 1)
        if running.output_tokens:
            self.tokens_kept[index] = running.output_tokens

    def end(self, index: int) -> None:
        """Remove a request that an engine reports as ended, and clear the records of all rounds."""
        if index in self.running:
            self._leave(index, COMPLETED)
        self.tokens_kept.pop(index, None)
        self._left_behind.pop(index, None)
        self._planned = None
        for record in (self.attempts, self.start_times, self.actions, self.ran):
            del record[:]

    def _leave(self, index: int, how: int) -> RunningRequest:
        running = self.running.pop(index)
        self.batch.fresh.pop(index, None)
        self.batch.tokens -= running.tokens
        self._resting.pop(index, None)
        self._attempt.pop(index)[2:4] = self.batch.round_index, how
        self.actions.append((self.batch.round_index + 1, LEAVES, 0, 0, (index,)))
        self._planned = None
        return running

    def idle_until(self, time: float) -> None:
        """Move the clock forward without running a round; the round model counts idle rounds."""
        self._planned = None
        if self.batch_time is None:
            self.batch.round_index = max(self.batch.round_index, math.ceil(time))
            self.batch.time = self.batch.round_index
        else:
            self.batch.time = max(self.batch.time, time)

    # --- running rounds ----------------------------------------------------------------------

    def advance(
        self,
        decision: Decision,
        wake: float,
        last_round: float,
        next_arrival: Callable[[], float | None],
    ) -> Generator[float, None, list[int]]:
        """Run rounds up to the next epoch, but not past ``wake`` or ``last_round``.

        Before a round that ends after the horizon, the generator yields the time that the horizon
        must reach. It returns the requests that completed. ``next_arrival`` returns the time of the
        first known arrival.

        Raises
        ------
        PolicyError
            The next round would hold more than M.
        """
        batch, now = self.batch, self.batch.round_index
        wake, last = max(1, wake - now), last_round - now
        held: Collection[int] = ()
        chunks: dict[int, int] = {}
        entering: list[int] = []
        if self._planned is None or decision.hold or decision.prefill:
            chunks = self._chunks(decision)
            held = {*decision.hold, *chunks}
            entering = [index for index in batch.fresh if index not in held]
            self._planned, self._done = self._plan(wake, last, held, chunks, entering), 0
            self._note_actions(held, chunks, entering)
        planned, done, most = self._planned, self._done, min(wake, last)
        while planned.ends[(count := planned.until(next_arrival(), done, most)) - 1] > self.horizon:
            yield float(planned.ends[count - 1])
        if done:
            self.ran.pop()
        self.ran.append((planned, count))
        rounds, self._done = count - done, count
        batch.round_index += rounds
        batch.tokens += planned.batch_size * rounds
        batch.time = now + rounds if self.batch_time is None else float(planned.ends[count - 1])
        for index in entering:
            batch.fresh.pop(index).prompt_left = 0
        for index in held:
            self.running[index].rounds_held += rounds
        for index, tokens in chunks.items():
            self.running[index].prompt_left -= tokens * rounds
        if not held and count < len(planned.ends):
            # No request completes before the last of the planned rounds.
            return []
        self._planned = None
        return self._complete()

    def stored_at(self, time: float) -> int:
        """Return the KV tokens stored at a time up to the horizon, after the rounds ended by then.

        Until its first round ends, a started request counts with its prompt.
        """
        if (rounds := self._planned) is None:
            return self.batch.stored()
        return rounds.memory + rounds.batch_size * (bisect_right(rounds.ends, time) - 1)

    def _chunks(self, decision: Decision) -> dict[int, int]:
        """Return, by index, the allotments of prompt tokens that do not finish a prompt."""
        running, allotted = self.running, decision.prefill.items()
        return {index: tokens for index, tokens in allotted if tokens < running[index].prompt_left}

    def _most_rounds(self, wake: float, held: Collection[int], chunks: dict[int, int]) -> float:
        """Return the largest number of rounds that can be planned without a change of the batch.

        If no request is held, these rounds may go beyond ``wake``: the next decision may change
        nothing.
        """
        now, growth = self.batch.round_index, len(self.running) - len(held)
        limits = [wake] if held else []
        for index, tokens in chunks.items():
            if tokens:
                left = -(-self.running[index].prompt_left // tokens) - 1
                # If prompts get memory in chunks, the stored tokens change every round: plan one
                # round.
                limits.append(1 if self.batch.in_chunks else left)
        if growth:
            end, index = self._first_end()
            if index in held:
                end = min(self._end(one) for i, one in self.running.items() if i not in held)
            limits.append(end - now)
            if self.count is not None:
                counted = self.count.memory(self.state) + growth
                limits.append(max(1, 1 + (self.count.limit - counted) // growth))
        # If all requests are held and the policy named no wake-up, the next epoch is after one
        # round.
        rounds = min(limits)
        return 1 if rounds == math.inf else rounds

    def _fitting(
        self, rounds: int, held: Collection[int], chunks: dict[int, int], memory: int
    ) -> int:
        """Return how many of the next rounds fit in M; the first of them stores ``memory`` tokens.

        Raises
        ------
        PolicyError
            The next round would hold more than M.
        """
        batch, size = self.batch, self.batch.rule.block_size
        growth, usable = len(self.running) - len(held), batch.rule.limit(self.memory_limit)

        def needed(after: int) -> int:
            if size == 1:
                return memory + growth * (after - 1)
            return batch.blocks(after, held, chunks) * size

        at_most = memory + growth * (rounds - 1) + (size - 1) * len(self.running)
        if at_most <= usable or needed(rounds) <= usable:
            return rounds
        fits = bisect_right(range(1, rounds + 1), usable, key=needed)
        if not fits:
            most = "memory_limit" if size == 1 else f"the {usable} tokens in blocks of {size}"
            latest, excess = next(reversed(self.running.values())).request, needed(1) - usable
            raise self.error(
                f"the batch holds {needed(1)} tokens, {excess} above {most}; "
                f"request {latest.id!r} was the last to join"
            )
        return fits

    def _plan(
        self,
        wake: float,
        last: float,
        held: Collection[int],
        chunks: dict[int, int],
        entering: list[int],
    ) -> PlannedRounds:
        """Return the rounds up to the next possible change of the batch, with their clock times."""
        now, begun, growth = self.batch.round_index, self.batch.time, len(self.running) - len(held)
        memory = self.batch.next_stored(held, chunks)
        most = int(min(last, self._most_rounds(wake, held, chunks)))
        rounds = self._fitting(most, held, chunks, memory)
        ends: Any = range(now + 1, now + rounds + 1)
        if self.batch_time is not None:
            new = {index: self.running[index].prompt_left for index in entering}
            stretch = BatchStretch(
                rounds,
                growth,
                sum(new.values()),
                len(new),
                memory,
                growth,
                sum(chunks.values()),
                self.batch.resting(held, chunks),
                *self._attention(new),
                *self._attention(chunks),
            )
            # Durations are added to the clock one by one, so that rounding does not depend on how
            # the rounds are divided into plans.
            ends = np.cumsum(np.concatenate([[begun], self.batch_time.durations(stretch)]))[1:]
        return PlannedRounds(now + 1, memory, growth, begun, ends)

    def _attention(self, prompts: dict[int, int]) -> tuple[int, int]:
        """Return sums of x^2 and of x y over prompts with x tokens next round and y before it."""
        squares = past = 0
        for index, tokens in prompts.items():
            one = self.running[index]
            squares += tokens * tokens
            past += tokens * (one.request.prompt_length + one.tokens_kept - one.prompt_left)
        return squares, past

    def _end(self, running: RunningRequest) -> int:
        """Return the round after which a request completes if it is not held from now on."""
        rounds = self.output_lengths[running.request.index] + self.batch.prefill_rounds
        return running.start_round + running.rounds_held + rounds - running.tokens_kept

    def _first_end(self) -> tuple[int, int]:
        """Return the earliest (round of completion, request) in a batch that is not empty."""
        while True:
            end, index = self._ends[0]
            running = self.running.get(index)
            if running is None:
                heapq.heappop(self._ends)
            elif (later := self._end(running)) > end:
                heapq.heapreplace(self._ends, (later, index))
            else:
                return end, index

    def _complete(self) -> list[int]:
        """Remove the requests that complete in this round from the batch, and return them."""
        finished: list[int] = []
        while self.running and (first := self._first_end())[0] <= self.batch.round_index:
            heapq.heappop(self._ends)
            self._leave(first[1], COMPLETED)
            finished.append(first[1])
        return finished

    # --- entries of `actions` ----------------------------------------------------------------

    def _note_actions(
        self, held: Collection[int], chunks: dict[int, int], entering: list[int]
    ) -> None:
        """Record the requests that do something else in the next round than in the last."""
        now = self.batch.round_index + 1
        if held or self._resting:
            before, self._resting = self._resting, {**dict.fromkeys(held, 0), **chunks}
            changed = self._resting.items() - before.items()
            stopped = [index for index, tokens in changed if not tokens]
            self.actions.append((now, ADVANCES, 0, 0, before.keys() - self._resting.keys()))
            self.actions.append((now, 0, 0, 0, stopped))
            self.actions += [(now, tokens, 0, 0, (index,)) for index, tokens in changed if tokens]
        if self.batch.prefill_rounds:
            # With prefill rounds, the first round of an attempt processes the prompt and emits no
            # token.
            for index in entering:
                self.actions.append((now, self.running[index].prompt_left, 0, 0, (index,)))
            self.actions.append((now + 1, ADVANCES, 0, 0, entering))
