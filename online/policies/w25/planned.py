"""Policies that plan an order batch by batch and then start its prefix ([W25] Algorithm 1)."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence

import numpy as np

from instances.arrays import IntArray
from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import Setup, State, VisibleRequest


class PlannedPrefixPolicy(PriorityPolicy):
    """Phase 1 plans batches, phase 2 starts requests in the planned order as long as they fit.

    The next batch is chosen when all requests of the earlier ones have started, from all requests
    that wait then. If all requests arrive at once, the batches are those of [W25]'s phase 1: each
    depends only on the requests left by earlier batches. The paper has no later arrivals: here
    they, and evicted requests, can enter the next batch. Output lengths are the upper ends of
    predictions, at most M - s.
    """

    def reset(self, setup: Setup) -> None:
        """Prepare a run with no batch planned."""
        super().reset(setup)
        self._rng = setup.rng
        # _pool has a row (index, prompt, output) for each request not yet in a batch, sorted by
        # index. _joining has the requests to add to it.
        self._pool: IntArray = np.zeros((0, 3), dtype=np.int64)
        self._joining: list[VisibleRequest] = []
        self._plan: deque[int] = deque()

    @abstractmethod
    def next_batch(self, prompts: IntArray, outputs: IntArray) -> Sequence[int] | IntArray:
        """Return distinct positions in the arrays: the next requests to start, in order, >= 1."""

    def priority(self, request: VisibleRequest) -> int:
        """Return 0 for every request: the plan gives the order, not a priority."""
        return 0

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Note the requests as candidates for the next batch."""
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
            # Prompt lengths, plus the tokens that `TokenCount` adds for partly filled blocks.
            added = self._tokens.base(0) + self._tokens.prefill_rounds
            joining = [
                (k.index, k.prompt_length + added, k.prediction.upper) for k in self._joining
            ]
            self._joining.clear()
            pool = np.concatenate([self._pool, np.array(joining, dtype=np.int64)])
            pool[:, 2] = np.minimum(pool[:, 2], self._memory_limit - pool[:, 1])
            # Sorted by index, the order of appearance, including evicted requests.
            self._pool = pool[np.argsort(pool[:, 0])]
        batch = np.asarray(self.next_batch(self._pool[:, 1], self._pool[:, 2]), dtype=np.int64)
        self._plan.extend(self._pool[batch, 0].tolist())
        self._pool = np.delete(self._pool, batch, axis=0)


def shortest_output_first(outputs: IntArray, batch: IntArray) -> IntArray:
    """Return a batch in ascending order of output, ties by position ([W25] Algorithm 1, line 5)."""
    return batch[np.argsort(outputs[batch], kind="stable")]
