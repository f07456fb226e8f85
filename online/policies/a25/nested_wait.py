"""Nested WAIT: batches of prompts at similar stages, for unknown output lengths ([A25])."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice

from instances import InvalidValueError
from instances.validation import as_integer
from online.policy_interface import Decision, Policy, Setup, State, register_policy
from online.policy_interface.token_count import TokenCount


@register_policy("nested-wait")
class NestedWait(Policy):
    """Threshold batching for unknown output lengths ([A25] Algorithm 2).

    A request (prompt) is at stage l after l iterations of work. Segment 1 has the stages 0 .. e_1,
    segment k the stages e_{k-1} + 1 .. e_k, and n_k is the threshold of segment k. When the machine
    is free, let k* be the largest k such that each segment i <= k has at least n_i prompts at its
    first stage. If there is no such k, the machine waits. In each segment k <= k* at most n_k
    prompts of every stage advance by one iteration. All other requests pause and keep their KV
    cache. Output lengths are never used: a request that ends leaves the batch, and the others
    continue to the next segment. `online.fluid.NestedPlan` has the conditions on the thresholds,
    and the memory with which overflow is improbable ([A25] Theorem 2).

    The paper leaves some rules open. They are chosen as follows:

    - Prompts may have any lengths, and the last segment has no end.
    - A running request at stage l with a prompt of s tokens reserves l + s tokens, which its next
      iteration needs. If the request waits at the first stage of a segment and does not advance,
      it reserves only the l + s - 1 tokens that it holds, as in [A25] Equation (14).
    - If memory would overflow, requests that wait at the first stage of a segment and do not
      advance are evicted, the last admitted first. If this is not enough, prompts that do not fit
      are not started. If the running requests alone do not fit, those admitted last are evicted.
      Evicted requests queue as if they had just arrived. After the first eviction, every batch
      includes the request admitted first and all segments up to its own. Otherwise requests could
      be evicted for ever.
    - If no more requests will arrive, the requests that are too few for the thresholds are served
      without waiting for more. The batches are formed in the same way otherwise
      (`Run.drain_round`).

    Parameters
    ----------
    thresholds : Sequence[int] or int, default 1
        n_1, .., n_m. Segment k advances only if at least n_k prompts are at its first stage, and at
        most n_k prompts of each of its stages advance at once.
    segment_ends : Sequence[int] or int, optional
        e_1 < .. < e_m: the last stage of each segment, in output tokens. e_m has no effect and may
        be left out.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        Thresholds or ends are not whole numbers >= 1, ends do not increase, or the number of ends
        is neither the number of thresholds nor one less.
    """

    def __init__(
        self, thresholds: Sequence[int] | int = 1, segment_ends: Sequence[int] | int = ()
    ) -> None:
        owner = f"policy {self.name!r}"
        given = list(thresholds) if isinstance(thresholds, Iterable) else [thresholds]
        ends = list(segment_ends) if isinstance(segment_ends, Iterable) else [segment_ends]
        if not given:
            raise InvalidValueError(owner, "thresholds", thresholds, "is empty")
        self._thresholds = [as_integer(n, owner, "thresholds", minimum=1) for n in given]
        self._ends: list[int] = []
        for end in ends:
            least = self._ends[-1] + 1 if self._ends else 1
            self._ends.append(as_integer(end, owner, "segment_ends", minimum=least))
        if len(ends) not in (len(given) - 1, len(given)):
            reason = f"are not the ends of {len(given)} segments"
            raise InvalidValueError(owner, "segment_ends", segment_ends, reason)

    def reset(self, setup: Setup) -> None:
        """Prepare a new run: memory has not overflowed yet, and more requests may arrive."""
        self.count = self._tokens = TokenCount(setup, holds=True)
        self._draining = self._overflowed = False

    def drain(self, state: State) -> bool:
        """Ignore the thresholds from now on, since no more requests will arrive."""
        self._draining = True
        return True

    def decide(self, state: State) -> Decision:
        """Choose the segments that advance, evict requests on overflow, start prompts.

        All other requests are held: they keep their memory and do not advance.
        """
        segments = len(self._thresholds)
        # ``boundary`` has, for each segment, the requests at its first stage in order of admission.
        # They reached this stage in the same order.
        segment_of: dict[int, int] = {}
        boundary: list[list[int]] = [[] for _ in range(segments)]
        for index, running in state.running.items():
            stage = running.rounds_run(state.round_index)
            k = segment_of[index] = bisect_left(self._ends, stage, hi=segments - 1)
            if k and stage == self._ends[k - 1] + 1:
                boundary[k].append(index)
        present = [len(state.waiting), *map(len, boundary[1:])]
        short = (k for k, number in enumerate(self._thresholds) if present[k] < number)
        depth = segments if self._draining else next(short, segments)
        if not depth:
            return Decision(hold=list(state.running), wake=math.inf)
        if self._overflowed and state.running:
            depth = max(depth, 1 + segment_of[next(iter(state.running))])
        # ``left`` has the requests at the first stage of a segment that do not advance in the next
        # round.
        left = {
            index
            for k, residents in enumerate(boundary)
            for index in residents[self._thresholds[k] if k < depth else 0 :]
        }
        evict, start = self._make_room(state, left)
        self._overflowed = self._overflowed or bool(evict)
        hold = [
            index
            for index, k in segment_of.items()
            if (k >= depth or index in left) and index not in evict
        ]
        advances = len(state.running) - len(evict) + len(start) > len(hold)
        return Decision(start, evict, hold, wake=state.round_index + 1 if advances else math.inf)

    def _make_room(self, state: State, left: set[int]) -> tuple[list[int], list[int]]:
        """Return (requests to evict, requests to start) so that memory suffices.

        ``left`` has the running requests at the first stage of a segment that do not advance in the
        next round, so their memory does not grow.
        """
        tokens = self._tokens
        planned = list(islice(state.waiting.values(), self._thresholds[0]))
        needs = [tokens.base(request.prompt_length) + 1 for request in planned]
        room = len(left) - tokens.excess(state)
        evict = tokens.last_admitted(state, sum(needs) - room, left, growth=0)
        room += sum(tokens.held(state.running[index]) for index in evict)
        if room < 0:
            others = state.running.keys() - left
            return evict + tokens.last_admitted(state, -room, others), []
        start: list[int] = []
        for request, needed in zip(planned, needs, strict=True):
            room -= needed
            if room < 0:
                break
            start.append(request.index)
        return evict, start
