"""WAIT: a type of prompts is served when enough of them wait ([A25] Algorithm 1)."""

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

    A type j is a pair of prefill and decode lengths with a threshold n_j. A request (prompt) is at
    stage l after l iterations. When the machine is free, the policy chooses each type j of which at
    least n_j prompts wait for their prefill. Of a chosen type, at most n_j prompts of every stage
    advance by one iteration. The requests of the other types pause and keep their KV cache. If no
    type is chosen, the machine waits.

    Guarantee ([A25] Theorem 1): over a time T the throughput is within O(T^-1/2) of the fluid
    optimum if `WaitPlan.keeps_up` holds. If it holds strictly, the gap is O(1/T) and latency is
    bounded. `online.fluid.wait_thresholds` finds such thresholds.

    The paper leaves some rules open. They are chosen as follows:

    - A request belongs to the smallest type whose two lengths are at least its prompt length and
      its predicted output length. Types are ordered by their memory, summed over all stages. So a
      type may stand for a range of lengths. A request longer than all types belongs to the largest
      type, and the guarantee is then lost.
    - A running request at stage l with a prompt of s tokens reserves the l + s tokens of its next
      stage, even while it pauses and holds l + s - 1. The reservations never exceed M_pi = sum_j
      n_j S_j, where S_j is the memory of a type summed over its stages. If M_pi is at most the
      memory M, no overflow can occur. Otherwise prompts start in order of arrival while they fit.
      If the running requests alone do not fit, those admitted last are evicted and queue as if
      they had just arrived. After the first eviction, every batch includes the type of the running
      request admitted first. Otherwise requests of other types could evict each other for ever in
      the memory that a paused type leaves free.
    - If no more requests will arrive, the requests that are too few for the thresholds are served
      without waiting for more. The batches are formed in the same way otherwise
      (`Run.drain_round`).

    Parameters
    ----------
    thresholds : int or Mapping[Lengths, int], default 1
        n_j by the pair (prefill length, decode length) of the type, in tokens. A single number n
        makes all requests one type.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        There are no types, or some length or threshold is not a whole number >= 1.
    """

    def __init__(self, thresholds: int | Mapping[Lengths, int] = 1) -> None:
        self._types = _read(thresholds)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue for each type of requests."""
        self.count = self._tokens = TokenCount(setup, holds=True)
        # _queues has, for each type, the prompts that wait for their prefill, as {request index:
        # ticket}. Tickets number requests, new or evicted, in the order in which they join a queue.
        self._queues: list[dict[int, int]] = [{} for _ in self._types]
        self._type_of: dict[int, int] = {}
        self._tickets = count()
        self._draining = self._overflowed = False

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Append new and evicted requests to the queues of their types."""
        for request in requests:
            kind = self._type_of[request.index] = self._type(request)
            self._queues[kind][request.index] = next(self._tickets)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget the types of finished requests."""
        for request in requests:
            del self._type_of[request.index]

    def drain(self, state: State) -> bool:
        """Ignore the thresholds from now on, since no more requests will arrive."""
        self._draining = True
        return True

    def decide(self, state: State) -> Decision:
        """Choose the types that advance, evict requests on overflow, start prompts.

        Requests of all other types are held: they keep their memory and do not advance.
        """
        chosen = {
            kind
            for kind, (_, threshold) in enumerate(self._types)
            if self._draining or len(self._queues[kind]) >= threshold
        }
        if not chosen:
            return Decision(hold=list(state.running), wake=math.inf)
        if self._overflowed and state.running:
            chosen.add(self._type_of[next(iter(state.running))])
        # `TokenCount.excess` counts one more token for every running request, even if it is held.
        evict = self._tokens.last_admitted(state, self._tokens.excess(state))
        self._overflowed = self._overflowed or bool(evict)
        # No prompt starts in a round with evictions. It would be the request admitted last, and so
        # the first to be evicted.
        start = [] if evict else self._prefills(chosen, state)
        staying = [index for index in state.running if index not in evict]
        hold = [index for index in staying if self._type_of[index] not in chosen]
        advances = len(staying) + len(start) > len(hold)
        return Decision(start, evict, hold, wake=state.round_index + 1 if advances else math.inf)

    def _prefills(self, chosen: Iterable[int], state: State) -> list[int]:
        """Take prompts to start from the queues of the ``chosen`` types while they fit into memory.

        At most n_j prompts (the threshold) of a type j start at once, in order of arrival. Either
        all running requests of a type advance or none does. So no stage of a type ever has more
        than n_j prompts.
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
        """Return the index of the first type whose lengths are at least those of the request.

        Types are ordered by memory. If there is no such type, return the index of the last one.
        """
        for place, (lengths, _) in enumerate(self._types):
            if lengths is None or (
                request.prompt_length <= lengths[0] and request.prediction.upper <= lengths[1]
            ):
                return place
        return len(self._types) - 1


def _read(thresholds: Any) -> list[tuple[Lengths | None, int]]:
    """Read the parameter ``thresholds`` of `Wait`.

    Return (lengths, threshold) of each type, ordered by its memory summed over all stages.
    """
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
