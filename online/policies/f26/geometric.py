"""Geometric slicing and batching: staggered pipelines whose slices grow ([F26] Algorithms 2, 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from instances.validation import as_number
from online.policy_interface import Decision, Policy, Setup, State, VisibleRequest, register_policy
from online.policy_interface.token_count import TokenCount

SLICING_FACTOR = (7 + math.sqrt(13)) / 6
"""Factor for which GSA's guarantee is least, 61.92 ([F26] Theorem 3.15)."""

BATCHING_FACTOR = 4 / 3
"""Factor for which GBA's guarantee is least, 32/3 ([F26] Theorem 4.1)."""


def pipeline_peak(parallel: int, slice_length: int, prompt_length: int) -> int:
    """Tokens that an endless staggered pipeline holds at most ([F26] Lemma 3.3).

    s k + (t k + t + k - gcd(t, k)) / 2 for slices of t rounds, of which k run at once.
    """
    sides = slice_length * parallel + slice_length + parallel
    return prompt_length * parallel + (sides - math.gcd(slice_length, parallel)) // 2


def most_parallel(slice_length: int, prompt_length: int, memory_limit: int) -> int:
    """Slices that can run at once in a staggered pipeline, at least 1 ([F26] Lemma 3.4)."""
    parallel = (2 * memory_limit - slice_length + 1) // (2 * prompt_length + slice_length + 1)
    while pipeline_peak(parallel + 1, slice_length, prompt_length) <= memory_limit:
        parallel += 1
    return max(1, parallel)


@register_policy("gsa")
class GeometricSlicing(Policy):
    """GSA: a slice of rounds for everyone, the unfinished again with a longer one.

    By [F26] Algorithm 2 all unfinished requests run in phases, for up to t rounds each, in a
    staggered pipeline ([F26] Algorithm 1): request i starts i t/k rounds, rounded down, after the
    first, for the largest k at which no round can hold more than M. What has not finished by the
    end of its slice is sent back, all progress lost. The slice of the next phase is ``factor``
    times as long; the last is M - s. Output lengths are never looked at.

    Guarantee: with equal prompts, all at once, at most 61.92 times the optimum, and 32 as M
    grows, with ``factor=2`` ([F26] Theorem 3.15; for other factors
    `online.theory.geometric_slicing_ratio`).

    What the paper leaves open: requests that arrive later wait for the phase that runs to end, and
    the shortest slice that anything waits for is next. With unequal prompts, s is the smallest of
    those that arrive first for the lengths of slices, and the largest in the pipeline for k. In a
    pipeline the order is that of appearance. Where a pipeline has nothing running, all that is
    left of it moves forward to the present round, and an empty one ends: nothing finishes later by
    that.

    Cost per decision: O(1) for each request started or sent back; O(n) for n waiting at a phase's
    begin.

    Parameters
    ----------
    factor : float, default SLICING_FACTOR
        Length of a phase's slices over that of the phase before, above 1.
    """

    def __init__(self, factor: float = SLICING_FACTOR) -> None:
        self.factor = as_number(factor, "policy", "factor", above=1)

    def reset(self, setup: Setup) -> None:
        """Forget all phases; the first arrivals decide on the lengths of slices."""
        self.count = self._tokens = TokenCount(setup)
        self._memory_limit = self._tokens.limit
        self._first_slice = 0.0
        self._phases: dict[int, int] = {}
        self._pipeline: list[VisibleRequest] = []
        self._slice = self._parallel = 1
        # Position in the pipeline of the next to start, and the round in which its first started.
        self._next = self._origin = 0

    def first_phase(self, request: VisibleRequest) -> int:
        """The phase in which a request that has arrived runs first: 0, whatever its output."""
        return 0

    def slice_length(self, phase: int) -> int:
        """Rounds that each request may run in a phase."""
        return math.floor(self._first_slice * self.factor**phase + 1e-9)

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue new requests for their first phase, and those sent back for their next."""
        if not self._first_slice:
            longest = max(self._memory_limit - self._base(request) for request in requests)
            phases = math.floor(math.log(longest, self.factor) + 1e-9)
            self._first_slice = longest / self.factor**phases
        for request in requests:
            known = self._phases.get(request.index)
            phase = self.first_phase(request) if known is None else known + 1
            self._phases[request.index] = phase

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget the phases of requests that are done."""
        for request in requests:
            del self._phases[request.index]

    def decide(self, state: State) -> Decision:
        """Send back those whose slice is over, and start those whose turn has come."""
        now = state.round_index
        evict: list[int] = []
        end = None
        for index, running in state.running.items():
            if running.rounds_run(now) < self._slice:
                end = running.start_round + self._slice
                break
            evict.append(index)
        if end is None and self._next == len(self._pipeline):
            if evict:
                # Nothing is left: the machine asks again at once, with these in the queue.
                return Decision(evict=evict, wake=math.inf)
            self._begin_phase(state)
        elif end is None:
            self._origin = now - self._offset(self._next)
        start: list[int] = []
        while self._next < len(self._pipeline) and self._origin + self._offset(self._next) <= now:
            start.append(self._pipeline[self._next].index)
            self._next += 1
        if start and end is None:
            end = now + self._slice
        if self._next < len(self._pipeline):
            turn = self._origin + self._offset(self._next)
            end = turn if end is None else min(end, turn)
        return Decision(start=start, evict=evict, wake=math.inf if end is None else end)

    def _begin_phase(self, state: State) -> None:
        phase = min(self._phases[index] for index in state.waiting)
        chosen = sorted(index for index in state.waiting if self._phases[index] == phase)
        self._pipeline = [state.waiting[index] for index in chosen]
        self._slice = self.slice_length(phase)
        longest = max(self._base(request) for request in self._pipeline)
        self._parallel = most_parallel(self._slice, longest, self._memory_limit)
        self._next, self._origin = 0, state.round_index

    def _offset(self, position: int) -> int:
        return position * self._slice // self._parallel

    def _base(self, request: VisibleRequest) -> int:
        return self._tokens.base(request.prompt_length)


@register_policy("gba")
class GeometricBatching(GeometricSlicing):
    """GBA: requests in classes of similar outputs, shortest first, each a staggered pipeline.

    The clairvoyant counterpart of `gsa` ([F26] Algorithm 3): a request runs in the first phase
    whose slice is as long as its output, so that nothing is sent back.

    Guarantee: with equal prompts, all at once, at most 32/3 times the optimum, and 6.75 as M
    grows, with ``factor=1.5`` ([F26] Theorem 4.1; for other factors
    `online.theory.geometric_batching_ratio`).

    What the paper leaves open is as for `gsa`. Under predictions that are not exact the upper end
    counts; what outlives its slice goes on to the next phase.

    Parameters
    ----------
    factor : float, default BATCHING_FACTOR
        Length of a phase's slices over that of the phase before, above 1.
    """

    def __init__(self, factor: float = BATCHING_FACTOR) -> None:
        super().__init__(factor)

    def first_phase(self, request: VisibleRequest) -> int:
        """The first phase whose slice is as long as the predicted output."""
        longest = self._memory_limit - self._base(request)
        rounds = min(self._tokens.rounds(request.prediction.upper), longest)
        phase = max(0, math.floor(math.log(rounds / self._first_slice, self.factor)))
        while self.slice_length(phase) < rounds:
            phase += 1
        return phase
