"""Order by deadline, for runs with a service level."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np

from instances.batch_time import BatchStretch
from online.policy_interface import Decision, Setup, State, VisibleRequest, register_policy
from online.policy_interface.lookahead import PriorityPolicy


@register_policy("edf")
class EarliestDeadlineFirst(PriorityPolicy):
    """Earliest deadline first, up to the first request that does not fit.

    No guarantee. The rule of Liu and Layland (1973), optimal on one machine that preempts and is
    not overloaded. The deadline is the earlier of those of the first and of the last token. Ties
    go in order of appearance.

    A request can be on time as long as a start now, and rounds of its own from then on, would bring
    out its first and its last token by their deadlines. Its output length is the point of its
    prediction; in seconds its own rounds are those of the batch time with nothing else in the
    batch.

    Requests that can no longer be on time go behind all that can. They have the earliest deadlines:
    in front they would make others late while they gain nothing.
    """

    reads_deadlines = True

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue."""
        super().reset(setup)
        self._batch_time = setup.batch_time
        # Latest start with which each request can be on time: its deadline less its own time.
        self._latest: dict[int, float] = {}
        self._time = 0.0

    def priority(self, request: VisibleRequest) -> tuple[bool, float]:
        """Whether it can no longer be on time, and its deadline."""
        deadline = min(request.first_token_deadline, request.deadline)
        return self._latest[request.index] < self._time, deadline

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue them."""
        self._time = state.time
        for request in requests:
            first, last = self._own_times(request)
            latest = min(request.first_token_deadline - first, request.deadline - last)
            self._latest[request.index] = latest
        super().arrive(requests, state)

    def decide(self, state: State) -> Decision:
        """Start the largest prefix of the order that fits."""
        self._time = state.time
        return super().decide(state)

    def _head(self) -> VisibleRequest | None:
        """Return the next request to start, after those that became late have gone behind."""
        while (request := super()._head()) is not None:
            (was_late, *_), index = self._queue[0]
            key = self.priority(request)
            if was_late or not key[0]:
                break
            heapq.heapreplace(self._queue, (key, index))
        return request

    def _wake(self, now: int, evicted: bool) -> float:
        """Return the round at which to look again, at the latest when the head becomes late.

        In seconds nobody knows which round that is: the next arrival or completion has to do.
        """
        wake, head = super()._wake(now, evicted), self._head()
        if head is None or self._batch_time is not None:
            return wake
        latest = self._latest[head.index]
        return min(wake, math.floor(latest) + 1) if now <= latest < math.inf else wake

    def _own_times(self, request: VisibleRequest) -> tuple[float, float]:
        """Time to the first and to the last token in a batch of its own."""
        rounds, prompt = self._tokens.rounds(request.prediction.point), request.prompt_length
        if self._batch_time is None:
            return self._tokens.prefill_rounds + 1, rounds
        alone = BatchStretch(rounds, 1, prompt, 1, prompt + 1, 1, new_squares=prompt * prompt)
        ends = np.cumsum(self._batch_time.durations(alone))
        return float(ends[self._tokens.prefill_rounds]), float(ends[-1])
