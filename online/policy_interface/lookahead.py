"""Policies that are an order: the look-ahead test of [J25] Equation (5) says how many start."""

from __future__ import annotations

import heapq
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

from instances.problem.memory import MemoryForecast

from .policy import Decision, Policy, PolicyError, RunningRequest, Setup, State, VisibleRequest
from .token_count import TokenCount


class PriorityPolicy(Policy):
    """Start waiting requests in the order of `priority`, up to the first that does not fit.

    A subclass has to write `priority` alone. It sees a `VisibleRequest`: prompt length, arrival
    time and what is foretold of the output, never the hidden truth. Ties go to the request that
    appeared first: the earlier arrival, then the earlier place in the instance.

    A request fits if, were every running and started request to run to its expected end, no
    later round held more than M; by [J25] it is enough to look at completion rounds. Output
    lengths enter as the upper end of their prediction, which is exact unless predictions are
    given, and never as more than M - s, since no request longer than that exists. A request that
    outlives its expected end is assumed to finish in the next round, round after round; if
    memory overflows because of it, requests are evicted, the latest started first.

    What else a subclass may change: `expected_output` (what the look-ahead counts with),
    `eviction_order` (who goes first on overflow), `sent_back` (who is taken out whether or not
    memory overflows) and `on_evicted` (what is learnt from it).

    Cost per decision: O(log k) a test and O(k) an insertion for k running requests, O(log w) a
    queue operation for w waiting ones.

    Examples
    --------
    >>> import online
    >>> from instances import Instance
    >>> class LeastVolume(online.PriorityPolicy):
    ...     def priority(self, request):
    ...         return request.volume
    >>> instance = Instance.from_arrays([4, 1, 2], [2, 6, 3], memory_limit=8)
    >>> online.simulate(instance, LeastVolume).start_rounds.tolist()
    [0, 3, 2]
    """

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue and an empty forecast."""
        self.count = self._tokens = TokenCount(setup)
        self._memory_limit = self._tokens.limit
        self._queue: list[tuple[tuple[Any, ...], int]] = []
        self._requests: dict[int, VisibleRequest] = {}
        # Running requests that have not reached their expected end ...
        self._forecast = MemoryForecast(self._memory_limit)
        # First round, expected end, and tokens less the rounds run.
        self._spans: dict[int, tuple[int, int, int]] = {}
        self._due: list[tuple[int, int]] = []
        # Their peaks, as they are counted on.
        self._reserved = 0
        # ... and those that have: in round r they hold _overdue_base + len(_overdue) * r.
        self._overdue: set[int] = set()
        self._overdue_base = 0

    @abstractmethod
    def priority(self, request: VisibleRequest) -> Any:
        """Give a number, or a tuple of numbers: the request of the smallest starts first.

        It is asked whenever a request joins the queue: as it arrives, and as it comes back evicted.
        """

    def expected_output(self, request: VisibleRequest) -> int:
        """The output length the look-ahead counts with."""
        return request.prediction.upper

    def eviction_order(self, state: State) -> Iterable[int]:
        """Running requests in the order in which an overflow evicts them."""
        return reversed(list(state.running))

    def sent_back(self, state: State) -> Iterable[int]:
        """Running requests to evict before memory is looked at."""
        return ()

    def on_evicted(self, running: RunningRequest, now: int) -> None:
        """A running request is about to go back to the queue."""

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue the requests by priority.

        Raises
        ------
        PolicyError
            A priority is no number or tuple of numbers: NaN, or None where a method does not
            return.
        """
        for request in requests:
            self._requests[request.index] = request
            key = self.priority(request)
            numbers = key if isinstance(key, tuple) else (key,)
            if not all(isinstance(one, Real) and one == one for one in numbers):
                who = f"policy {self.name!r}, round {state.round_index + 1}"
                what = f"{request.id!r} is {key!r}, not a number or a tuple of numbers"
                raise PolicyError(f"{who}: the priority of request {what}")
            heapq.heappush(self._queue, (numbers, request.index))

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Release what the forecast still counts of requests that ended early."""
        for request in requests:
            self._forget(request.index, state.round_index)
            del self._requests[request.index]

    def decide(self, state: State) -> Decision:
        """Start the largest prefix of the order that fits."""
        now = state.round_index
        self._forecast.advance(now)
        self._note_overdue(now)
        evicted = self._evict(state)
        started = self._start(now)
        emptied = len(evicted) == len(state.running) and not started
        wake = math.inf if emptied and evicted else self._wake(now, bool(evicted))
        return Decision(start=started, evict=evicted, wake=wake)

    def _head(self) -> VisibleRequest | None:
        """The next request to start, or None when nothing waits."""
        return self._requests[self._queue[0][1]] if self._queue else None

    def _pop_head(self) -> None:
        heapq.heappop(self._queue)

    def _start(self, now: int) -> list[int]:
        started: list[int] = []
        while (request := self._head()) is not None:
            base, rounds = self._footprint(request)
            if not self._fits(base, rounds, now):
                break
            self._pop_head()
            started.append(request.index)
            self._count(request.index, base, rounds, now)
        return started

    def _footprint(self, request: VisibleRequest) -> tuple[int, int]:
        base = self._tokens.base(request.prompt_length)
        rounds = self._tokens.rounds(self.expected_output(request))
        return base, min(rounds, self._memory_limit - base)

    def _fits(self, base: int, rounds: int, start: int) -> bool:
        fits = self._forecast.fits(base, rounds, start)
        if not fits or not self._overdue:
            return fits
        # The overdue count in the first round only, being assumed to finish in it.
        present = self._overdue_next(start) + self._forecast.memory_at(start + 1)
        return present + base + 1 <= self._memory_limit

    def _overdue_next(self, start: int) -> int:
        """Return the tokens that overdue requests hold in the round after ``start``."""
        return self._overdue_base + len(self._overdue) * (start + 1)

    def _count(self, index: int, base: int, rounds: int, start: int) -> None:
        self._forecast.add(start, base, rounds)
        self._reserved += base + rounds
        self._spans[index] = start, start + rounds, base
        heapq.heappush(self._due, (start + rounds, index))

    def _forget(self, index: int, now: int) -> None:
        start, end, base = self._spans.pop(index)
        if index in self._overdue:
            self._overdue.remove(index)
            self._overdue_base -= base - start
            return
        self._reserved -= base + end - start
        if end > now:
            self._forecast.remove(start, base, end - start)

    def _note_overdue(self, now: int) -> list[int]:
        """Move what should have finished by now, and has not, from the forecast to the overdue."""
        late: list[int] = []
        while self._due and self._due[0][0] <= now:
            end, index = heapq.heappop(self._due)
            start, known, base = self._spans.get(index, (0, -1, 0))
            if known == end and index not in self._overdue:
                self._overdue.add(index)
                self._overdue_base += base - start
                self._reserved -= base + end - start
                late.append(index)
        return late

    def _evict(self, state: State) -> list[int]:
        now, excess = state.round_index, self._tokens.excess(state)
        evicted = {index: self._take_out(index, state, now) for index in self.sent_back(state)}
        excess -= sum(evicted.values())
        # Each is taken out before the next is asked for.
        order = iter(self.eviction_order(state))
        while excess > 0 and (index := next(order, None)) is not None:
            if index not in evicted:
                evicted[index] = self._take_out(index, state, now)
                excess -= evicted[index]
        return list(evicted)

    def _take_out(self, index: int, state: State, now: int) -> int:
        """Forget a running request; returns what it would have held in the next round."""
        running = state.running[index]
        self.on_evicted(running, now)
        self._forget(index, now)
        return self._tokens.held(running) + 1

    def _wake(self, now: int, evicted: bool) -> float:
        """Return the round at which to look again if nothing happens before.

        A later start holds less at each of the others' completions, so the head of the queue may
        come to fit; and at an expected end the forecast changes.
        """
        if evicted:
            return now + 1
        next_end = self._forecast.next_end()
        head = self._head()
        if head is None or next_end is None:
            return math.inf
        base, rounds = self._footprint(head)
        first = self._forecast.earliest_fit(base, rounds, now + 1, next_end - 1)
        # With overdue requests the first round only gets fuller, so a later fit is none either.
        if first is None or not self._fits(base, rounds, first):
            return next_end
        return first
