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
    """Return the earlier deadline, of first or last token: a Fraction, or infinity if none."""
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
"""Key of a waiting request for each order, smallest first: tokens, a class number or a time.

Requests carry no priority. Under ``"priority"`` the key is `output_class`, the priority that a
predictor of short and long outputs would give them.
"""


class WaitingQueue:
    """Waiting requests in ascending order of a key; equal keys in order of arrival.

    After w units of waiting time the key of a request is its value in `ORDERS` less ``ageing`` w.
    As the keys of all waiting requests fall equally, their order never changes. It is that of the
    value in `ORDERS` plus ``ageing`` times the arrival time. With ``ageing`` > 0 no request
    starves: if the values of two requests differ by d, the later one goes first only if it arrives
    less than d / ``ageing`` after the other. Predicted lengths are the points of the predictions,
    which do not change after arrival.

    Parameters
    ----------
    order : str
        A name of `ORDERS`.
    ageing : float
        Fall of the key for each unit of waiting time, >= 0: tokens or classes a round, or a second
        in continuous time. It has no effect under ``"fcfs"``.
    """

    def __init__(self, order: str, ageing: float) -> None:
        self._base = ORDERS[order]
        # Exact fractions: rounded floats could make equal keys differ.
        self._weight = as_fraction(ageing if order != "fcfs" else 0, "policy", "ageing")
        self._heap: list[tuple[Key, int, int]] = []

    def key(self, request: VisibleRequest) -> tuple[Key, int]:
        """Return the sort key of a request; the request with the smallest is served first."""
        base: Key = self._base(request)
        if self._weight:
            base += self._weight * Fraction(request.arrival_time)
        return base, request.index

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def head(self) -> int:
        """Index of the request to be served first; the queue must not be empty."""
        return self._heap[0][2]

    def push(self, request: VisibleRequest, place: int | None = None) -> None:
        """Add a request; ``place`` is its rank among equal keys, None that of its arrival."""
        key, index = self.key(request)
        heapq.heappush(self._heap, (key, index if place is None else place, index))

    def pop(self) -> int:
        """Remove the request to be served first and return its index."""
        return heapq.heappop(self._heap)[2]
