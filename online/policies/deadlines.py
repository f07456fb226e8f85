"""Order by deadline, for runs with a service level."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from instances import InvalidValueError
from instances.batch_time import BatchStretch
from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import (
    Decision,
    Setup,
    State,
    VisibleRequest,
    register_policy,
)


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

    Parameters
    ----------
    late : {"last", "keep"}, default "last"
        Place of those that can no longer be on time: behind all that can, or by their deadlines.
        Late requests have the earliest deadlines: kept in front they make others late while
        they gain nothing, and under overload next to none is on time.
    """

    reads_deadlines = True

    def __init__(self, late: Literal["last", "keep"] = "last") -> None:
        if late not in ("last", "keep"):
            raise InvalidValueError("policy", "late", late, "is neither last nor keep")
        self.late = late

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue."""
        super().reset(setup)
        self._batch_time = setup.batch_time
        self._latest: dict[int, float] = {}
        self._time = 0.0

    def latest_start(self, request: VisibleRequest) -> float:
        """Latest start with which the request can be on time: its deadline less its own time."""
        first, last = self._own_times(request)
        return min(request.first_token_deadline - first, request.deadline - last)

    def priority(self, request: VisibleRequest) -> tuple[bool, float]:
        """Whether it comes behind the others, and its deadline."""
        deadline = min(request.first_token_deadline, request.deadline)
        return self._is_put_last(request.index), deadline

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue them."""
        self._time = state.time
        self._latest |= {request.index: self.latest_start(request) for request in requests}
        super().arrive(requests, state)

    def decide(self, state: State) -> Decision:
        """Start the largest prefix of the order that fits."""
        self._time = state.time
        return super().decide(state)

    def _is_put_last(self, index: int) -> bool:
        return self.late == "last" and self._latest[index] < self._time

    def _head(self) -> VisibleRequest | None:
        """Return the next request to start, after those that became late have gone behind."""
        while (request := super()._head()) is not None:
            (is_last, *_), index = self._queue[0]
            if is_last or not self._is_put_last(index):
                break
            self._pop_head()
            heapq.heappush(self._queue, (self.priority(request), index))
        return request

    def _wake(self, now: int, evicted: bool) -> float:
        """Return the round at which to look again, at the latest when the head becomes late.

        In seconds nobody knows which round that is: the next arrival or completion has to do.
        """
        wake, head = super()._wake(now, evicted), self._head()
        if head is None or self._batch_time is not None or self.late == "keep":
            return wake
        latest = self._latest[head.index]
        if not now <= latest < math.inf:
            return wake
        return min(wake, math.floor(latest) + 1)

    def _own_times(self, request: VisibleRequest) -> tuple[float, float]:
        """Time to the first and to the last token in a batch of its own."""
        rounds, prompt = self._tokens.rounds(request.prediction.point), request.prompt_length
        if self._batch_time is None:
            return self._tokens.prefill_rounds + 1, rounds
        alone = BatchStretch(rounds, 1, prompt, 1, prompt + 1, 1, new_squares=prompt * prompt)
        ends = np.cumsum(self._batch_time.durations(alone))
        return float(ends[self._tokens.prefill_rounds]), float(ends[-1])
