"""What the schedulers of serving engines share: queue, caps, watermark, eviction."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Sequence
from typing import Literal

from instances import InvalidValueError
from instances.validation import as_fraction, as_integer
from online.policy_interface.eviction import held_tokens
from online.policy_interface.policy import Policy, Setup, State, VisibleRequest

from .orders import QueueOrder, WaitingQueue

Preemption = Literal["restart", "recompute"]


class ServingPolicy(Policy):
    """A queue in an order, first come, first served by default, which needs no output lengths.

    A waiting request is admitted when the memory of its whole prompt and of one token is free
    above a watermark, and fewer than ``max_num_seqs`` requests are in the batch. On overflow the
    request that arrived last is sent back to its place in the queue, until the next round fits.

    Memory is counted in tokens, which is the engines' count with blocks of one token. An empty
    machine admits the head of the queue whatever the watermark says: the engines would refuse
    such a request for good.

    Parameters
    ----------
    max_num_seqs : int
        Requests in the batch at most.
    watermark : float
        Share of M that admission leaves free, in [0, 1).
    preemption : Preemption
        ``"restart"``, an evicted request loses all its tokens ([A25]); or ``"recompute"``, it keeps
        them and processes them again as part of its prompt, which is what the engines do.
    order : str
        Of the queue, a name of `ORDERS`.
    ageing : float
        See `QueueOrder`.
    """

    pauses = True

    def __init__(
        self,
        max_num_seqs: int,
        watermark: float,
        preemption: Preemption,
        order: str,
        ageing: float,
    ) -> None:
        self.max_num_seqs = as_integer(max_num_seqs, "policy", "max_num_seqs", minimum=1)
        # 0.01 is a hundredth.
        self._left_free = as_fraction(watermark, "policy", "watermark", minimum=0, below=1)
        if preemption not in ("restart", "recompute"):
            raise InvalidValueError(
                "policy", "preemption", preemption, "is neither restart nor recompute"
            )
        self.watermark = float(self._left_free)
        self.preemption = preemption
        self.order = QueueOrder(order, ageing)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue."""
        self._service = setup.service_model
        self._limit = setup.memory_limit
        self._ceiling = self._limit - int(self._left_free * self._limit)
        self._requests: dict[int, VisibleRequest] = {}
        self._kept: dict[int, int] = {}
        self._queue = WaitingQueue(self.order)
        # Indices count in order of arrival: the smallest is the first come.
        self._batch: list[int] = []

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue; the evicted take their old places."""
        for request in requests:
            self._requests[request.index] = request
            self._queue.push(request)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget them."""
        for request in requests:
            del self._batch[bisect_left(self._batch, request.index)]
            del self._requests[request.index]
            self._kept.pop(request.index, None)

    def memory_of_past(self) -> Hashable:
        """Nothing beyond queue and batch, unless requests keep tokens in the queue."""
        return () if self.preemption == "restart" else None

    def _head(self, memory: int) -> int | None:
        """The head of the queue if it may join a batch that holds ``memory`` tokens, or None."""
        if not self._queue or len(self._batch) >= self.max_num_seqs:
            return None
        index = self._queue.head
        if self._batch and memory + self._first_memory(index) > self._ceiling:
            return None
        return index

    def _admit(self, index: int) -> None:
        self._queue.pop()
        insort(self._batch, index)

    def _prompt(self, index: int) -> int:
        """Tokens to process before it advances."""
        return self._requests[index].prompt_length + self._kept.get(index, 0)

    def _first_memory(self, index: int) -> int:
        """Tokens held in the round in which it advances first."""
        base = self._service.base(self._requests[index].prompt_length)
        return base + self._kept.get(index, 0) + 1

    def _evict_latest(self, state: State) -> tuple[int, int]:
        """Take the latest arrival out of the batch: its index, and the tokens it holds."""
        index = self._batch.pop()
        held = held_tokens(state, self._service, index)
        if self.preemption == "recompute":
            running = state.running[index]
            self._kept[index] = running.output_tokens(self._service, state.round_index)
        return index, held
