"""SGLang's scheduler: prompts first, admitted by an estimate of what decoding will need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from instances.validation import as_fraction
from online.policy_interface.policy import (
    Decision,
    RunningRequest,
    Setup,
    State,
    VisibleRequest,
    register_policy,
)

from .base import ReservingPolicy, positive

FIRST_RATIO = Fraction(7, 10)
LEAST_SHARE = Fraction(14, 100)
DECAY_ROUNDS = 600
"""The ratio falls from `FIRST_RATIO` to `LEAST_SHARE` of it within so many rounds of decodes."""

RETRACT_ROUNDS = 20
"""Rounds of decodes that the ratio is to leave room for after a request was retracted."""

LONGEST_ESTIMATE = 4096
"""Output tokens that admission reserves for a request at most."""


@dataclass
class _Room:
    """Room left in a batch of prompts: memory, and tokens of the batch and of a chunk."""

    free: Fraction
    most: int
    chunk: int | None

    @property
    def is_used_up(self) -> bool:
        """Tell whether the batch or the chunk is full although memory is free."""
        chunk_is_used_up = self.chunk is not None and self.chunk <= 0
        return self.free > 0 and (self.most <= 0 or chunk_is_used_up)

    def take(self, tokens: int, memory: int) -> None:
        """Charge a prompt, its tokens in whole blocks."""
        self.free -= memory
        self.most -= tokens
        if self.chunk is not None:
            self.chunk -= tokens


@register_policy("sglang")
class SGLang(ReservingPolicy):
    """Prompts in rounds of their own; admission reserves a share of what is still to be emitted.

    In each round, where a request waits and the batch is not known to be full, a batch of prompts
    is made: the prompt in progress first, then the queue, as long as fewer than
    ``max_running_requests`` requests run, prompts sum to less than ``max_prefill_tokens``, and
    the request's prompt, its longest output and a block are less than what is free. Free is what
    nobody holds, less what this batch takes, less for each decoding request what it may still
    emit, at most 4,096 tokens, times a ratio. The prompt that exceeds what is left of
    ``chunked_prefill_size`` is cut there, in whole blocks, and continued in the next round. Decodes
    are held meanwhile. A request that does not fit makes the batch full until one leaves it.

    Otherwise everybody decodes, and the ratio falls a little: from 0.7 to 0.098 within 600 such
    rounds. Where memory does not suffice, requests are retracted: those with the fewest output
    tokens first, of these the longest prompt, of these the last; their tokens are kept, and they
    wait at the tail of the queue. The ratio becomes (tokens emitted + 20 for each) / (longest
    outputs + 1) over the requests that stay. It starts anew on an idle machine.

    As in the engine, a request that ended counts as one of the batch until the next decodes: who
    waited for it is admitted one round after.

    No guarantee.

    Read in SGLang 0.5.23: ``srt/managers/scheduler.py``, ``schedule_policy.py``,
    ``schedule_batch.py``, ``srt/mem_cache/prefill_budget.py``,
    ``scheduler_components/new_token_ratio_tracker.py``. Of its queues, ``fcfs`` and ``lof`` are
    the orders ``"fcfs"`` and ``"longest-output"``; ``lpm``, ``dfs-weight`` and ``hrrn`` look at
    shared prefixes, and no request shares one here, with which ``lpm`` is ``fcfs``. Left out: reuse
    of prefixes, a retracted request's own included; the overlap of scheduling with the device;
    prompts mixed with decodes; retraction by priority; the finer estimate for requests that ignore
    the end of sequence without a prefix cache. An empty machine admits the head of the queue
    whatever its longest output: the engine would cut that output.

    Parameters
    ----------
    chunked_prefill_size : int or None, default 8192
        Prompt tokens a round processes at most; None never cuts a prompt. The engine's default
        goes by the device: 2,048 to 16,384.
    max_prefill_tokens : int, default 16384
        Prompt tokens after which no further request joins a batch of prompts.
    max_running_requests : int, default 2048
        Requests in the batch at most.
    schedule_conservativeness : float, default 1.0
        Multiplies the first ratio, which is at most 1.
    max_new_tokens : int or None, default None
        Longest output; see `ReservingPolicy`.
    order : str, default "fcfs"
        Of the queue, a name of `ORDERS`.
    ageing : float, default 0.0
        See `QueueOrder`.
    """

    def __init__(
        self,
        chunked_prefill_size: int | None = 8192,
        max_prefill_tokens: int = 16384,
        max_running_requests: int = 2048,
        schedule_conservativeness: float = 1.0,
        max_new_tokens: int | None = None,
        order: str = "fcfs",
        ageing: float = 0.0,
    ) -> None:
        super().__init__(max_new_tokens, order, ageing, "tail")
        self.chunked_prefill_size = (
            None
            if chunked_prefill_size is None
            else positive(chunked_prefill_size=chunked_prefill_size)
        )
        self.max_prefill_tokens = positive(max_prefill_tokens=max_prefill_tokens)
        self.max_running_requests = positive(max_running_requests=max_running_requests)
        conservativeness = as_fraction(
            schedule_conservativeness, "policy", "schedule_conservativeness", above=0
        )
        self.schedule_conservativeness = float(conservativeness)
        self._first_ratio = min(Fraction(1), FIRST_RATIO * conservativeness)
        self._least_ratio = self._first_ratio * LEAST_SHARE

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue.

        Raises
        ------
        InvalidValueError
            Prompts cut to less than a block, or a service model with prefill rounds.
        """
        super().reset(setup)
        if self.chunked_prefill_size is not None:
            self._check_cut("chunked_prefill_size", self.chunked_prefill_size)
        self._full = False
        self._chunked: int | None = None
        self._prefilled: list[int] = []
        # A request that decodes emits a token in every round of decodes, so that the count of these
        # rounds at which it has its longest output never changes.
        self._decodes = 0
        self._end_of: dict[int, int] = {}
        self._ended: list[int] = []
        self._decoding = False
        self._round = 0
        self._idle_since: float | None = None
        self._set_ratio(self._first_ratio, 0)

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue; after idle time the ratio starts anew."""
        if self._idle_since is not None and state.time > self._idle_since:
            self._leave()
            self._set_ratio(self._first_ratio, self._decodes)
        self._idle_since = None
        super().arrive(requests, state)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Let decoding requests leave the batch with the next decodes, and all others at once."""
        for request in requests:
            if request.index in self._end_of:
                self._ended.append(request.index)
            else:
                self._prefilled.remove(request.index)
                self._full = False
        super().complete(requests, state)
        self._count(state.round_index)
        if not state.running and not self._queue:
            self._idle_since, self._decoding = state.time, False

    def decide(self, state: State) -> Decision:
        """A round of prompts if any can be admitted, else decodes."""
        now = state.round_index
        self._count(now)
        self._join(state)
        batch = self._prompts(state)
        if not batch and self._ended:
            self._leave()
            if not self._end_of:
                batch = self._prompts(state)
        self._decoding = not batch
        if batch:
            started = [index for index in batch if index not in state.running]
            held = [index for index in state.running if index not in batch]
            cut = {} if self._chunked is None else {self._chunked: batch[self._chunked]}
            return Decision(start=started, hold=held, prefill=cut, wake=now + 1)
        retracted = self._retract(state)
        again = retracted or (self._queue and not self._full)
        return Decision(preempt=retracted, wake=now + 1 if again else None)

    def _count(self, now: int) -> None:
        """Count the rounds of decodes since the last time."""
        if self._decoding:
            self._decodes += now - self._round
        self._round = now

    def _join(self, state: State) -> None:
        """Let those whose prompts have just been processed decode."""
        for index in self._prefilled:
            end = self._decodes + self._longest(index)
            end -= state.running[index].output_tokens(self._service, state.round_index)
            self._end_of[index] = end
        if self._chunked is not None:
            # It is taken out of the batch of prompts, which counts as one that leaves.
            self._full = False
        self._prefilled = []

    def _leave(self) -> None:
        """Take those that ended out of the batch."""
        for index in self._ended:
            del self._end_of[index]
        self._ended = []
        self._full = False

    def _longest(self, index: int) -> int:
        # The engine leaves two tokens of its memory free.
        return self._longest_output(self._requests[index], self._limit - 2)

    def _set_ratio(self, ratio: Fraction, decodes: int) -> None:
        self._ratio, self._ratio_since = ratio, decodes

    def _reserved(self) -> Fraction:
        """Return the memory that admission leaves to the requests that decode."""
        now = self._decodes
        total = sum(min(max(end - now, 0), LONGEST_ESTIMATE) for end in self._end_of.values())
        decayed = now - self._ratio_since
        ratio = self._ratio
        if decayed > 0:
            step = (self._first_ratio - self._least_ratio) / DECAY_ROUNDS
            ratio = max(ratio - decayed * step, self._least_ratio)
        return ratio * total

    def _prompts(self, state: State) -> dict[int, int]:
        """Prompt tokens of the next round by index; empty where there is no such round."""
        if self._chunked is None and (self._full or not self._queue):
            return {}
        slots = self.max_running_requests - len(self._end_of)
        if self._chunked is None and slots <= 0:
            self._full = True
            return {}
        now = state.round_index
        others = (one for index, one in state.running.items() if index != self._chunked)
        free = self._limit - self._reserved() - sum(self._memory(one, now) for one in others)
        room = _Room(free, self.max_prefill_tokens, self.chunked_prefill_size)
        batch: dict[int, int] = {}
        if self._chunked is not None:
            self._continue(state.running[self._chunked], room, batch)
        while self._queue and not room.is_used_up:
            if len(batch) >= slots:
                self._full = True
                break
            if not self._begin(room, batch):
                break
        return batch

    def _continue(self, running: RunningRequest, room: _Room, batch: dict[int, int]) -> None:
        """Add the prompt in progress to a batch of prompts."""
        index, left = running.request.index, running.prompt_left
        # The rest of its prompt may be held already, and is charged as it is processed.
        room.free -= self._paged(self._prompt(index) - left)
        assert room.chunk is not None
        fitting = min(room.chunk, math.floor(room.free))
        tokens = min(left, fitting if fitting > 0 else room.chunk)
        batch[index] = tokens
        if tokens == left:
            room.free -= min(self._longest(index), LONGEST_ESTIMATE)
            self._prefilled.append(index)
            self._chunked = None
        paged = self._paged(tokens)
        room.take(paged, paged + self._rule.block_size)

    def _begin(self, room: _Room, batch: dict[int, int]) -> bool:
        """Add the head of the queue to a batch of prompts; False where nobody else joins it."""
        index, block = self._queue.head, self._rule.block_size
        longest, tokens = self._longest(index), self._prompt(index)
        still = min(max(longest - self._kept.get(index, 0), 0), LONGEST_ESTIMATE)
        if tokens + still + block >= room.free and (batch or self._end_of):
            self._full = True
            return False
        paged = self._paged(tokens)
        if room.chunk is None and batch and paged >= room.most:
            return False
        if room.chunk is not None and paged > room.chunk:
            tokens = room.chunk // block * block
            if not tokens:
                return False
            self._chunked = index
        else:
            room.free -= min(longest, LONGEST_ESTIMATE)
            self._prefilled.append(index)
        self._queue.pop()
        batch[index] = tokens
        paged = self._paged(tokens)
        room.take(paged, paged + block)
        if room.free <= 0:
            self._full = True
        return room.free > 0

    def _retract(self, state: State) -> list[int]:
        """Requests that give way so that the others can decode."""
        now, service = state.round_index, self._service
        excess = sum(self._memory(one, now + 1) for one in state.running.values()) - self._limit
        if excess <= 0:
            return []
        stay = [(one.output_tokens(service, now), one) for one in state.running.values()]
        # The sort is stable: of equal requests the last of the batch goes first.
        stay.sort(key=lambda pair: (-pair[0], pair[1].request.prompt_length))
        retracted: list[int] = []
        while excess > 0 and len(stay) > 1:
            _, running = stay.pop()
            index = running.request.index
            excess -= self._memory(running, now + 1)
            self._keep(state, index)
            del self._end_of[index]
            retracted.append(index)
        emitted = sum(tokens + RETRACT_ROUNDS for tokens, _ in stay)
        longest = sum(self._longest(one.request.index) for _, one in stay)
        # The round in which a request is retracted does not let the ratio fall.
        self._set_ratio(min(Fraction(1), Fraction(emitted, longest + 1)), self._decodes + 1)
        self._full = False
        return retracted
