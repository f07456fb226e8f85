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
    """Class of a predicted output length: 0 for one token, k for 2^(k-1) < length <= 2^k."""
    return (request.prediction.point - 1).bit_length()


def deadline(request: VisibleRequest) -> Key:
    """Return the earlier of the deadlines of the first and the last token, as exact as a key is."""
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
"""Key of a request by name of the order, smallest first; tokens, but for a class or a deadline.

A request carries no priority of its own: under ``"priority"`` it is `output_class`, which is what a
predictor that tells short from long would set.
"""


class WaitingQueue:
    """The requests that wait, the smallest key first, equal ones by arrival.

    The key of a request that has waited w units of time is that of `ORDERS` less ``ageing`` w. All
    keys fall alike as time passes, so their order never changes and is that of the key plus
    ``ageing`` times the time of arrival. With ``ageing`` > 0 nobody starves: of two requests whose
    keys differ by d, the later one goes first only if it arrives less than d / ``ageing`` after.
    The point of a prediction is what counts, known at arrival and never revised.

    Parameters
    ----------
    order : str
        Of `ORDERS`.
    ageing : float
        Units of the key, tokens or classes, that a unit of time waited, a round or a second, is
        worth; >= 0. It changes nothing under ``"fcfs"``.
    """

    def __init__(self, order: str, ageing: float) -> None:
        self._base = ORDERS[order]
        # In floats two requests of equal keys could come in either order.
        self._weight = as_fraction(ageing if order != "fcfs" else 0, "policy", "ageing")
        self._heap: list[tuple[Key, int, int]] = []

    def key(self, request: VisibleRequest) -> tuple[Key, int]:
        """Sorts requests as they are served."""
        base: Key = self._base(request)
        if self._weight:
            base += self._weight * Fraction(request.arrival_time)
        return base, request.index

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def head(self) -> int:
        """Index of the request to be served first; there must be one."""
        return self._heap[0][2]

    def push(self, request: VisibleRequest, place: int | None = None) -> None:
        """Let a request wait, among equal keys at a place; None is that of its arrival."""
        key, index = self.key(request)
        heapq.heappush(self._heap, (key, index if place is None else place, index))

    def pop(self) -> int:
        """Take the head out; its index."""
        return heapq.heappop(self._heap)[2]
