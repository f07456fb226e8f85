"""Orders in which an engine serves its waiting queue.

Engines serve first come, first served. What is proposed for them on their forums is shortest job
first, by prompt, by predicted output or by both, with ageing, so that what is long is served too:
vLLM 29366 and 33392, SGLang 30806 and 13507, TensorRT-LLM 12428 and 13096 (numbers of pull
requests). Feedback queues (vLLM 25567) are not here: they take running requests out of the batch
after a quantum, so that the queue's order alone does not make them. vLLM's priorities may also be
deadlines, which a run with a service level has.
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
    """Return the class of a predicted output: 0 for one token, k for 2^(k-1) < tokens <= 2^k."""
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
Requests have no priorities. The class takes their place: short predicted outputs go first.
"""


class WaitingQueue:
    """Waiting requests in ascending order of a key; equal keys in order of arrival.

    After a waiting time w (rounds or seconds) the key of a request is its value in `ORDERS` minus
    ``ageing`` w. The keys of all waiting requests fall at the same rate, so their order never
    changes. It can be computed at arrival: sort by value in `ORDERS` + ``ageing`` x arrival time.
    With ``ageing`` > 0 no request starves: if the values of two requests differ by d, the later one
    goes first only if it arrives less than d / ``ageing`` after the other. The output length of a
    request is the point of its prediction, which does not change after its arrival.

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
        """Add a request. Equal keys are sorted by ``place``; None means the order of arrival."""
        key, index = self.key(request)
        heapq.heappush(self._heap, (key, index if place is None else place, index))

    def pop(self) -> int:
        """Remove the request to be served next, and return its index."""
        return heapq.heappop(self._heap)[2]
