"""SGLang's scheduler: prompts first, admitted by an estimate of what decoding will need."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from instances import InvalidValueError
from instances.validation import ranged
from online.policy_interface import Decision, Setup, State, VisibleRequest, register_policy

from .base import ReservingPolicy

FIRST_RATIO = 0.7
LEAST_SHARE = 0.14
DECAY_ROUNDS = 600
"""The ratio falls from `FIRST_RATIO` to `LEAST_SHARE` of it within so many rounds of decodes."""

RETRACT_ROUNDS = 20
"""Rounds of decodes that the ratio is to leave room for after a request was retracted."""

LONGEST_ESTIMATE = 4096
"""Output tokens that admission reserves for a request at most."""


@dataclass
class _Room:
    """Room left in a batch of prompts: memory, and tokens of the batch and of a chunk.

    ``reserved`` is what admission leaves of the memory that is ``available``: for the batch, of
    which ``taken`` are its prompts, and for what the requests may emit.
    """

    available: int
    reserved: float
    taken: int
    most: int
    chunk: float
    ends: list[tuple[int, int]] | None = None

    @property
    def free(self) -> float:
        """Memory that admission may use."""
        return self.available - self.reserved

    @property
    def is_used_up(self) -> bool:
        """Tell whether the batch or the chunk is full although memory is free."""
        return self.free > 0 and min(self.most, self.chunk) <= 0

    def take(self, tokens: int, block: int, longest: int) -> None:
        """Charge a prompt of ``tokens``, which are whole blocks, a block, and an output."""
        self.taken += tokens + block
        self.reserved += tokens + block + min(longest, LONGEST_ESTIMATE)
        self.most -= tokens
        self.chunk -= tokens


@register_policy("sglang")
@dataclass(eq=False, repr=False, kw_only=True)
class SGLang(ReservingPolicy):
    """SGLang's scheduler: prompts first; admission reserves a share of what is still to be emitted.

    In each round, where a request waits and the batch is not known to be full, a batch of prompts
    is made: the prompt in progress first, then the queue, as long as fewer than
    ``max_running_requests`` requests run, prompts sum to less than ``max_prefill_tokens``, and
    the request's prompt, its longest output and a block are less than what is free. Free is what
    nobody holds, less what this batch takes, less for each decoding request what it may still
    emit, at most 4,096 tokens, times a ratio. The prompt that exceeds what is left of
    ``chunked_prefill_size`` is cut there, in whole blocks, and continued in the next round. Decodes
    are held meanwhile, unless they are mixed in. A request that does not fit makes the batch full
    until one leaves it; a batch that nothing had decoded in before is never full for long, because
    what its requests may emit counts whole at first and by the ratio a round after.

    Otherwise everybody decodes, and the ratio falls a little: from 0.7 to 0.098 within 600 such
    rounds. Where memory does not suffice, requests are retracted: those with the fewest output
    tokens first, of these the longest prompt, of these the last; their tokens are kept, and they
    wait at the tail of the queue. The ratio becomes (tokens emitted + 20 for each) / (longest
    outputs + 1) over the requests that stay. It starts anew on an idle machine.

    No guarantee.

    The rules of SGLang 0.5.23, recorded decisions of which it reproduces step by step, with memory
    counted by ``MemoryRule(page_size, "next", "chunks")``; they stand in
    ``srt/managers/scheduler.py``, ``schedule_policy.py`` and ``schedule_batch.py``,
    ``srt/mem_cache/prefill_budget.py`` and
    ``scheduler_components/new_token_ratio_tracker.py``. Of its queues, ``fcfs`` and ``lof`` are the
    orders ``"fcfs"`` and ``"longest-output"``; ``lpm``, ``dfs-weight`` and ``hrrn`` look at shared
    prefixes, and no request shares one here, with which ``lpm`` is ``fcfs``. Left out: the overlap
    of scheduling with the device, by which the engine knows the results of a round one round late
    (recorded with ``--disable-overlap-schedule``); reuse of prefixes, of which the only one here is
    a retracted request's own prompt; retraction by priority. An empty machine admits the head of
    the queue whatever its longest output: the engine would cut that output.

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
        See `WaitingQueue`.
    ignore_eos : bool, default False
        Whether every request is known to reach its longest output: the ratio is 1 throughout.
    enable_mixed_chunk : bool, default False
        Whether the decoding requests advance in rounds of prompts too, where memory suffices for
        all of them; each takes a token of the batch and of the chunk. It needs
        ``chunked_prefill_size``.
    disable_radix_cache : bool, default False
        Whether the engine runs without its prefix cache. It matters with ``ignore_eos``: a request
        is then admitted if there will be room for it and all others until each has ended.
    """

    chunked_prefill_size: int | None = ranged(8192, minimum=1)
    max_prefill_tokens: int = ranged(16384, minimum=1)
    max_running_requests: int = ranged(2048, minimum=1)
    schedule_conservativeness: float = ranged(1.0, above=0)
    ignore_eos: bool = False
    enable_mixed_chunk: bool = False
    disable_radix_cache: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._mixes = self.enable_mixed_chunk and self.chunked_prefill_size is not None
        self._knows_ends = self.ignore_eos and self.disable_radix_cache
        # Floats, as in the engine.
        self._first_ratio = min(FIRST_RATIO * self.schedule_conservativeness, 1.0)
        self._least_ratio = self._first_ratio * LEAST_SHARE
        self._decay = (self._first_ratio - self._least_ratio) / DECAY_ROUNDS

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue.

        Raises
        ------
        InvalidValueError
            Prompts cut to less than a block, or prefill rounds.
        """
        super().reset(setup)
        chunk, block = self.chunked_prefill_size, self._rule.block_size
        if chunk is not None and chunk < block:
            reason = f"is below a block of {block} tokens: no prompt can be cut"
            raise InvalidValueError("policy", "chunked_prefill_size", chunk, reason)
        self._places = itertools.count()
        self._full = False
        self._chunked: int | None = None
        self._prefilled: list[int] = []
        # A request that decodes emits a token in every round of decodes, so that the count of these
        # rounds at which it has its longest output never changes.
        self._decodes = 0
        self._end_of: dict[int, int] = {}
        self._decoding = self._mixed = False
        self._round = 0
        self._idle_since: float | None = None
        self._set_ratio(self._first_ratio, 0)

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue; after idle time the ratio starts anew."""
        if self._idle_since is not None and state.time > self._idle_since:
            self._set_ratio(self._first_ratio, self._decodes)
        self._idle_since = None
        super().arrive(requests, state)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Take them out of the batch, which makes room in it."""
        for request in requests:
            if self._end_of.pop(request.index, None) is None:
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
        self._mixed = bool(batch) and self._mixes and self._decodes_fit(state, batch)
        self._decoding = not batch or self._mixed
        if batch:
            if self._mixed:
                # The ratio falls in rounds of decodes alone.
                self._set_ratio(self._ratio_now(), self._decodes + 1)
            started = [index for index in batch if index not in state.running]
            held = [] if self._mixed else [i for i in state.running if i not in batch]
            cut = {} if self._chunked is None else {self._chunked: batch[self._chunked]}
            return Decision(start=started, hold=held, prefill=cut, wake=now + 1)
        retracted = self._retract(state)
        again = retracted or (self._queue and not self._full)
        # A round in which nothing runs takes no time.
        takes_time = len(retracted) < len(state.running) or not self._is_timed
        return Decision(preempt=retracted, wake=now + takes_time if again else math.inf)

    def _count(self, now: int) -> None:
        """Count the rounds of decodes since the last time."""
        if self._decoding:
            self._decodes += now - self._round
        self._round = now

    def _join(self, state: State) -> None:
        """Let those whose prompts have just been processed decode."""
        if self._chunked is not None or not self._end_of or self._mixed:
            # A prompt in progress is taken out of its batch, which counts as one that leaves. A
            # batch that had decoded nothing, or decoded among prompts, is made anew.
            self._full = False
        joined = {}
        for index in self._prefilled:
            emitted = state.running[index].output_tokens
            joined[index] = self._decodes + self._longest(index) - emitted
        self._end_of = {**joined, **self._end_of} if self._mixed else {**self._end_of, **joined}
        self._prefilled, self._mixed = [], False

    def _place(self, index: int) -> int:
        return next(self._places)

    def _longest(self, index: int) -> int:
        # The engine leaves a block and a token of its memory free.
        request, block = self._requests[index], self._rule.block_size
        rounding = self._rule.held(request.prompt_length) - request.prompt_length
        return self._longest_output(request, self._limit - rounding - block - 1)

    def _set_ratio(self, ratio: float, decodes: int) -> None:
        self._ratio, self._ratio_since = ratio, decodes

    def _ratio_now(self) -> float:
        while self._ratio_since < self._decodes:
            self._ratio_since += 1
            self._ratio = max(self._ratio - self._decay, self._least_ratio)
            if self._ratio == self._least_ratio:
                self._ratio_since = self._decodes
        return self._ratio

    def _reserved(self) -> float:
        """Return the memory that admission leaves to the requests that decode."""
        ratio = 1.0 if self.ignore_eos else self._ratio_now()
        left = (max(end - self._decodes, 0) for end in self._end_of.values())
        return sum([min(tokens, LONGEST_ESTIMATE) * ratio for tokens in left])

    def _prompts(self, state: State) -> dict[int, int]:
        """Prompt tokens of the next round by index; empty where there is no such round."""
        if self._chunked is None and (self._full or not self._queue):
            return {}
        slots = self.max_running_requests - len(self._end_of)
        if self._chunked is None and slots <= 0:
            self._full = True
            return {}
        now, decoding = state.round_index, len(self._end_of) if self._mixes else 0
        available = self._limit
        available -= sum(self._memory(state.running[index], now) for index in self._end_of)
        most, chunk = self.max_prefill_tokens - decoding, math.inf
        if self.chunked_prefill_size is not None:
            chunk = self.chunked_prefill_size - decoding
        room = _Room(available, decoding + self._reserved(), decoding, most, chunk)
        batch: dict[int, int] = {}
        if self._chunked is not None:
            self._continue(self._chunked, state.running[self._chunked].prompt_left, room, batch)
        while self._queue and not room.is_used_up:
            if len(batch) >= slots:
                self._full = True
                break
            if not self._begin(room, batch):
                break
        return batch

    def _continue(self, index: int, left: int, room: _Room, batch: dict[int, int]) -> None:
        """Add the prompt in progress to a batch of prompts."""
        # The rest of its prompt may be held already, and is charged as it is processed.
        room.available -= self._rule.held(self._prompt(index) - left)
        chunk = int(room.chunk)
        fitting = min(chunk, int(room.free))
        # Nothing would be left of it beside many mixed decodes.
        batch[index] = tokens = min(left, max(1, fitting if fitting > 0 else chunk))
        longest = 0
        if tokens == left:
            longest = self._longest(index)
            self._prefilled.append(index)
            self._chunked = None
        room.take(self._rule.held(tokens), self._rule.block_size, longest)

    def _begin(self, room: _Room, batch: dict[int, int]) -> bool:
        """Add the head of the queue to a batch of prompts; False where nobody else joins it."""
        index, block = self._queue.head, self._rule.block_size
        longest, tokens = self._longest(index), self._prompt(index)
        paged = self._rule.held(tokens)
        if self._knows_ends:
            fits = self._fits_to_the_end(index, paged + block, room, batch)
        else:
            still = min(max(longest - self._kept.get(index, 0), 0), LONGEST_ESTIMATE)
            fits = tokens + still + block < room.free
        if not fits and (batch or self._end_of):
            self._full = True
            return False
        if self.chunked_prefill_size is None:
            if batch and paged >= room.most and not self._knows_ends:
                return False
        elif (tokens if self._knows_ends else paged) > room.chunk:
            tokens = int(room.chunk if self._knows_ends else room.chunk // block * block)
            if not tokens:
                return False
            self._chunked, longest = index, 0
        if self._chunked != index:
            self._prefilled.append(index)
        self._queue.pop()
        batch[index] = tokens
        room.take(self._rule.held(tokens), block, longest)
        if room.free <= 0:
            self._full = True
        return room.free > 0

    def _fits_to_the_end(self, index: int, needed: int, room: _Room, batch: dict[int, int]) -> bool:
        """Tell whether a request whose length is known fits until each of the others has ended."""

        def end_of(one: int) -> tuple[int, int]:
            longest = self._longest(one)
            left = longest - self._kept.get(one, 0)
            if one in self._end_of:
                left = self._end_of[one] - self._decodes
            return left, self._requests[one].prompt_length + longest - left

        free = room.available - room.taken
        if needed > min(free, room.free):
            return False
        if room.ends is None:
            ends = [end_of(one) for one in (index, *self._end_of, *batch)]
            room.ends = sorted((end for end in ends if end[0] > 0), key=lambda end: end[0])
        elif (end := end_of(index))[0] > 0:
            places = (i for i, (left, _) in enumerate(room.ends) if end[0] <= left)
            # The engine puts the longest before the last.
            room.ends.insert(next(places, max(len(room.ends) - 1, 0)), end)
        free -= needed
        for ended, (left, held) in enumerate(room.ends):
            running = len(room.ends) - ended
            if free - left * running <= running:
                return False
            free += held
        return True

    def _decodes_fit(self, state: State, batch: dict[int, int]) -> bool:
        """Tell whether all that decode can do so beside a batch of prompts."""
        after = sum(self._memory(state.running[i], state.round_index + 1) for i in self._end_of)
        for index, tokens in batch.items():
            stored = self._prompt(index)
            if self._rule.prompt_allocation == "chunks":
                running = state.running.get(index)
                stored = tokens + (stored - running.prompt_left if running else 0)
            if index in self._prefilled:
                stored += 1 - self._rule.unstored
            after += self._rule.held(stored)
        return bool(self._end_of) and after <= self._limit

    def _retract(self, state: State) -> list[int]:
        """Requests that give way so that the others can decode."""
        now = state.round_index
        batch = [state.running[index] for index in self._end_of]
        excess = sum(self._memory(one, now + 1) for one in batch) - self._limit
        if excess <= 0:
            return []
        stay = [(one.output_tokens, one) for one in batch]
        # The sort is stable: of equal requests the last of the batch goes first.
        stay.sort(key=lambda pair: (-pair[0], pair[1].request.prompt_length))
        retracted: list[int] = []
        while excess > 0 and len(stay) > 1:
            tokens, running = stay.pop()
            excess -= self._memory(running, now + 1)
            self._kept[running.request.index] = tokens
            retracted.append(running.request.index)
        self._end_of = {one.request.index: self._end_of[one.request.index] for _, one in stay}
        emitted = sum(tokens + RETRACT_ROUNDS for tokens, _ in stay)
        longest = sum(self._longest(index) for index in self._end_of)
        # The round in which a request is retracted does not let the ratio fall.
        self._set_ratio(min(1.0, emitted / (longest + 1)), self._decodes + 1)
        self._full = False
        return retracted
