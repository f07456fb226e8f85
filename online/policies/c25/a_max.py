"""A_max: outputs as long as their upper bounds ([C25] Algorithm 1)."""

from __future__ import annotations

from instances.validation import as_choice
from online.policy_interface import Setup, VisibleRequest, register_policy
from online.policy_interface.lookahead import PriorityPolicy


@register_policy("a-max")
class AMax(PriorityPolicy):
    """A_max: every output is as long as its upper bound ([C25] Algorithm 1).

    As many requests as fit are started, drawn at random among those with the same bound. No
    eviction ever happens as long as the bounds hold.

    Guarantee: at most (1/alpha)(1 + 1/alpha)/2 times H-SF and at worst no less than
    (1/alpha)(1 + alpha^(-1/2))/2 as M grows, alpha = lower / upper, equal prompts, all at once
    ([C25] Theorems 3.3, 3.4).

    What the paper leaves open: with unequal bounds the smallest go first, which is what makes the
    started set largest when prompts are equal; a request keeps the random place in the queue that
    it drew on arrival. The proof of Theorem 3.4 lets every request hold s + upper from start to
    end, which ``fit="peaks"`` does; the look-ahead of Algorithm 1 (``"rounds"``) knows that
    requests started at different times do not peak together, and does better.

    Parameters
    ----------
    fit : str, default "rounds"
        ``"rounds"`` or ``"peaks"``.
    """

    randomized = True

    def __init__(self, fit: str = "rounds") -> None:
        as_choice(fit, "policy", "fit", ("rounds", "peaks"))
        self.fit = fit

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue and keep the random stream."""
        super().reset(setup)
        self._rng = setup.rng

    def _fits(self, base: int, rounds: int, start: int) -> bool:
        if self.fit == "peaks":
            # Only where a bound did not hold is anybody overdue.
            late = [self._spans[index] for index in self._overdue]
            reserved = self._reserved + sum(held + end - begun for begun, end, held in late)
            if reserved + base + rounds > self._memory_limit:
                return False
        return super()._fits(base, rounds, start)

    def priority(self, request: VisibleRequest) -> tuple[int, float]:
        """Upper bound, ties at random."""
        return request.prediction.upper, float(self._rng.random())
