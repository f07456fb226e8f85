"""Orders in which an engine serves its waiting queue.

Engines serve first come, first served by default. Their users have proposed shortest job first: by
prompt length, by predicted output length or by both, and with ageing, so that long requests are
served too. These proposals are the pull requests 29366 and 33392 of vLLM, 30806 and 13507 of
SGLang, and 12428 and 13096 of TensorRT-LLM. Feedback queues (vLLM 25567) are left out. They take
running requests out of the batch after a time, which the order of a queue does not describe. The
priorities of vLLM's requests may also be deadlines, which a run with a service level has.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction

from instances.validation import as_fraction
from online.policy_interface import VisibleRequest

Key = int | float | Fraction


def output_class(request: VisibleRequest) -> int:
    """Return the class of a predicted output length: 0 for 1 token, k for 2^(k-1) + 1 .. 2^k."""
    return (request.prediction.point - 1).bit_length()


def deadline(request: VisibleRequest) -> Key:
    """Return the earlier of the deadlines for first and last token, in rounds or seconds.

    It is an exact Fraction, or infinity if the request has no deadline.
    """
    time = min(request.first_token_deadline, request.deadline)
    return Fraction(time) if math.isfinite(time) else time


ORDERS: dict[str, Callable[[VisibleRequest], Key]] = {
    "fcfs": lambda request: 0,
    "shortest-output": lambda request: request.prediction.point,
    "longest-output": lambda request: -request.prediction.point,
    "shortest-prompt": lambda request: request.prompt_length,
    "shortest-job": lambda request: request.prompt_length + request.prediction.point,
    "priority": output_class,
    "deadline": deadline,
}
"""Sort key of a waiting request, by name of the order. The smallest key is served first.

Keys are tokens, a time, or for ``"priority"`` the class of the predicted output (`output_class`).
Requests here have no priorities, so this class is used: short predicted outputs are served first.
"""


class WaitingQueue:
    """Waiting requests in ascending order of a key; equal keys in order of arrival.

    The key of a request is its value in `ORDERS` minus ``ageing`` times its waiting time (rounds or
    seconds). The keys of all waiting requests fall at the same rate, so their order never changes.
    Sorting by (value in `ORDERS`) + ``ageing`` * (arrival time) gives the same order.
    With ``ageing`` > 0 no request starves: if the values of two requests differ by d, the later one
    is served first only if it arrives less than d / ``ageing`` after the other. The output length
    of a request is the point of its prediction, which does not change after its arrival.

    Parameters
    ----------
    order : str
        A name of `ORDERS`.
    ageing : float
        Amount by which the key falls per unit of waiting time, >= 0. The unit is tokens or classes
        per round, or per second in continuous time. It has no effect under ``"fcfs"``.
    """

    def __init__(self, order: str, ageing: float) -> None:
        self._base = ORDERS[order]
        # Keys are exact fractions. With rounded floats, keys that should be equal could differ.
        self._weight = as_fraction(ageing if order != "fcfs" else 0, "policy", "ageing")
        self._heap: list[tuple[Key, int, int]] = []

    def key(self, request: VisibleRequest) -> tuple[Key, int]:
        """Return the sort key of a request. The request with the smallest key is served first."""
        base: Key = self._base(request)
        if self._weight:
            base += self._weight * Fraction(request.arrival_time)
        return base, request.index

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def head(self) -> int:
        """Index of the request to be served next. The queue must not be empty."""
        return self._heap[0][2]

    def push(self, request: VisibleRequest, place: int | None = None) -> None:
        """Add a request. Equal keys are sorted by ``place``, by default the order of arrival."""
        key, index = self.key(request)
        heapq.heappush(self._heap, (key, index if place is None else place, index))

    def pop(self) -> int:
        """Remove the request to be served next, and return its index."""
        return heapq.heappop(self._heap)[2]
