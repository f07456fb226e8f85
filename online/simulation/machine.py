"""The machine of a simulation: it executes rounds, and records what every request did."""

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
"""Codes in `Machine.actions`: an attempt begins, and then advances (-2), or ends (-3)."""

RUNS, COMPLETED, PREEMPTED, EVICTED = range(4)
"""Codes of how an attempt ended: not yet (0), by completion (1), preemption (2), eviction (3)."""


class PlannedRounds(NamedTuple):
    """Consecutive rounds in which the same requests advance, planned up to the next change.

    Attributes
    ----------
    first_round : int
        Number of the first of these rounds.
    memory : int
        KV tokens stored in the first of these rounds.
    batch_size : int
        Number of requests that advance in each round. Each adds one token per round.
    start_time : float
        Clock at the beginning of the first round, in rounds or seconds.
    ends : range or float64 array
        Clock at the end of each round, in rounds or seconds.
    """

    first_round: int
    memory: int
    batch_size: int
    start_time: float
    ends: Any

    def until(self, arrival: float | None, done: int, most: float) -> int:
        """Return how many of the planned rounds have run by the next decision.

        ``done`` of the planned rounds have run already, and at most ``most`` more may run. If the
        next request arrives at clock time ``arrival``, during a planned round, the decision comes
        at the end of this round.
        """
        count = int(min(len(self.ends), done + most))
        if arrival is None or arrival > self.ends[count - 1]:
            return count
        return min(count, bisect_left(self.ends, arrival, done) + 1)


class Machine:
    """Executes the rounds of one machine. It has the true output lengths, hidden from policies.

    Parameters
    ----------
    memory_limit : int
        M, tokens.
    batch_time : BatchTime or None, default None
        Model of the seconds that a round takes. None in the round model.
    rule : MemoryRule, default TOKENS
        Rule by which requests use memory: size of the blocks, and when tokens are stored.
    prefill_rounds : int, default 0
        Rounds that a request spends on its prompt without emitting a token: 1 in [A25].
    policy_name : str, default ""
        Name of the policy in error messages.

    Attributes
    ----------
    horizon : float
        Clock time up to which all arrivals are known. No round that ends later is executed. It is
        infinite, unless a router may still send requests.
    batch : Batch
        The batch, the queue and the clock.
    tokens_kept : dict[int, int]
        Output tokens of preempted requests that have not started again, by index.
    count : TokenCount or None
        The policy's own count of memory, if it has one. The policy decides again before this count
        exceeds its limit.
    state : State
        The read-only view of the machine that policies get.
    attempts : list[list[int]]
        One entry for each stay of a request in the batch (attempt), in order of start: index of the
        request, number of the last round before its start, number of the last round before its end,
        code of how it ended (`RUNS` and so on), output tokens kept and tokens reused.
    start_times : list[float]
        Clock at the start of each attempt.
    actions : list[tuple[int, int, int, int, Collection[int]]]
        Changes of what requests do. An entry has five parts: the first round of the change; the
        action; the output tokens kept and the prompt tokens left, both only for `BEGINS`; the
        requests. The action is a code (`ADVANCES`, `BEGINS`, `LEAVES`), or the number of prompt
        tokens that each request processes per round (0 if it is held). It lasts until the next
        entry with the same request.
    ran : list[tuple[PlannedRounds, int]]
        Each group of planned rounds, with the number of its rounds that ran.
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
        # A heap of (round of completion, request) for the running requests. The round of an entry
        # is too early if the request was held later. The request of an entry may have left the
        # batch.
        self._ends: list[tuple[int, int]] = []
        # Running requests that emitted no token in the last round, with the prompt tokens that each
        # processed in it (0 if it only paused).
        self._resting: dict[int, int] = {}
        # Number of tokens that each preempted request had processed. When the request starts again,
        # those still stored need not be processed again.
        self._left_behind: dict[int, int] = {}
        # _planned has the rounds planned for the present batch. It is None after a change of the
        # batch. _done is the number of these rounds that have run.
        self._planned: PlannedRounds | None = None
        self._done = 0

    def error(self, what: str) -> PolicyError:
        """Return a `PolicyError` that names the policy and the next round, then says ``what``."""
        return PolicyError(
            f"policy {self.policy_name!r}, round {self.batch.round_index + 1}: {what}"
        )

    # --- changes of the batch ----------------------------------------------------------------

    def register_request(self, output_length: int) -> None:
        """Store the true output length (tokens) of the request with the next index.

        Requests are numbered in the order in which they arrive.
        """
        self.output_lengths.append(output_length)

    def start(self, request: VisibleRequest, reused: int = 0) -> None:
        """Put a request into the batch. If it was preempted, it has the output tokens that it kept.

        ``reused`` is the number of tokens processed before its preemption that are still stored.
        These are not processed again.

        Raises
        ------
        PolicyError
            ``reused`` is more than the number of tokens processed before the preemption.
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
        """Take a request out of the batch. It loses its output tokens and stored memory."""
        self._leave(index, EVICTED)

    def preempt(self, index: int) -> None:
        """Take a request out of the batch. It keeps its output tokens for its next start."""
        running = self._leave(index, PREEMPTED)
        # Compute the tokens processed so far. The newest output token does not count: only the next
        # round would have processed it.
        length = running.request.prompt_length + running.rounds_run(self.batch.round_index)
        self._left_behind[index] = length - max(running.prompt_left, 1)
        if running.output_tokens:
            self.tokens_kept[index] = running.output_tokens

    def end(self, index: int) -> None:
        """Remove a request that has ended in a real engine, which this machine imitates.

        The engine, and not this class, decides when requests end. Also clear the records of past
        rounds, which are not needed then.
        """
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
        """Move the clock to ``time`` on an idle machine.

        In the round model idle rounds count as rounds, and ``time`` is rounded up to a whole round.
        """
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
        """Run rounds until the next decision is due, at most until ``wake`` or ``last_round``.

        A decision is due at a completion, an arrival, or before an overflow of memory. The next
        rounds may end after ``horizon``, the time up to which all arrivals are known. The generator
        then yields the clock time that ``horizon`` must reach before it is resumed. It returns the
        indices of the requests that completed. ``next_arrival`` returns the clock time of the next
        known arrival, or None.

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
            # A request can complete only in the last of the planned rounds, which has not run yet.
            return []
        self._planned = None
        return self._complete()

    def stored_at(self, time: float) -> int:
        """Return the KV tokens stored at clock time ``time``, after the rounds that end by then.

        ``time`` is at most ``horizon``. A request that has started counts with its prompt until its
        first round ends.
        """
        if (rounds := self._planned) is None:
            return self.batch.stored()
        return rounds.memory + rounds.batch_size * (bisect_right(rounds.ends, time) - 1)

    def _chunks(self, decision: Decision) -> dict[int, int]:
        """Return the prompt tokens that the decision allots to requests (chunks), by index.

        Requests that are allotted their whole remaining prompt are left out, as they emit a token.
        """
        running, allotted = self.running, decision.prefill.items()
        return {index: tokens for index, tokens in allotted if tokens < running[index].prompt_left}

    def _most_rounds(self, wake: float, held: Collection[int], chunks: dict[int, int]) -> float:
        """Return the number of rounds until the batch may change by itself, memory not considered.

        The batch may change when a request completes, when a prompt is finished, or before the
        policy's own count of memory exceeds its limit. If requests are held, it may also change
        after ``wake`` rounds. Otherwise ``wake`` does not limit the plan, because the decision at
        that time may change nothing.
        """
        now, growth = self.batch.round_index, len(self.running) - len(held)
        limits = [wake] if held else []
        for index, tokens in chunks.items():
            if tokens:
                left = -(-self.running[index].prompt_left // tokens) - 1
                # If the memory rule allocates prompts in chunks, every round stores this chunk, and
                # also one token per advancing request. A plan of several rounds counts only the
                # latter, so the plan has one round.
                limits.append(1 if self.batch.in_chunks else left)
        if growth:
            end, index = self._first_end()
            if index in held:
                end = min(self._end(one) for i, one in self.running.items() if i not in held)
            limits.append(end - now)
            if self.count is not None:
                counted = self.count.memory(self.state) + growth
                limits.append(max(1, 1 + (self.count.limit - counted) // growth))
        # If there is no limit, all requests are held and the policy set no ``wake``. The policy
        # then decides again after one round.
        rounds = min(limits)
        return 1 if rounds == math.inf else rounds

    def _fitting(
        self, rounds: int, held: Collection[int], chunks: dict[int, int], memory: int
    ) -> int:
        """Return how many of the next ``rounds`` rounds fit into the memory M.

        The first of these rounds stores ``memory`` tokens. Each request that advances adds a token
        per round. ``held`` has the requests that emit no token, ``chunks`` the prompt tokens that
        some of them process.

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
        """Plan the rounds up to the next possible change of the batch, with their clock times.

        ``wake`` and ``last`` are numbers of rounds from now. ``held`` has the requests that emit no
        token, ``chunks`` the prompt tokens that some of them process per round, and ``entering``
        the requests that advance for the first time since their start.
        """
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
            # The durations of rounds are added to the clock one by one. Round-off then does not
            # depend on how many rounds are planned at once.
            ends = np.cumsum(np.concatenate([[begun], self.batch_time.durations(stretch)]))[1:]
        return PlannedRounds(now + 1, memory, growth, begun, ends)

    def _attention(self, prompts: dict[int, int]) -> tuple[int, int]:
        """Return the sums of x^2 and of x y over the requests in ``prompts``, for attention's cost.

        The next round processes x prompt tokens of a request, and y of its tokens are processed
        already.
        """
        squares = past = 0
        for index, tokens in prompts.items():
            one = self.running[index]
            squares += tokens * tokens
            past += tokens * (one.request.prompt_length + one.tokens_kept - one.prompt_left)
        return squares, past

    def _end(self, running: RunningRequest) -> int:
        """Return the number of the round in which a request completes if it is never held again."""
        rounds = self.output_lengths[running.request.index] + self.batch.prefill_rounds
        return running.start_round + running.rounds_held + rounds - running.tokens_kept

    def _first_end(self) -> tuple[int, int]:
        """Return (round of completion, index) of the running request that completes first."""
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
        """Remove the requests that complete in this round from the batch. Return their indices."""
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
        """Add entries to `actions` for requests whose action changes in the next round.

        ``held`` has the requests that emit no token, ``chunks`` the prompt tokens that some of them
        process, and ``entering`` the requests that advance for the first time since their start.
        """
        now = self.batch.round_index + 1
        if held or self._resting:
            before, self._resting = self._resting, {**dict.fromkeys(held, 0), **chunks}
            changed = self._resting.items() - before.items()
            stopped = [index for index, tokens in changed if not tokens]
            self.actions.append((now, ADVANCES, 0, 0, before.keys() - self._resting.keys()))
            self.actions.append((now, 0, 0, 0, stopped))
            self.actions += [(now, tokens, 0, 0, (index,)) for index, tokens in changed if tokens]
        if self.batch.prefill_rounds:
            # In runs with prefill rounds, the first round after a start processes the prompt and
            # emits no token. Tokens come from the next round on.
            for index in entering:
                self.actions.append((now, self.running[index].prompt_left, 0, 0, (index,)))
            self.actions.append((now + 1, ADVANCES, 0, 0, entering))
