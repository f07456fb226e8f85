"""Prefix policies with the look-ahead test of [J25] Eq. (5): an order is all they need."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

from instances.memory import MemoryForecast

from .policy import Decision, Policy, RunningRequest, Setup, State, VisibleRequest


class LookaheadPrefixPolicy(Policy):
    """Start waiting requests in a fixed order up to the first that does not fit.

    A request fits if, were every running and started request to run to its predicted end, no
    later round held more than M; by [J25] it is enough to look at completion rounds. Output
    lengths enter as the upper end of their prediction, which is exact unless predictions are
    given. A request that outlives its prediction is assumed to finish in the next round, and if
    memory overflows because of it the latest started requests are evicted.

    Cost per decision: O(log k) a test and O(k) an insertion for k running requests, O(log w) a
    queue operation for w waiting ones.
    """

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue and an empty forecast."""
        self._service = setup.service_model
        self._queue: list[tuple[Any, int]] = []
        self._requests: dict[int, VisibleRequest] = {}
        self._forecast = MemoryForecast(setup.memory_limit)
        # Expected end of every running request, as the forecast counts it.
        self._expected_ends: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self._memory_limit = setup.memory_limit

    @abstractmethod
    def priority(self, request: VisibleRequest) -> Any:
        """Sort key: smallest first; ties go to the earlier appearance."""

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue the requests by priority."""
        for request in requests:
            self._requests[request.index] = request
            heapq.heappush(self._queue, (self.priority(request), request.index))

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Release what the forecast still counts of requests that ended early."""
        for request in requests:
            self._forget(request.index, state.round_index)
            del self._requests[request.index]

    def decide(self, state: State) -> Decision:
        """Start the largest prefix of the order that fits."""
        now = state.round_index
        self._forecast.advance(now)
        self._extend_overruns(state)
        evicted = self._relieve_overflow(state)
        started: list[int] = []
        while self._queue:
            request = self._requests[self._queue[0][1]]
            base, rounds = self._footprint(request)
            if not self._forecast.fits(base, rounds, now):
                break
            heapq.heappop(self._queue)
            started.append(request.index)
            self._count(request.index, base, rounds, now)
        return Decision(start=started, evict=evicted, wake=self._wake(now, evicted=evicted))

    def memory_of_past(self) -> Hashable:
        """Nothing beyond queue and batch."""
        return ()

    def _footprint(self, request: VisibleRequest) -> tuple[int, int]:
        # Nothing longer than M - s is admitted, whatever was predicted.
        longest = min(request.prediction.upper, self._memory_limit - request.prompt_length)
        return self._service.base(request.prompt_length), self._service.rounds(longest)

    def _count(self, index: int, base: int, rounds: int, start: int) -> None:
        self._forecast.add(start, base, rounds)
        self._starts[index] = start
        self._expected_ends[index] = start + rounds

    def _forget(self, index: int, now: int) -> None:
        start, end = self._starts.pop(index), self._expected_ends.pop(index)
        if end > now:
            base = self._service.base(self._requests[index].prompt_length)
            self._forecast.remove(start, base, end - start)

    def _extend_overruns(self, state: State) -> None:
        now = state.round_index
        if len(self._forecast) == len(state.running):
            return
        for index, running in state.running.items():
            if self._expected_ends[index] <= now:
                start = running.start_round
                base = self._service.base(running.request.prompt_length)
                self._count(index, base, now + 1 - start, start)

    def _relieve_overflow(self, state: State) -> list[int]:
        excess = state.next_round_memory - state.memory_limit
        evicted: list[int] = []
        if excess <= 0:
            return evicted
        now = state.round_index
        for index in reversed(list(state.running)):
            if excess <= 0:
                break
            excess -= self._held(state.running[index], now) + 1
            self._forget(index, now)
            evicted.append(index)
        return evicted

    def _held(self, running: RunningRequest, now: int) -> int:
        return self._service.base(running.request.prompt_length) + running.rounds_run(now)

    def _wake(self, now: int, *, evicted: list[int]) -> int | None:
        """When to be asked again if nothing happens before.

        The head of the queue may come to fit, because a later start holds less at each of the
        others' completions; and a completion that was expected may fail to come.
        """
        if evicted:
            return now + 1
        next_end = self._forecast.next_end()
        if not self._queue or next_end is None:
            return None
        fit = self._first_fit_of_head(now, next_end)
        return next_end if fit is None else fit

    def _first_fit_of_head(self, now: int, next_end: int) -> int | None:
        base, rounds = self._footprint(self._requests[self._queue[0][1]])
        return self._forecast.earliest_fit(base, rounds, now + 1, next_end - 1)
