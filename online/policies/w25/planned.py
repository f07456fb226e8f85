"""Base class of policies that plan batches and start requests in their order ([W25])."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence

import numpy as np

from instances.arrays import IntArray
from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import Setup, State, VisibleRequest


class PlannedPrefixPolicy(PriorityPolicy):
    """Policy that plans batches one by one, and starts requests in this order while they fit.

    The next batch is chosen from all waiting requests, when all requests of earlier batches have
    started. If all requests arrive at once, the batches are those of phase 1 of [W25] Algorithm 1,
    where each batch depends only on the requests left by earlier batches. The paper has no later
    arrivals. Here requests that arrive later, and evicted requests, can enter the next batch.
    Output lengths are the upper ends of predictions, at most M - s (memory less prompt length).
    """

    def reset(self, setup: Setup) -> None:
        """Prepare a new run, in which no batch is planned yet."""
        super().reset(setup)
        self._rng = setup.rng
        # _pool has a row (index, prompt, output) for each waiting request that is in no batch yet,
        # sorted by index. _joining has the requests still to be added to _pool. _plan has the
        # requests of the chosen batches that have not started, in order.
        self._pool: IntArray = np.zeros((0, 3), dtype=np.int64)
        self._joining: list[VisibleRequest] = []
        self._plan: deque[int] = deque()

    @abstractmethod
    def next_batch(self, prompts: IntArray, outputs: IntArray) -> Sequence[int] | IntArray:
        """Choose the next requests to start, at least one, from all waiting requests.

        ``prompts`` and ``outputs`` have the lengths of the waiting requests. Return positions in
        these arrays, in the order in which the requests are to start.
        """

    def priority(self, request: VisibleRequest) -> int:
        """Return 0 for every request: the plan gives the order, not a priority."""
        return 0

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Add new and evicted requests to the candidates for the next batch."""
        for request in requests:
            self._requests[request.index] = request
            self._joining.append(request)

    def _head(self) -> VisibleRequest | None:
        if not self._plan and (self._joining or len(self._pool)):
            self._choose()
        return self._requests[self._plan[0]] if self._plan else None

    def _pop_head(self) -> None:
        self._plan.popleft()

    def _choose(self) -> None:
        if self._joining:
            # ``added``: tokens that `TokenCount` adds to each prompt for partly filled blocks.
            added = self._tokens.base(0) + self._tokens.prefill_rounds
            joining = [
                (k.index, k.prompt_length + added, k.prediction.upper) for k in self._joining
            ]
            self._joining.clear()
            pool = np.concatenate([self._pool, np.array(joining, dtype=np.int64)])
            pool[:, 2] = np.minimum(pool[:, 2], self._memory_limit - pool[:, 1])
            # Sort by index, the order of arrival. Evicted requests return to their old place.
            self._pool = pool[np.argsort(pool[:, 0])]
        batch = np.asarray(self.next_batch(self._pool[:, 1], self._pool[:, 2]), dtype=np.int64)
        self._plan.extend(self._pool[batch, 0].tolist())
        self._pool = np.delete(self._pool, batch, axis=0)


def shortest_output_first(outputs: IntArray, batch: IntArray) -> IntArray:
    """Sort the positions in ``batch`` by output length, then by position ([W25] Algorithm 1)."""
    return batch[np.argsort(outputs[batch], kind="stable")]
