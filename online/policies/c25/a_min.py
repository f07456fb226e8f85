"""A_min: plans outputs as long as their lower bounds, raised by evictions ([C25])."""

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
    """A_min: outputs planned by lower bounds, which evictions raise ([C25] Algorithms 2, 5).

    Each request has a lower bound o~ on its output length. At first o~ is the lower end of its
    prediction, which is an interval. Waiting requests start in ascending order of o~, ties at
    random, up to the first that fails the look-ahead test of memory. This test takes o~ for the
    output length. If memory would overflow in the next round, running requests are evicted in
    ascending order of o~, ties at random, until the round fits. The new o~ of an evicted request is
    the number of tokens that it had generated. Upper ends are never used. [C25] has this rule as
    Algorithm 2, and as Algorithm 5 if the lower ends differ between requests.

    Guarantee, with equal prompts and all requests at once, as memory grows: the total latency is
    O(log(1/alpha)) times that of H-SF, with alpha = (lower end) / (upper end). It is proved for
    empty prompts. For prompts of length s the constant grows with s / (upper end). No policy that
    does not know the output lengths has a better asymptotic ratio ([C25] Theorems 4.2, 4.3,
    Corollary 4.10; formulas in `online.theory`).

    The paper leaves some rules open. Here a running request that has generated o~ tokens and is not
    finished is planned to end in the next round. o~ never decreases, even if a request is evicted
    before it has generated o~ tokens. An evicted request may start again from the next round on.
    Ties between waiting requests are drawn each time a request joins the queue, ties between
    running requests at each eviction.

    ``overdue="reserve"`` is another rule, which is used in the proof of [C25] Lemma 4.4. A request
    is overdue if it has generated o~ tokens and is not finished. Under this rule overdue requests
    may grow only into memory that other overdue requests free. Waiting requests are admitted first.
    Each admitted request with a prompt of s tokens reserves s + o~ tokens from start to end, and
    overdue requests count with their present size. Then overdue requests are evicted, smallest o~
    first, until the next round fits together with the reservations. Ties are drawn with chances in
    proportion to log(1 + 1/z) for a request of z tokens. So a request survives its growth from z to
    z + 1 tokens with probability z/(z + 1), whatever the sizes of the others. It reaches j output
    tokens with probability (s + o~)/(s + j), as in Lemma 4.4. The new o~ of an evicted request is
    one more than the number of tokens that it had generated: o~ must increase, or the periods in
    the proof do not end.

    The rule ``"reserve"`` attains the formulas of [C25]. Under Algorithm 2 as written, overdue
    requests take the memory that completions free before waiting requests are considered. If
    outputs have two lengths and the shorter one is small, the ratio then exceeds the bound of [C25]
    Theorem 5.1. If requests start at different times, memory serves more requests than the proof
    counts, and the ratio may be smaller.

    Cost per decision: that of the look-ahead, and O(b) for each eviction, where b is the number of
    distinct bounds among the running requests. With ``"reserve"`` there is a decision in every
    round while any request is overdue.

    Parameters
    ----------
    overdue : str, default "grow"
        Memory into which a request may grow beyond its bound o~. ``"grow"``: all free memory.
        ``"reserve"``: only memory that other requests beyond their bounds free.
    """

    randomized = True

    def __init__(self, overdue: str = "grow") -> None:
        as_choice(overdue, "policy", "overdue", ("grow", "reserve"))
        self.overdue = overdue

    def reset(self, setup: Setup) -> None:
        """Prepare a new run. The bound o~ of a request is at first its predicted lower bound."""
        super().reset(setup)
        self._rng = setup.rng
        self._bounds: dict[int, int] = {}
        # _groups has, for each lower bound o~, a list of the requests that may be evicted. Under
        # "reserve" these are the overdue requests, else all running requests. _place has the
        # position of each request in its list. So a request can be removed from its list by a swap
        # with the last entry, and random draws from a list are fast.
        self._groups: dict[int, list[int]] = {}
        self._place: dict[int, int] = {}

    def priority(self, request: VisibleRequest) -> tuple[int, float]:
        """Return the current lower bound o~ of the output, tokens, and a random number for ties."""
        bound = self._bounds.setdefault(request.index, request.prediction.lower)
        return bound, float(self._rng.random())

    def expected_output(self, request: VisibleRequest) -> int:
        """Return the current lower bound o~ of the request's output, tokens."""
        return self._bounds[request.index]

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget the lower bounds o~ of finished requests."""
        for request in requests:
            self._leave(request.index)
        super().complete(requests, state)
        for request in requests:
            del self._bounds[request.index]

    def _count(self, index: int, base: int, rounds: int, start: int) -> None:
        super()._count(index, base, rounds, start)
        if self.overdue == "grow":
            # The request has just started. Under "grow" it may be evicted from now on.
            self._join(index)

    def eviction_order(self, state: State) -> Iterator[int]:
        """Yield running requests to evict: smallest lower bound o~ first, ties at random."""
        while self._groups:
            bound = min(self._groups)
            group = self._groups[bound]
            index = group[int(self._rng.integers(len(group)))]
            if self.overdue == "reserve":
                # Accept the drawn request with a probability in proportion to log(1 + 1/z) if it
                # holds z tokens. Overdue requests hold at least s + o~ tokens, so the largest value
                # is log(1 + 1/(s + o~)).
                running = state.running[index]
                most = math.log1p(1 / (bound + running.request.prompt_length))
                if self._rng.random() * most >= math.log1p(1 / self._tokens.held(running)):
                    continue
            yield index

    def decide(self, state: State) -> Decision:
        """Evict requests if memory would overflow, then start waiting requests.

        Under the rule ``"reserve"`` start waiting requests first, then evict overdue requests.
        """
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
        """Raise the lower bound o~ of an evicted request to the number of tokens it has generated.

        Under the rule ``"reserve"`` the new o~ is one more.
        """
        index = running.request.index
        self._leave(index)
        generated = running.output_tokens
        # A request that is not finished after ``generated`` tokens has at least one token to come,
        # so ``generated + 1`` is a lower bound too. "reserve" uses it, as its proof needs an
        # increase.
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
