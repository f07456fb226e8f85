"""A_max: plans every output as long as its upper bound ([C25] Algorithm 1)."""

from __future__ import annotations

from instances.validation import as_choice
from online.policy_interface import Setup, VisibleRequest, register_policy
from online.policy_interface.lookahead import PriorityPolicy


@register_policy("a-max")
class AMax(PriorityPolicy):
    """A_max: every output is planned as long as its upper bound ([C25] Algorithm 1).

    The prediction of an output length is an interval from a lower to an upper bound. The policy
    starts as many waiting requests as fit, in ascending order of their upper bounds. Requests with
    equal upper bounds are in random order. As long as no output exceeds its bound, no request is
    evicted.

    Guarantee ([C25] Theorem 3.3), with alpha = lower / upper, equal prompts and all requests at
    once, as memory grows: the total latency is at most (1/alpha)(1 + 1/alpha)/2 times that of H-SF,
    which knows the output lengths. [C25] Theorem 3.4 states that the worst ratio is at least
    (1/alpha)(1 + alpha^(-1/2))/2.

    The paper has the same interval for all requests. Here intervals may differ, and requests with
    the smallest upper bounds start first. This starts the most requests if prompts are equal. A
    request draws its place among equal bounds once, on arrival.

    Parameters
    ----------
    fit : str, default "rounds"
        The test of whether a request fits. ``"rounds"`` is the look-ahead test of Algorithm 1: the
        planned memory is at most M in every later round. ``"peaks"`` counts (prompt length + upper
        bound) tokens for each request from its start to its end, as the proof of Theorem 3.4 does.
        It admits fewer requests, because requests that started at different times do not reach
        these peaks together.
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
