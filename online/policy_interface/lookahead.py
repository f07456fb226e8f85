"""Base class of policies that start waiting requests in some order, as many as fit into memory.

The look-ahead test of [J25] Equation (5) decides whether a request fits.
"""

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

    A subclass must define only `priority`. It gets a `VisibleRequest`: prompt length, arrival time
    and the prediction of the output, never the true output length. Ties go to the request that
    appeared first: the earlier arrival, then the earlier place in the instance.

    The look-ahead test says whether a request fits. Assume that all running requests, and the
    requests started now, run to their expected ends. Then no later round may hold more than M. It
    is enough to test the rounds in which requests complete ([J25]). The expected output length is
    the upper end of the prediction, which is the true length unless predictions are given. It
    counts as at most M - s, since no longer request exists. A request is overdue if it has reached
    its expected end and is not done. In every round the test then assumes that it finishes in the
    next one. If memory overflows because of it, requests are evicted, those started last first.

    A subclass may also change `expected_output` (the output length in the look-ahead),
    `eviction_order` (the order of evictions on overflow), `sent_back` (requests evicted even
    without overflow) and `on_evicted` (updates from an eviction). The package's own policies also
    override `_head` (the next request to start), `_fits` (the test), `_start` (all starts of a
    decision) and `_wake` (the round of the next decision).

    Cost per decision: O(log k) for each test and O(k) for each insertion with k running requests,
    and O(log w) for each queue operation with w waiting requests.

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
        """Prepare an empty queue and an empty forecast of the memory of running requests."""
        self.count = self._tokens = TokenCount(setup)
        self._memory_limit = self._tokens.limit
        self._queue: list[tuple[tuple[Any, ...], int]] = []
        self._requests: dict[int, VisibleRequest] = {}
        # Memory forecast of the running requests that have not reached their expected end.
        self._forecast = MemoryForecast(self._memory_limit)
        # For each running request: (start round, expected end round, tokens held at the start).
        self._spans: dict[int, tuple[int, int, int]] = {}
        self._due: list[tuple[int, int]] = []
        # Tokens that the requests in _forecast hold at their expected ends, summed over them.
        self._reserved = 0
        # Running requests past their expected end. Together they hold _overdue_base + len(_overdue)
        # * r tokens in round r.
        self._overdue: set[int] = set()
        self._overdue_base = 0

    @abstractmethod
    def priority(self, request: VisibleRequest) -> Any:
        """Return a number or a tuple of numbers; the request with the smallest starts first.

        The method is called each time a request joins the queue: on arrival and after an eviction.
        """

    def expected_output(self, request: VisibleRequest) -> int:
        """Return the output length of a request for the look-ahead test, tokens."""
        return request.prediction.upper

    def eviction_order(self, state: State) -> Iterable[int]:
        """Return running requests in the order in which an overflow evicts them."""
        return reversed(list(state.running))

    def sent_back(self, state: State) -> Iterable[int]:
        """Return running requests to evict in this decision even if memory does not overflow."""
        return ()

    def on_evicted(self, running: RunningRequest, now: int) -> None:
        """Update the policy's records for a running request that is about to be evicted."""

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue the requests by priority.

        Raises
        ------
        PolicyError
            A priority is not a number or a tuple of numbers: for instance NaN, or None from a
            method without a return.
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
        """Remove finished requests from the records and from the memory forecast."""
        for request in requests:
            self._forget(request.index, state.round_index)
            del self._requests[request.index]

    def decide(self, state: State) -> Decision:
        """Evict on overflow, then start in order of priority up to the first that does not fit."""
        now = state.round_index
        self._forecast.advance(now)
        self._note_overdue(now)
        evicted = self._evict(state)
        started = self._start(now)
        emptied = len(evicted) == len(state.running) and not started
        wake = math.inf if emptied and evicted else self._wake(now, bool(evicted))
        return Decision(start=started, evict=evicted, wake=wake)

    def _head(self) -> VisibleRequest | None:
        """Return the next request to start, or None if no request waits."""
        return self._requests[self._queue[0][1]] if self._queue else None

    def _pop_head(self) -> None:
        heapq.heappop(self._queue)

    def _start(self, now: int) -> list[int]:
        """Start requests from the head of the queue; return their indices.

        A policy that overrides this method removes each started request from the queue, and counts
        it with `_count`. A policy that also starts requests behind one that does not fit must
        override `_wake`, because another request than the head may fit first. A `_wake` that
        returns ``now + 1`` is always valid.
        """
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
        """Return the tokens that a request holds at its start, and its expected rounds."""
        base = self._tokens.base(request.prompt_length)
        rounds = self._tokens.rounds(self.expected_output(request))
        return base, min(rounds, self._memory_limit - base)

    def _fits(self, base: int, rounds: int, start: int) -> bool:
        """Return whether a request fits into memory if it starts after round ``start``.

        ``base`` and ``rounds`` are its `_footprint`: the tokens that it holds at its start, and the
        rounds that it is expected to run.
        """
        fits = self._forecast.fits(base, rounds, start)
        if not fits or not self._overdue:
            return fits
        # Overdue requests are assumed to finish in the next round, so they count only there.
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
        """Count requests that have reached their expected ends as overdue; return their indices."""
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
        # The order may depend on earlier evictions. So each request is removed before the iterator
        # yields the next one.
        order = iter(self.eviction_order(state))
        while excess > 0 and (index := next(order, None)) is not None:
            if index not in evicted:
                evicted[index] = self._take_out(index, state, now)
                excess -= evicted[index]
        return list(evicted)

    def _take_out(self, index: int, state: State, now: int) -> int:
        """Remove a running request from the records; return the tokens it would hold next round."""
        running = state.running[index]
        self.on_evicted(running, now)
        self._forget(index, now)
        return self._tokens.held(running) + 1

    def _wake(self, now: int, evicted: bool) -> float:
        """Return the round of the next decision if no request arrives or completes earlier.

        The first waiting request may fit later without an event: with a later start it holds fewer
        tokens when the running requests complete. At the next expected end of a request the
        forecast changes.
        """
        if evicted:
            return now + 1
        next_end = self._forecast.next_end()
        head = self._head()
        if head is None or next_end is None:
            return math.inf
        base, rounds = self._footprint(head)
        first = self._forecast.earliest_fit(base, rounds, now + 1, next_end - 1)
        # Overdue requests grow every round. If they prevent a start in round `first`, they prevent
        # every later start too.
        if first is None or not self._fits(base, rounds, first):
            return next_end
        return first
