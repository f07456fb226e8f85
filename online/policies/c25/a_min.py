"""A_min: outputs as long as their lower bounds, refined on eviction ([C25] Algorithms 2, 5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from instances.validation import as_choice
from online.policy_interface import (
    Decision,
    RunningRequest,
    Setup,
    State,
    VisibleRequest,
    register_policy,
)
from online.policy_interface.lookahead import PriorityPolicy


@register_policy("a-min")
class AMin(PriorityPolicy):
    """A_min: outputs as long as their lower bounds, refined on eviction ([C25] Algorithms 2, 5).

    Requests start in ascending order of the bound o~, ties at random, up to the first that does
    not fit under the look-ahead test with o~ for o. Before memory would overflow, running
    requests are evicted in ascending order of o~, ties at random, until the next round fits; an
    evicted request takes the tokens it had generated as its new o~. Upper bounds are never looked
    at. With a lower bound of its own for each request this is Algorithm 5.

    Guarantee: O(log(1/alpha)) times H-SF as M grows, equal prompts, all at once, proved for s = 0
    (the constant grows with s over the upper bound); no policy that does not know the outputs has a
    better asymptotic ratio ([C25] Theorems 4.2, 4.3, Corollary 4.10; closed forms in
    `online.theory`).

    What the paper leaves open: a running request that has outlived o~ is assumed to finish in the
    next round; o~ never decreases, also when a request is evicted before reaching it; an evicted
    request may start again from the next round on; the random place in the queue is drawn each
    time a request joins it, ties between running requests at each eviction.

    ``overdue="reserve"`` is another rule, the one that the proof of [C25] Lemma 4.4 describes: a
    request that outlives o~ may only grow into memory that others like it give up. Newcomers are
    admitted first, each holding s + o~ from start to end, beside the overdue at their present
    size; then the overdue are evicted, smallest o~ first, until the next round fits beside what
    the others hold. Ties go by chances in proportion to log(1 + 1/z) for size z: then a request
    survives the growth from z to z + 1 with probability z/(z + 1), whatever the sizes beside it,
    and reaches length j with (s + o~)/(s + j), as Lemma 4.4 has it. An evicted request takes one
    token more than it had generated as o~, which must increase for the proof's periods to end.
    This rule meets the closed forms. Under Algorithm 2 as written the overdue grow into whatever
    completions free, before newcomers are considered, and on two-point outputs with a small lower
    bound the ratio passes the bound of [C25] Theorem 5.1; where requests desynchronise, memory also
    serves more of them than the proof counts, and the ratio may be smaller.

    Cost per decision: that of the look-ahead, and O(b) an eviction for b distinct bounds
    among the running requests; with ``"reserve"`` a decision every round while any is overdue.

    Parameters
    ----------
    overdue : str, default "grow"
        What a request may do that outlives its bound: ``"grow"`` or ``"reserve"``.
    """

    randomized = True

    def __init__(self, overdue: str = "grow") -> None:
        as_choice(overdue, "policy", "overdue", ("grow", "reserve"))
        self.overdue = overdue

    def reset(self, setup: Setup) -> None:
        """Forget every refined bound."""
        super().reset(setup)
        self._rng = setup.rng
        self._bounds: dict[int, int] = {}
        # Running requests by bound, under "reserve" the overdue alone: lists for uniform draws,
        # places for removal by swapping.
        self._groups: dict[int, list[int]] = {}
        self._place: dict[int, int] = {}

    def priority(self, request: VisibleRequest) -> tuple[int, float]:
        """Lower bound as refined so far, ties at random."""
        bound = self._bounds.setdefault(request.index, request.prediction.lower)
        return bound, float(self._rng.random())

    def expected_output(self, request: VisibleRequest) -> int:
        """Lower bound as refined so far."""
        return self._bounds[request.index]

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Drop the requests' bounds."""
        for request in requests:
            self._leave(request.index)
        super().complete(requests, state)
        for request in requests:
            del self._bounds[request.index]

    def _count(self, index: int, base: int, rounds: int, start: int) -> None:
        super()._count(index, base, rounds, start)
        if self.overdue == "grow":
            # It may be evicted from now on.
            self._join(index)

    def eviction_order(self, state: State) -> Iterator[int]:
        """Smallest bound first, ties at random."""
        while self._groups:
            bound = min(self._groups)
            group = self._groups[bound]
            index = group[int(self._rng.integers(len(group)))]
            if self.overdue == "reserve":
                # Keep a draw with a chance that falls with size; none is smaller than s + o~.
                running = state.running[index]
                most = math.log1p(1 / (bound + running.request.prompt_length))
                if self._rng.random() * most >= math.log1p(1 / self._tokens.held(running)):
                    continue
            yield index

    def decide(self, state: State) -> Decision:
        """Evict, then start; under "reserve" newcomers come before the growth of the overdue."""
        if self.overdue == "grow":
            return super().decide(state)
        now = state.round_index
        self._forecast.advance(now)
        for index in self._note_overdue(now):
            self._join(index)
        started = self._start(now)
        evicted: list[int] = []
        candidates = self.eviction_order(state)
        while self._overdue_next(now) + self._reserved > self._memory_limit:
            evicted.append(next(candidates))
            self._take_out(evicted[-1], state, now)
        emptied = len(evicted) == len(state.running) and not started
        wake = math.inf if emptied and evicted else self._wake(now, bool(evicted))
        return Decision(start=started, evict=evicted, wake=wake)

    def on_evicted(self, running: RunningRequest, now: int) -> None:
        """Refine the bound by the tokens generated."""
        index = running.request.index
        self._leave(index)
        generated = running.output_tokens
        # Not done after that many tokens, it is longer by at least one: the proof needs this.
        known = generated + 1 if self.overdue == "reserve" else generated
        self._bounds[index] = max(self._bounds[index], known)

    def _fits(self, base: int, rounds: int, start: int) -> bool:
        if self.overdue == "grow":
            return super()._fits(base, rounds, start)
        present = self._overdue_next(start) - len(self._overdue)
        return present + self._reserved + base + rounds <= self._memory_limit

    def _wake(self, now: int, evicted: bool) -> float:
        return super()._wake(now, evicted or (self.overdue == "reserve" and bool(self._overdue)))

    def _join(self, index: int) -> None:
        group = self._groups.setdefault(self._bounds[index], [])
        self._place[index] = len(group)
        group.append(index)

    def _leave(self, index: int) -> None:
        if index not in self._place:
            return
        group = self._groups[self._bounds[index]]
        last = group.pop()
        place = self._place.pop(index)
        if last != index:
            group[place] = last
            self._place[last] = place
        if not group:
            del self._groups[self._bounds[index]]
