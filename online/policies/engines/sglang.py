"""The scheduler of SGLang: prompts first, admitted by an estimate of the memory for outputs."""

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
"""Number of decode rounds in which the reserved share of future outputs falls from 0.7 to 0.098."""

RETRACT_ROUNDS = 20
"""After a preemption the reserved share is computed as if requests had emitted 20 more tokens."""

LONGEST_ESTIMATE = 4096
"""Largest number of future output tokens of a request for which admission reserves memory."""


@dataclass
class _Room:
    """Memory and prompt tokens that are left while the prompts of a round are chosen.

    All numbers are tokens. ``available`` is the memory not held by decoding requests. ``reserved``
    is the part of ``available`` reserved for the chosen prompts and for future outputs. ``taken``
    is the part of ``reserved`` for the chosen prompts. ``most`` and ``chunk`` are what is left of
    the limits ``max_prefill_tokens`` and ``chunked_prefill_size``. ``ends`` has, for each request,
    the output tokens that it may still emit and the tokens that it holds.
    """

    available: int
    reserved: float
    taken: int
    most: int
    chunk: float
    ends: list[tuple[int, int]] | None = None

    @property
    def free(self) -> float:
        """Memory, in tokens, that is neither held nor reserved: admission may still use it."""
        return self.available - self.reserved

    @property
    def is_used_up(self) -> bool:
        """Whether a limit on the prompt tokens of the round is reached, but memory is left."""
        return self.free > 0 and min(self.most, self.chunk) <= 0

    def take(self, tokens: int, block: int, longest: int) -> None:
        """Reserve memory for a prompt and its output, and count the prompt in the limits.

        ``tokens`` is the length of the prompt in whole blocks, ``longest`` the longest output, and
        ``block`` the size of a block. One more block is reserved.
        """
        self.taken += tokens + block
        self.reserved += tokens + block + min(longest, LONGEST_ESTIMATE)
        self.most -= tokens
        self.chunk -= tokens


@register_policy("sglang")
@dataclass(eq=False, repr=False, kw_only=True)
class SGLang(ReservingPolicy):
    """SGLang's scheduler: prompts first; admission reserves a share of the output still to come.

    A round processes prompts if a request waits and the batch is not marked full (see below). The
    prompt that was cut in the last round comes first, then waiting requests in the order of the
    queue. Three conditions must hold for a waiting request:

    - fewer than ``max_running_requests`` requests run;
    - the prompts of the round sum to less than ``max_prefill_tokens``;
    - its prompt, its longest output and one block need less than the free memory.

    Free memory is the memory that no request holds, less the prompts of this round, less a
    reservation for each decoding request. The reservation is a ratio times the number of tokens
    that the request may still emit, of which at most 4,096 count. ``chunked_prefill_size`` limits
    the prompt tokens of a round. A prompt that exceeds the rest of this limit is cut there, in
    whole blocks, and continued in the next round. Decoding requests are held in a round of prompts
    unless ``enable_mixed_chunk`` is set. A request that does not fit marks the batch full until a
    request leaves the batch. If no request had decoded before, the mark is removed after one round:
    the outputs of the admitted requests were counted in full before, and then count by the ratio.

    If no prompts are processed, all requests decode. The ratio falls with each such round, from 0.7
    to 0.098 after 600 rounds. If memory does not suffice, requests are retracted: they keep their
    tokens and go to the end of the queue. Requests with the fewest output tokens are retracted
    first. Of these the request with the longest prompt is first, and of equal prompts the last one
    of the batch. Then the ratio becomes (sum of (emitted tokens + 20)) / (sum of longest outputs +
    1), with sums over the requests that stay. After idle time the ratio is 0.7 again.

    No guarantee is known.

    The rules are those of SGLang 0.5.23, in its files ``srt/managers/scheduler.py``,
    ``schedule_policy.py`` and ``schedule_batch.py``, ``srt/mem_cache/prefill_budget.py`` and
    ``scheduler_components/new_token_ratio_tracker.py``. With memory counted by
    ``MemoryRule(page_size, "next", "chunks")``, this policy reproduces recorded decisions of the
    engine step by step. The engine's queues ``fcfs`` and ``lof`` are the orders ``"fcfs"`` and
    ``"longest-output"``. Its queues ``lpm``, ``dfs-weight`` and ``hrrn`` depend on prefixes that
    requests share. Here requests share no prefixes, so ``lpm`` equals ``fcfs``.

    Three parts of the engine are left out. The first is the overlap of scheduling with the device,
    by which the engine knows the results of a round one round late (the recorded runs used
    ``--disable-overlap-schedule``). The second is the reuse of prefixes. Here only a retracted
    request could reuse one: its own prompt. The third is retraction by priority. On an empty
    machine the first request of the queue is admitted whatever its longest output is. The engine
    would cut this output.

    Parameters
    ----------
    chunked_prefill_size : int or None, default 8192
        Largest number of prompt tokens that a round processes. None never cuts a prompt. The
        engine's default depends on the device: 2,048 to 16,384.
    max_prefill_tokens : int, default 16384
        Prompt tokens after which no further request joins a round of prompts.
    max_running_requests : int, default 2048
        Largest number of requests in the batch.
    schedule_conservativeness : float, default 1.0
        Factor by which the first ratio, 0.7, is multiplied. The product is at most 1.
    max_new_tokens : int or None, default None
        Longest output of every request; see `ReservingPolicy`.
    order : str, default "fcfs"
        Order of the waiting queue, a name of `ORDERS`.
    ageing : float, default 0.0
        Amount by which a request's sort key falls per unit of waiting time; see `WaitingQueue`.
    ignore_eos : bool, default False
        Whether every request reaches its longest output. The ratio is then always 1.
    enable_mixed_chunk : bool, default False
        Whether decoding requests advance in rounds of prompts too, if memory suffices for all of
        them. Each of them counts as one token in both limits on prompt tokens. The parameter has an
        effect only if ``chunked_prefill_size`` is not None.
    disable_radix_cache : bool, default False
        Whether the engine runs without its prefix cache. This has an effect only with
        ``ignore_eos``: a request is then admitted if memory suffices until every request has ended.
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
        # Share of future outputs for which memory is reserved: its first value, least value, and
        # fall per decode round. They are floats because the engine computes in floats.
        self._first_ratio = min(FIRST_RATIO * self.schedule_conservativeness, 1.0)
        self._least_ratio = self._first_ratio * LEAST_SHARE
        self._decay = (self._first_ratio - self._least_ratio) / DECAY_ROUNDS

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue, and set the reserved share of future outputs to its first value.

        Raises
        ------
        InvalidValueError
            ``chunked_prefill_size`` is less than a block, or the run has prefill rounds.
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
        # _decodes counts decode rounds. _end_of has, for each decoding request, the value of this
        # count at which the request reaches its longest output. That value does not change, since
        # each decode round emits one token for each decoding request.
        self._decodes = 0
        self._end_of: dict[int, int] = {}
        self._decoding = self._mixed = False
        self._round = 0
        self._idle_since: float | None = None
        self._set_ratio(self._first_ratio, 0)

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue requests. If the machine was idle, reset the reserved share of future outputs."""
        if self._idle_since is not None and state.time > self._idle_since:
            self._set_ratio(self._first_ratio, self._decodes)
        self._idle_since = None
        super().arrive(requests, state)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Remove finished requests. The batch is then no longer marked full: requests may join."""
        for request in requests:
            if self._end_of.pop(request.index, None) is None:
                self._prefilled.remove(request.index)
        self._full = False
        super().complete(requests, state)
        self._count(state.round_index)
        if not state.running and not self._queue:
            self._idle_since, self._decoding = state.time, False

    def decide(self, state: State) -> Decision:
        """Run a round of prompts if any can be admitted, else a round of decodes."""
        now = state.round_index
        self._count(now)
        self._join(state)
        batch = self._prompts(state)
        self._mixed = bool(batch) and self._mixes and self._decodes_fit(state, batch)
        self._decoding = not batch or self._mixed
        if batch:
            if self._mixed:
                # This round also processes prompts. The reserved share of future outputs falls only
                # in rounds of decodes, so it stays.
                self._set_ratio(self._ratio_now(), self._decodes + 1)
            started = [index for index in batch if index not in state.running]
            held = [] if self._mixed else [i for i in state.running if i not in batch]
            cut = {} if self._chunked is None else {self._chunked: batch[self._chunked]}
            return Decision(start=started, hold=held, prefill=cut, wake=now + 1)
        retracted = self._retract(state)
        again = retracted or (self._queue and not self._full)
        # In continuous time a round without running requests takes no time.
        takes_time = len(retracted) < len(state.running) or not self._is_timed
        return Decision(preempt=retracted, wake=now + takes_time if again else math.inf)

    def _count(self, now: int) -> None:
        """Add the decode rounds since the last decision to their count ``_decodes``."""
        if self._decoding:
            self._decodes += now - self._round
        self._round = now

    def _join(self, state: State) -> None:
        """Count requests whose prompts the last round finished among the decoding requests."""
        if self._chunked is not None or not self._end_of or self._mixed:
            # The mark that the batch is full is removed in three cases. After a round with a cut
            # prompt, the engine counts this prompt as a request that left the batch. If no request
            # decoded before the round, or its decodes were mixed with prompts, the engine builds a
            # new batch.
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
        # The longest output must fit into memory with the prompt, while one block and one token
        # stay free, as in the engine.
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
        """Return the memory, in tokens, reserved for future outputs of the decoding requests."""
        ratio = 1.0 if self.ignore_eos else self._ratio_now()
        left = (max(end - self._decodes, 0) for end in self._end_of.values())
        return sum([min(tokens, LONGEST_ESTIMATE) * ratio for tokens in left])

    def _prompts(self, state: State) -> dict[int, int]:
        """Return how many prompt tokens of each request the next round processes.

        The result is empty if the next round should be a round of decodes.
        """
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
        """Add the next part of the prompt that was cut in the last round to ``batch``.

        ``left`` is the number of its tokens not yet processed. ``batch`` has the prompt tokens of
        the next round by request. ``room`` has the memory and the prompt tokens still allowed.
        """
        # Only the processed part of the prompt counts as held memory here. Memory for its rest is
        # reserved when the rest is processed, even if the memory rule counts the whole prompt.
        room.available -= self._rule.held(self._prompt(index) - left)
        chunk = int(room.chunk)
        fitting = min(chunk, int(room.free))
        # Process at least one token, since decodes in the same round may use up the limit on prompt
        # tokens.
        batch[index] = tokens = min(left, max(1, fitting if fitting > 0 else chunk))
        longest = 0
        if tokens == left:
            longest = self._longest(index)
            self._prefilled.append(index)
            self._chunked = None
        room.take(self._rule.held(tokens), self._rule.block_size, longest)

    def _begin(self, room: _Room, batch: dict[int, int]) -> bool:
        """Add the prompt of the first waiting request to ``batch``, if it fits.

        Return whether another request may follow. ``batch`` has the prompt tokens of the next round
        by request. ``room`` has the memory and the prompt tokens still allowed.
        """
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
        """Return whether memory suffices until request ``index`` and all others have ended.

        Every request is assumed to reach its longest output. The others decode, or have their
        prompts in ``batch``. ``needed`` is the memory for the prompt of the request, in tokens.
        """

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
            # The entries of ``room.ends`` (remaining output, tokens held) are sorted by remaining
            # output. But an entry longer than all others is put before the last one, as in the
            # engine.
            room.ends.insert(next(places, max(len(room.ends) - 1, 0)), end)
        free -= needed
        for ended, (left, held) in enumerate(room.ends):
            running = len(room.ends) - ended
            if free - left * running <= running:
                return False
            free += held
        return True

    def _decodes_fit(self, state: State, batch: dict[int, int]) -> bool:
        """Return whether the decoding requests, if any, can all advance in a round of prompts.

        ``batch`` has the prompt tokens of the round by request. Memory must suffice for the prompts
        and for a token of each decoding request. Without decoding requests the result is False.
        """
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
        """Return the requests to preempt so that memory suffices for the others to decode.

        If some are preempted, compute the reserved share of future outputs from those that stay.
        """
        now = state.round_index
        batch = [state.running[index] for index in self._end_of]
        excess = sum(self._memory(one, now + 1) for one in batch) - self._limit
        if excess <= 0:
            return []
        stay = [(one.output_tokens, one) for one in batch]
        # Requests are retracted (preempted) from the end of this list: fewest output tokens first,
        # then the longest prompt. The sort is stable, so of equal requests the last of the batch is
        # retracted first.
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
        # Set the reserved share of future outputs. It begins to fall one decode round later.
        self._set_ratio(min(1.0, emitted / (longest + 1)), self._decodes + 1)
        self._full = False
        return retracted
