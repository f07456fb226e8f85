"""WAIT: batches are formed once enough prompts of a type have gathered ([A25] Algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, islice
from typing import Any

from instances import InvalidTypeError, InvalidValueError
from instances.validation import as_integer
from online.policy_interface import Decision, Policy, Setup, State, VisibleRequest, register_policy
from online.policy_interface.token_count import TokenCount

Lengths = tuple[int, int]


@register_policy("wait")
class Wait(Policy):
    """Threshold batching for known output lengths ([A25] Algorithm 1).

    When the machine is free, the types with at least n_j prompts awaiting prefill are chosen; of
    each chosen type at most n_j prompts of every stage advance by one iteration. The other types
    pause and keep their KV cache. With no type chosen the machine waits. Throughput gap
    O(T^-1/2) where `WaitPlan.keeps_up`, O(1/T) and bounded latency where it does so strictly
    ([A25] Theorem 1); `online.fluid.wait_thresholds` finds such thresholds.

    Left open by the paper, and chosen:

    - A request belongs to the smallest type (by footprint) that is at least as long in prompt and
      in predicted output, so types may stand for ranges of lengths; where there is none, to the
      largest type, and nothing is promised.
    - A resident reserves what its next stage needs, l + s, even while it pauses and holds
      l + s - 1. What is reserved never exceeds M_pi = sum_j n_j S_j, so with M_pi <= M nothing
      below ever happens. Otherwise prefills that do not fit are not started, the last to
      arrive first; where the residents alone do not fit, those admitted last are evicted and
      queue again as newly arrived. From the first eviction on, the type of the resident that was
      admitted first is part of every batch: else the others could evict each other for ever in
      what a paused type leaves them.
    - Prompts left below the thresholds when nothing more will arrive are served without waiting for
      company, in the same batches otherwise (`Run.drain_round`).

    Parameters
    ----------
    thresholds : int or Mapping[Lengths, int], default 1
        n_j by (prefill length, decode length) of the type; or one n for all requests together as
        one type.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        No types, or lengths or thresholds that are not whole numbers >= 1.
    """

    def __init__(self, thresholds: int | Mapping[Lengths, int] = 1) -> None:
        self._types = _read(thresholds)

    def reset(self, setup: Setup) -> None:
        """Empty queues."""
        self.count = self._tokens = TokenCount(setup, holds=True)
        # By type: tickets of prompts awaiting prefill, by index, in order of arrival or return.
        self._queues: list[dict[int, int]] = [{} for _ in self._types]
        self._type_of: dict[int, int] = {}
        self._tickets = count()
        self._draining = self._overflowed = False

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue by type, evicted ones as if they were new."""
        for request in requests:
            kind = self._type_of[request.index] = self._type(request)
            self._queues[kind][request.index] = next(self._tickets)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget them."""
        for request in requests:
            del self._type_of[request.index]

    def drain(self, state: State) -> bool:
        """Stop waiting for company."""
        self._draining = True
        return True

    def decide(self, state: State) -> Decision:
        """Choose types, make room, let the chosen advance."""
        chosen = {
            kind
            for kind, (_, threshold) in enumerate(self._types)
            if self._draining or len(self._queues[kind]) >= threshold
        }
        if not chosen:
            return Decision(hold=list(state.running), wake=math.inf)
        if self._overflowed and state.running:
            chosen.add(self._type_of[next(iter(state.running))])
        # Every resident reserves one token more than it holds.
        evict = self._tokens.last_admitted(state, self._tokens.excess(state))
        self._overflowed = self._overflowed or bool(evict)
        # What was admitted last is evicted first, and prefills would be last of all.
        start = [] if evict else self._prefills(chosen, state)
        staying = [index for index in state.running if index not in evict]
        hold = [index for index in staying if self._type_of[index] not in chosen]
        advances = len(staying) + len(start) > len(hold)
        return Decision(start, evict, hold, wake=state.round_index + 1 if advances else math.inf)

    def _prefills(self, chosen: Iterable[int], state: State) -> list[int]:
        """Up to n_j prompts of each chosen type, in order of arrival as far as they fit.

        At most n_j of a type enter at once, and all its residents advance or none does: so no stage
        ever holds more.
        """
        candidates = sorted(
            (ticket, index)
            for kind in chosen
            for index, ticket in islice(self._queues[kind].items(), self._types[kind][1])
        )
        room, start = -self._tokens.excess(state), list[int]()
        for _, index in candidates:
            room -= self._tokens.base(state.waiting[index].prompt_length) + 1
            if room < 0:
                break
            start.append(index)
            del self._queues[self._type_of[index]][index]
        return start

    def _type(self, request: VisibleRequest) -> int:
        """The first type, from small to large, that the request does not exceed."""
        for place, (lengths, _) in enumerate(self._types):
            if lengths is None or (
                request.prompt_length <= lengths[0] and request.prediction.upper <= lengths[1]
            ):
                return place
        return len(self._types) - 1


def _read(thresholds: Any) -> list[tuple[Lengths | None, int]]:
    """Types from small to large footprint."""
    if not isinstance(thresholds, Mapping):
        number = as_integer(thresholds, "policy 'wait'", "thresholds", minimum=1)
        return [(None, number)]
    if not thresholds:
        raise InvalidValueError("policy 'wait'", "thresholds", {}, "is empty")
    types: list[tuple[int, Lengths, int]] = []
    for lengths, threshold in thresholds.items():
        if not isinstance(lengths, tuple) or len(lengths) != 2:
            raise InvalidTypeError(
                "policy 'wait'", "thresholds", lengths, "is not a pair (prefill, decode length)"
            )
        named = zip(
            ("prefill length", "decode length", "threshold"), (*lengths, threshold), strict=True
        )
        owner = f"policy 'wait', type {lengths!r}"
        prefill, decode, number = (as_integer(one, owner, name, minimum=1) for name, one in named)
        types.append(((decode + 1) * (2 * prefill + decode), (prefill, decode), number))
    return [(lengths, number) for _, lengths, number in sorted(types)]
