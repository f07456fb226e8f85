"""Nested WAIT: output lengths show themselves segment by segment ([A25] Algorithm 2)."""

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

    Segment 1 has the stages 0 .. e_1, segment k the stages e_{k-1} + 1 .. e_k. When the machine is
    free, let k* be the largest k such that every segment up to k has at least n_i prompts at its
    first stage; with none, wait. In segments 1 .. k* at most n_k prompts of every stage advance by
    one iteration; the others pause and keep their KV cache. Output lengths are never looked at: a
    prompt that ends leaves, the rest reach the next boundary. `online.fluid.NestedPlan` has the
    conditions on thresholds and the memory that makes overflow improbable ([A25] Theorem 2).

    Left open by the paper, and chosen:

    - Prompts may have any lengths; the last segment has no end.
    - A resident reserves what its next stage needs, l + s; one that waits at the boundary of a
      segment for its turn only what it holds, l + s - 1, as in [A25] Equation (14).
    - Overflow: prompts that wait at a boundary and are not part of the batch are evicted, the
      last to be admitted first. If that is not enough, no prefills are started that do not fit, and
      where the residents alone do not fit, those admitted last are evicted. Evicted prompts queue
      as newly arrived. From the first eviction on, the batch reaches to the segment of the resident
      that was admitted first, and takes it along: else prompts could be evicted for ever.
    - Prompts left below the thresholds when nothing more will arrive are served without waiting
      for company, in the same batches otherwise (`Run.drain_round`).

    Parameters
    ----------
    thresholds : Sequence[int] or int, default 1
        n_1, .., n_m: prompts a stage.
    segment_ends : Sequence[int] or int, optional
        e_1 < .. < e_m: the decode length with which each segment ends; the last is for the record
        only and may be left out.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        Numbers that are not whole and >= 1, ends that do not grow, numbers of thresholds and ends
        that do not match.
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
            reason = f"do not end {len(given)} segments"
            raise InvalidValueError(owner, "segment_ends", segment_ends, reason)

    def reset(self, setup: Setup) -> None:
        """Forget overflows."""
        self.count = self._tokens = TokenCount(setup, holds=True)
        self._draining = self._overflowed = False

    def drain(self, state: State) -> bool:
        """Stop waiting for company."""
        self._draining = True
        return True

    def decide(self, state: State) -> Decision:
        """Choose segments, make room, let them advance."""
        segments = len(self._thresholds)
        # Residents in order of admission, in which they also come to each boundary.
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
        # Those at a boundary that are not part of the batch.
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
        """Whom to evict and whom to start, where ``left`` hold only what they have."""
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
