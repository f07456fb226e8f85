"""A policy that starts requests in order of deadline, for runs with a service level."""

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

    There is no guarantee. The rule is that of Liu and Layland (1973), which is optimal for one
    processor that preempts and is not overloaded. A request has two deadlines, for its first and
    for its last token, and counts with the earlier one. Ties go in order of appearance.

    A request is late if it would miss one of its deadlines even if it started now and advanced in
    every round. For this test its output length is the point of its prediction. In continuous time
    each of its rounds takes the time of a batch that has no other request.

    Late requests start after all others. In order of deadline they would be first, and would delay
    others without being on time themselves.
    """

    reads_deadlines = True

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue of waiting requests for a new run."""
        super().reset(setup)
        self._batch_time = setup.batch_time
        # _latest has, for each request, the latest start with which it meets its deadlines. It is
        # the deadline minus the time that the request needs in a batch without other requests.
        self._latest: dict[int, float] = {}
        self._time = 0.0

    def priority(self, request: VisibleRequest) -> tuple[bool, float]:
        """Return the sort key of a request: whether it is late, and the earlier of its deadlines.

        Requests with smaller keys start first, so late ones are last.
        """
        deadline = min(request.first_token_deadline, request.deadline)
        return self._latest[request.index] < self._time, deadline

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue requests by deadline, and compute the latest start with which each is on time."""
        self._time = state.time
        for request in requests:
            first, last = self._own_times(request)
            latest = min(request.first_token_deadline - first, request.deadline - last)
            self._latest[request.index] = latest
        super().arrive(requests, state)

    def decide(self, state: State) -> Decision:
        """Start waiting requests in order of deadline, up to the first that does not fit."""
        self._time = state.time
        return super().decide(state)

    def _head(self) -> VisibleRequest | None:
        """Return the next request to start, after moving late requests behind the others."""
        while (request := super()._head()) is not None:
            (was_late, *_), index = self._queue[0]
            key = self.priority(request)
            if was_late or not key[0]:
                break
            heapq.heapreplace(self._queue, (key, index))
        return request

    def _wake(self, now: int, evicted: bool) -> float:
        """Return the round of the next decision, at the latest when the next request becomes late.

        In continuous time this round is not known in advance. The next arrival or completion causes
        the next decision.
        """
        wake, head = super()._wake(now, evicted), self._head()
        if head is None or self._batch_time is not None:
            return wake
        latest = self._latest[head.index]
        return min(wake, math.floor(latest) + 1) if now <= latest < math.inf else wake

    def _own_times(self, request: VisibleRequest) -> tuple[float, float]:
        """Return the times from start to first and to last token, in rounds or seconds.

        The request is assumed to be alone in the batch and to have its predicted output length.
        """
        rounds, prompt = self._tokens.rounds(request.prediction.point), request.prompt_length
        if self._batch_time is None:
            return self._tokens.prefill_rounds + 1, rounds
        alone = BatchStretch(rounds, 1, prompt, 1, prompt + 1, 1, new_squares=prompt * prompt)
        ends = np.cumsum(self._batch_time.durations(alone))
        return float(ends[self._tokens.prefill_rounds]), float(ends[-1])
