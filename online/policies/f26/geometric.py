"""Geometric slicing and batching: each request runs for a slice of rounds in a phase ([F26]).

Slices grow by a constant factor from phase to phase.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from instances.validation import as_number
from online.policy_interface import Decision, Policy, Setup, State, VisibleRequest, register_policy
from online.policy_interface.token_count import TokenCount

SLICING_FACTOR = (7 + math.sqrt(13)) / 6
"""Growth factor of the slices of `gsa` whose proved ratio is least: 61.92 ([F26] Theorem 3.15)."""

BATCHING_FACTOR = 4 / 3
"""Growth factor of the slices of `gba` whose proved ratio is least: 32/3 ([F26] Theorem 4.1)."""


def pipeline_peak(parallel: int, slice_length: int, prompt_length: int) -> int:
    """Return the largest memory of an endless staggered pipeline, tokens ([F26] Lemma 3.3).

    In the pipeline k = ``parallel`` requests run at once, each for a slice of t = ``slice_length``
    rounds, and one starts every t/k rounds. With prompts of s tokens the largest memory is s k + (t
    k + t + k - gcd(t, k)) / 2.
    """
    sides = slice_length * parallel + slice_length + parallel
    return prompt_length * parallel + (sides - math.gcd(slice_length, parallel)) // 2


def most_parallel(slice_length: int, prompt_length: int, memory_limit: int) -> int:
    """Return how many requests can run at once in a staggered pipeline ([F26] Lemma 3.4).

    One request starts every t/k rounds and runs for a slice of t = ``slice_length`` rounds. The
    result is the largest k whose `pipeline_peak` is at most ``memory_limit`` tokens, at least 1.
    """
    parallel = (2 * memory_limit - slice_length + 1) // (2 * prompt_length + slice_length + 1)
    while pipeline_peak(parallel + 1, slice_length, prompt_length) <= memory_limit:
        parallel += 1
    return max(1, parallel)


@register_policy("gsa")
class GeometricSlicing(Policy):
    """GSA: every request runs for a slice of rounds. Unfinished ones run again for a longer slice.

    The rule is [F26] Algorithm 2. It has phases, each with a slice: a number t of rounds. In a
    phase all unfinished requests run for up to t rounds each, in a staggered pipeline ([F26]
    Algorithm 1): request i starts floor(i t/k) rounds after the first. k, the number of requests
    that run at once, is the largest for which no round can hold more than the memory M. A request
    that is not finished at the end of its slice is sent back to the queue and loses all progress.
    The slice of the next phase is ``factor`` times as long. The slice of the last phase is M - s,
    where s is the prompt length. Output lengths are never used.

    Guarantee, with equal prompts and all requests at once: the total latency is at most 61.92 times
    the optimum. With ``factor=2`` it is at most 32 times the optimum as M grows ([F26] Theorem
    3.15; for other factors `online.theory.geometric_slicing_ratio`).

    The paper leaves some rules open. Here requests that arrive later wait until the present phase
    ends. The next phase is the one with the shortest slice for which a request waits. With unequal
    prompts the slices are computed from the smallest s of the requests that arrive first, and k
    from the largest s in the pipeline. The requests of a pipeline start in order of appearance. If
    no request of a pipeline runs, the starts of those not yet started are moved forward, so that
    the first one starts now. If no request is left to start, the phase ends at once. These two
    rules make no completion later.

    Cost per decision: O(1) for each request started or sent back, and O(n) at the beginning of a
    phase with n waiting requests.

    Parameters
    ----------
    factor : float, default SLICING_FACTOR
        (Slice of a phase) / (slice of the phase before), above 1.
    """

    def __init__(self, factor: float = SLICING_FACTOR) -> None:
        self.factor = as_number(factor, "policy", "factor", above=1)

    def reset(self, setup: Setup) -> None:
        """Prepare a new run. The slices are computed when the first requests arrive."""
        self.count = self._tokens = TokenCount(setup)
        self._memory_limit = self._tokens.limit
        self._first_slice = 0.0
        self._phases: dict[int, int] = {}
        self._pipeline: list[VisibleRequest] = []
        self._slice = self._parallel = 1
        # _next is the position of the next request to start in the list _pipeline. _origin is the
        # round in which its first request starts: the request at position i starts floor(i t/k)
        # rounds later.
        self._next = self._origin = 0

    def first_phase(self, request: VisibleRequest) -> int:
        """Return the number of the phase in which a new request runs first: 0 for every request."""
        return 0

    def slice_length(self, phase: int) -> int:
        """Return the slice of a phase: the number of rounds that each request may run in it."""
        return math.floor(self._first_slice * self.factor**phase + 1e-9)

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Assign new requests to their first phase, and requests sent back to their next phase."""
        if not self._first_slice:
            longest = max(self._memory_limit - self._base(request) for request in requests)
            phases = math.floor(math.log(longest, self.factor) + 1e-9)
            self._first_slice = longest / self.factor**phases
        for request in requests:
            known = self._phases.get(request.index)
            phase = self.first_phase(request) if known is None else known + 1
            self._phases[request.index] = phase

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget the phases of finished requests."""
        for request in requests:
            del self._phases[request.index]

    def decide(self, state: State) -> Decision:
        """Send back requests whose slice is over, and start the next ones of the pipeline."""
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
                # No request runs any more. The simulator calls `decide` again in the same round,
                # when the evicted requests are in the queue.
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
    """GBA: classes of requests with similar outputs run one after the other, the shortest first.

    The rule is [F26] Algorithm 3. It has the same phases and pipelines as `gsa`, but output lengths
    are known. A request runs in the first phase whose slice has enough rounds for its output, so no
    request is sent back.

    Guarantee, with equal prompts and all requests at once: the total latency is at most 32/3 times
    the optimum. With ``factor=1.5`` it is at most 6.75 times the optimum as memory grows ([F26]
    Theorem 4.1; for other factors `online.theory.geometric_batching_ratio`).

    Rules that the paper leaves open are chosen as for `gsa`. If predictions are not exact, their
    upper ends count as output lengths. A request that is not finished at the end of its slice runs
    again in the next phase.

    Parameters
    ----------
    factor : float, default BATCHING_FACTOR
        (Slice of a phase) / (slice of the phase before), above 1.
    """

    def __init__(self, factor: float = BATCHING_FACTOR) -> None:
        super().__init__(factor)

    def first_phase(self, request: VisibleRequest) -> int:
        """Return the number of the first phase whose slice has enough rounds for the request.

        Its output is taken to be the upper end of its prediction.
        """
        longest = self._memory_limit - self._base(request)
        rounds = min(self._tokens.rounds(request.prediction.upper), longest)
        phase = max(0, math.floor(math.log(rounds / self._first_slice, self.factor)))
        while self.slice_length(phase) < rounds:
            phase += 1
        return phase
