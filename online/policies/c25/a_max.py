"""A_max: outputs as long as their upper bounds ([C25] Algorithm 1)."""

from __future__ import annotations

from instances.validation import as_choice
from online.policy_interface import Setup, VisibleRequest, register_policy
from online.policy_interface.lookahead import PriorityPolicy


@register_policy("a-max")
class AMax(PriorityPolicy):
    """A_max: every output is planned as long as its upper bound ([C25] Algorithm 1).

    The policy starts as many waiting requests as fit, in ascending order of their upper bounds.
    Requests of equal bounds are in random order. As long as no output exceeds its bound, no request
    is evicted.

    Guarantee, with alpha = lower / upper, equal prompts and all requests at once, as M grows: at
    most (1/alpha)(1 + 1/alpha)/2 times the total latency of H-SF, which knows the outputs. The
    worst ratio is at least (1/alpha)(1 + alpha^(-1/2))/2 ([C25] Theorems 3.3, 3.4).

    The paper leaves unequal bounds open. Here the smallest go first, which starts the most requests
    if prompts are equal. A request draws its place among equal bounds once, on arrival.

    Parameters
    ----------
    fit : str, default "rounds"
        The test of whether a request fits. ``"rounds"`` is the look-ahead of Algorithm 1: planned
        memory is at most M in every later round. ``"peaks"`` counts s + upper for each request from
        start to end, as the proof of Theorem 3.4 does. It admits less, because requests started at
        different times do not reach their peaks together.
    """

    randomized = True

    def __init__(self, fit: str = "rounds") -> None:
        as_choice(fit, "policy", "fit", ("rounds", "peaks"))
        self.fit = fit

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue for a new run, with its random stream."""
        super().reset(setup)
        self._rng = setup.rng

    def _fits(self, base: int, rounds: int, start: int) -> bool:
        if self.fit == "peaks":
            # Overdue requests have generated more tokens than their upper bounds. None has done so
            # if the predictions are right.
            late = [self._spans[index] for index in self._overdue]
            reserved = self._reserved + sum(held + end - begun for begun, end, held in late)
            if reserved + base + rounds > self._memory_limit:
                return False
        return super()._fits(base, rounds, start)

    def priority(self, request: VisibleRequest) -> tuple[int, float]:
        """Return the upper bound of the output in tokens, and a random number for ties."""
        return request.prediction.upper, float(self._rng.random())
