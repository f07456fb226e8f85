"""Policies for outputs known by an interval only ([C25] Algorithms 1, 2, 5 and 6)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence

from instances import InvalidValueError
from instances.validation import as_number
from online.lookahead import LookaheadPrefixPolicy
from online.policy import (
    Decision,
    Policy,
    RunningRequest,
    Setup,
    State,
    VisibleRequest,
    register_policy,
)

SWITCH_RATIO = (3 - math.sqrt(5)) / 2
"""alpha*, where the bounds of [C25] Thm 5.1 and 5.2 meet: about 0.382."""


class _Reservations:
    """Tokens set aside for running requests."""

    def __init__(self) -> None:
        self.total = 0
        self._tokens: dict[int, int] = {}

    def add(self, index: int, tokens: int) -> None:
        self._tokens[index] = tokens
        self.total += tokens

    def drop(self, index: int) -> None:
        self.total -= self._tokens.pop(index, 0)


@register_policy("a-max")
class AMax(LookaheadPrefixPolicy):
    """A_max: every output is as long as its upper bound ([C25] Algorithm 1).

    As many requests as fit are started, drawn at random among those with the same bound. No
    eviction ever happens as long as the bounds hold.

    Guarantee: at most (1/alpha)(1 + 1/alpha)/2 times H-SF and at worst no less than
    (1/alpha)(1 + alpha^(-1/2))/2 as M grows, alpha = lower / upper, equal prompts, all at once
    ([C25] Thm 3.3, 3.4).

    What the paper leaves open: with unequal bounds the smallest go first, which is what makes the
    started set largest when prompts are equal; a request keeps the random place in the queue that
    it drew on arrival. The proof of Thm 3.4 lets every request hold s + upper from start to end,
    which ``fit="peaks"`` does; the look-ahead of Algorithm 1 (``"rounds"``) knows that requests
    started at different times do not peak together, and does better.

    Parameters
    ----------
    fit : ``"rounds"`` or ``"peaks"``.
    """

    randomized = True

    def __init__(self, fit: str = "rounds") -> None:
        if fit not in ("rounds", "peaks"):
            raise InvalidValueError("policy", "fit", fit, "is neither rounds nor peaks")
        self.fit = fit

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue and keep the random stream."""
        super().reset(setup)
        self._rng = setup.rng
        self._reserved = _Reservations()

    def on_started(self, request: VisibleRequest) -> None:
        """Reserve its peak."""
        self._reserved.add(request.index, sum(self._footprint(request)))

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Give the reservations back."""
        for request in requests:
            self._reserved.drop(request.index)
        super().complete(requests, state)

    def on_evicted(self, running: RunningRequest, now: int) -> None:
        """Give the reservation back: only where a bound did not hold."""
        self._reserved.drop(running.request.index)

    def _fits(self, base: int, rounds: int, start: int) -> bool:
        if self.fit == "peaks" and self._reserved.total + base + rounds > self._memory_limit:
            return False
        return super()._fits(base, rounds, start)

    def priority(self, request: VisibleRequest) -> tuple[int, float]:
        """Upper bound, ties at random."""
        return request.prediction.upper, float(self._rng.random())


@register_policy("a-min")
class AMin(LookaheadPrefixPolicy):
    """A_min: every output is as long as its lower bound, refined on eviction ([C25] Alg. 2, 5).

    Requests start in ascending order of the bound o~, ties at random, up to the first that does
    not fit under the look-ahead test with o~ for o. Before memory would overflow, running
    requests are evicted in ascending order of o~, ties at random, until the next round fits; an
    evicted request takes the tokens it had generated as its new o~. Upper bounds are never looked
    at. With a lower bound of its own for each request this is Algorithm 5.

    Guarantee: O(log(1/alpha)) times H-SF as M grows, equal prompts, all at once, proved for s = 0
    (the constant grows with s over the upper bound); no policy that does not know the outputs has a
    better asymptotic ratio ([C25] Thm 4.2, 4.3, Cor. 4.10; closed forms in `online.theory`).

    What the paper leaves open: a running request that has outlived o~ is assumed to finish in the
    next round; o~ never decreases, also when a request is evicted before reaching it; an evicted
    request may start again from the next round on; the random place in the queue is drawn each
    time a request joins it, ties between running requests at each eviction.

    ``overdue="reserve"`` is another rule, the one that the proof of Lemma 4.4 describes: a
    request that outlives o~ may only grow into memory that others like it give up. Newcomers are
    admitted first, each holding s + o~ from start to end, beside the overdue at their present
    size; then the overdue are evicted, smallest o~ first, until the next round fits beside what
    the others hold. Ties go by chances in proportion to log(1 + 1/z) for size z: then a request
    survives the growth from z to z + 1 with probability z/(z + 1), whatever the sizes beside it,
    and reaches length j with (s + o~)/(s + j), as Lemma 4.4 has it. An evicted request takes one
    token more than it had generated as o~, which must increase for the proof's periods to end.
    This rule meets the closed forms. Under Algorithm 2 as written the overdue grow into whatever
    completions free, before newcomers are considered, and on two-point outputs with a small lower
    bound the ratio passes the bound of [C25] Thm 5.1; where requests desynchronise, memory also
    serves more of them than the proof counts, and the ratio may be smaller.

    Cost per decision: that of the look-ahead, and O(log b) an eviction for b distinct bounds
    among the running requests; with ``"reserve"`` a decision every round while any is overdue.

    Parameters
    ----------
    overdue : what a request may do that outlives its bound: ``"grow"`` or ``"reserve"``.
    """

    randomized = True

    def __init__(self, overdue: str = "grow") -> None:
        if overdue not in ("grow", "reserve"):
            raise InvalidValueError("policy", "overdue", overdue, "is neither grow nor reserve")
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
        self._group_bounds: list[int] = []
        self._reserved = _Reservations()

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
            self._reserved.drop(request.index)
        super().complete(requests, state)
        for request in requests:
            del self._bounds[request.index]

    def on_started(self, request: VisibleRequest) -> None:
        """Become a candidate for eviction, or reserve the expected peak."""
        if self.overdue == "grow":
            self._join(request.index)
        else:
            self._reserved.add(request.index, sum(self._footprint(request)))

    def on_overdue(self, index: int) -> None:
        """Become a candidate for eviction."""
        if self.overdue == "reserve":
            self._reserved.drop(index)
            self._join(index)

    def eviction_order(self, state: State) -> Iterator[int]:
        """Smallest bound first, ties at random."""
        now = state.round_index
        while self._group_bounds:
            bound = self._group_bounds[0]
            group = self._groups[bound]
            if not group:
                del self._groups[heapq.heappop(self._group_bounds)]
                continue
            index = group[int(self._rng.integers(len(group)))]
            if self.overdue == "reserve":
                # Keep a draw with a chance that falls with size; none is smaller than s + o~.
                running = state.running[index]
                most = math.log1p(1 / (bound + running.request.prompt_length))
                if self._rng.random() * most >= math.log1p(1 / self._held(running, now)):
                    continue
            yield index

    def decide(self, state: State) -> Decision:
        """Evict, then start; under "reserve" newcomers come before the growth of the overdue."""
        if self.overdue == "grow":
            return super().decide(state)
        now = state.round_index
        self._forecast.advance(now)
        self._note_overdue(now)
        started = self._start(now)
        evicted: list[int] = []
        candidates = self.eviction_order(state)
        while self._overdue_next(now) + self._reserved.total > self._memory_limit:
            evicted.append(next(candidates))
            self._take_out(evicted[-1], state, now)
        return Decision(start=started, evict=evicted, wake=self._wake(now, bool(evicted)))

    def on_evicted(self, running: RunningRequest, now: int) -> None:
        """Refine the bound by the tokens generated."""
        index = running.request.index
        self._leave(index)
        generated = self._service.tokens_generated(running.rounds_run(now))
        # Not done after that many tokens, it is longer by at least one: the proof needs this.
        known = generated + 1 if self.overdue == "reserve" else generated
        self._bounds[index] = max(self._bounds[index], known)

    def _fits(self, base: int, rounds: int, start: int) -> bool:
        if self.overdue == "grow":
            return super()._fits(base, rounds, start)
        present = self._overdue_next(start) - len(self._overdue)
        return present + self._reserved.total + base + rounds <= self._memory_limit

    def _wake(self, now: int, evicted: bool) -> int | None:
        return super()._wake(now, evicted or (self.overdue == "reserve" and bool(self._overdue)))

    def _join(self, index: int) -> None:
        bound = self._bounds[index]
        group = self._groups.get(bound)
        if group is None:
            group = self._groups[bound] = []
            heapq.heappush(self._group_bounds, bound)
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


@register_policy("a-ell")
class APromote(LookaheadPrefixPolicy):
    """A_l: run every request for its lower bound, the unfinished again at the end ([C25] Alg. 6).

    First come, first served, each output taken for its lower bound. A request that has generated
    that many tokens and is not done is evicted, joins the end of the queue, and is from then on
    as long as its upper bound.

    Guarantee, where s = 0 and every output is either the lower or the upper bound, as M grows: at
    most 1 + alpha/(2 (1 - alpha)) times H-SF for alpha = lower / upper <= 1/2, and 1 + 2 alpha^2
    above ([C25] Thm 5.2). With prompts it may be exceeded: the ratio tends to 1 + 2 alpha on
    outputs that are all upper, as s grows. For other outputs it is feasible but nothing is known.

    What the paper leaves open: an evicted request may start again from the next round on, in the
    same round only when nothing else is left to run. Requests whose bounds coincide are never
    evicted.
    """

    def reset(self, setup: Setup) -> None:
        """Forget who was promoted."""
        super().reset(setup)
        self._promoted: set[int] = set()
        self._joined = 0

    def priority(self, request: VisibleRequest) -> int:
        """Order of joining the queue."""
        self._joined += 1
        return self._joined

    def expected_output(self, request: VisibleRequest) -> int:
        """Lower bound at first, upper bound after the promotion."""
        if request.index in self._promoted:
            return request.prediction.upper
        return request.prediction.lower

    def sent_back(self, state: State) -> Iterable[int]:
        """Those that outlived their lower bound."""
        found = [index for index in self._overdue if index not in self._promoted]
        back = []
        for index in sorted(found, key=lambda index: (self._starts[index], index)):
            prediction = self._requests[index].prediction
            self._promoted.add(index)
            if not prediction.is_exact:
                back.append(index)
        return back

    def memory_of_past(self) -> None:
        """Not told: the order of the queue, which changes with every eviction."""

    def _wake(self, now: int, evicted: bool) -> int | None:
        wake = super()._wake(now, evicted)
        end = self._forecast.next_end()
        return end if wake is None else wake if end is None else min(wake, end)


@register_policy("two-point-switch")
class TwoPointSwitch(Policy):
    """A_l where alpha < alpha* = (3 - sqrt 5)/2, A_min otherwise ([C25] Section 5.1).

    Guarantee, where s = 0 and every output is either the lower or the upper bound, as M grows: at
    most 1 + alpha/(2 (1 - alpha)) times H-SF below alpha*, (3 - alpha)/2 from there on: never more
    than (3 + sqrt 5)/4, about 1.309 ([C25] Thm 5.1, 5.2). With prompts it may be exceeded.

    What the paper leaves open: alpha is the smallest lower bound over the largest upper bound
    among the requests that arrive first, and the choice holds for the run.

    Parameters
    ----------
    threshold : the switch point, in [0, 1].
    """

    randomized = True

    def __init__(self, threshold: float = SWITCH_RATIO) -> None:
        self.threshold = as_number(threshold, "policy", "threshold", minimum=0, maximum=1)

    def reset(self, setup: Setup) -> None:
        """Wait for the first requests."""
        self._setup = setup
        self._chosen: LookaheadPrefixPolicy | None = None

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Choose on the first arrival, then pass on."""
        if self._chosen is None:
            lower = min(request.prediction.lower for request in requests)
            upper = max(request.prediction.upper for request in requests)
            self._chosen = APromote() if lower / upper < self.threshold else AMin()
            self._chosen.reset(self._setup)
        self._chosen.arrive(requests, state)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Pass on."""
        assert self._chosen is not None
        self._chosen.complete(requests, state)

    def decide(self, state: State) -> Decision:
        """Pass on."""
        assert self._chosen is not None
        return self._chosen.decide(state)
