"""Nested WAIT: output lengths show themselves segment by segment ([A25] Algorithm 2)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from instances import InvalidValueError
from instances.validation import as_integer
from online.policy_interface import Decision, Policy, Setup, State, VisibleRequest, register_policy
from online.policy_interface.token_count import TokenCount

Group = dict[int, None]


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
        self._ends = [as_integer(end, owner, "segment_ends", minimum=1) for end in ends]
        if len(ends) not in (len(given) - 1, len(given)):
            raise InvalidValueError(
                owner, "segment_ends", segment_ends, f"do not end {len(given)} segments"
            )
        for before, after in zip(self._ends, self._ends[1:], strict=False):
            if after <= before:
                raise InvalidValueError(owner, "segment_ends", segment_ends, "do not grow")

    def reset(self, setup: Setup) -> None:
        """Empty segments."""
        self.count = self._tokens = TokenCount(setup, holds=True)
        segments = len(self._thresholds)
        # Residents at the entry stage of each segment. The first stays empty: who waits for stage 0
        # is in the queue and holds nothing.
        self._boundary: list[Group] = [{} for _ in range(segments)]
        # The later stages of each segment, a group each, first stage first: all advance or none.
        # Nothing depends on the stage within the last segment, so there one group is enough.
        self._inside: list[deque[Group]] = []
        entry = 0
        for end in self._ends[: segments - 1]:
            self._inside.append(deque({} for _ in range(end - entry)))
            entry = end + 1
        self._inside.append(deque([{}]))
        self._group_of: dict[int, Group] = {}
        self._draining = False
        self._overflowed = False

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget them."""
        for request in requests:
            del self._group_of.pop(request.index)[request.index]

    def drain(self, state: State) -> bool:
        """Stop waiting for company."""
        self._draining = True
        return True

    def decide(self, state: State) -> Decision:
        """Choose segments, make room, let them advance."""
        depth = self._depth(state)
        if not depth:
            return Decision(hold=list(state.running), wake=math.inf)
        if self._overflowed and state.running:
            depth = max(depth, self._bring_forward(next(iter(state.running))))
        entering = [list(islice(self._boundary[k], self._thresholds[k])) for k in range(depth)]
        chosen = {index for group in entering for index in group}
        waiting = {i for boundary in self._boundary for i in boundary if i not in chosen}
        evict, start = self._make_room(state, waiting)
        self._overflowed = self._overflowed or bool(evict)
        for index in evict:
            del self._group_of.pop(index)[index]
        entering = [[i for i in group if i in self._group_of] for group in entering]
        entering[0] = start
        hold = [index for index in waiting if index in self._group_of]
        hold += [i for groups in self._inside[depth:] for group in groups for i in group]
        for k in reversed(range(depth)):
            self._advance(k, entering[k])
        advances = len(state.running) - len(evict) + len(start) > len(hold)
        return Decision(start, evict, hold, wake=state.round_index + 1 if advances else math.inf)

    def _depth(self, state: State) -> int:
        """k*: how many segments run."""
        if self._draining:
            return len(self._thresholds)
        depth = 0
        while depth < len(self._thresholds):
            present = len(self._boundary[depth]) if depth else len(state.waiting)
            if present < self._thresholds[depth]:
                break
            depth += 1
        return depth

    def _bring_forward(self, index: int) -> int:
        """Put a resident first at its boundary, if it is at one; returns its segment, from 1."""
        for k, boundary in enumerate(self._boundary):
            if index in boundary:
                rest = [other for other in boundary if other != index]
                boundary.clear()
                boundary.update(dict.fromkeys([index, *rest]))
                return k + 1
            if any(index in group for group in self._inside[k]):
                return k + 1
        raise AssertionError(f"request {index} runs but is in no segment")

    def _make_room(self, state: State, waiting: set[int]) -> tuple[list[int], list[int]]:
        """Whom to evict and whom to start; ``waiting`` are residents at a boundary, not chosen."""
        tokens = self._tokens
        planned = list(islice(state.waiting.values(), self._thresholds[0]))
        needs = [tokens.base(request.prompt_length) + 1 for request in planned]
        # All but those at a boundary reserve one token more than they hold.
        room = len(waiting) - tokens.excess(state)
        evict = tokens.last_admitted(state, sum(needs) - room, waiting, growth=0)
        room += sum(tokens.held(state.running[index]) for index in evict)
        if room < 0:
            others = state.running.keys() - waiting
            return evict + tokens.last_admitted(state, -room, others), []
        start: list[int] = []
        for request, needed in zip(planned, needs, strict=True):
            room -= needed
            if room < 0:
                break
            start.append(request.index)
        return evict, start

    def _advance(self, k: int, entering: list[int]) -> None:
        """Move segment k on by one stage."""
        boundary, inside = self._boundary[k], self._inside[k]
        for index in entering:
            boundary.pop(index, None)
        group = dict.fromkeys(entering)
        if k == len(self._thresholds) - 1:
            inside[0].update(group)
            self._group_of.update(dict.fromkeys(group, inside[0]))
            return
        inside.appendleft(group)
        self._group_of.update(dict.fromkeys(group, group))
        leaving = inside.pop()
        self._boundary[k + 1].update(leaving)
        self._group_of.update(dict.fromkeys(leaving, self._boundary[k + 1]))
