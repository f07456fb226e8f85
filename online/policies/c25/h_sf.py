"""[C25]'s benchmarks that know every output length: H-SF (Algorithm 3), A_random (Algorithm 4)."""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import Setup, VisibleRequest, register_policy


@register_policy("h-sf")
class HindsightShortestFirst(PriorityPolicy):
    """H-SF: starts the largest set of waiting requests that fits ([C25] Algorithm 3).

    H-SF is hindsight shortest first, with which the competitive ratios of [C25] compare. If prompts
    are equal, the shortest requests that fit are a largest feasible set: replacing a request by a
    shorter one lowers memory in every round. The rule is then that of MC-SF. For unequal prompts,
    which [C25] excludes, the code also takes requests in ascending order of output up to the first
    that does not fit. H-SF is not optimal: `hindsight` computes the optimum. Equal outputs go in
    order of appearance.

    The policy needs the true output lengths and raises an error if predictions are intervals.
    """

    def priority(self, request: VisibleRequest) -> int:
        """Return the true output length, tokens."""
        return request.output_length


@register_policy("a-random")
class ARandom(PriorityPolicy):
    """A_random: a random order, true output lengths in the look-ahead ([C25] Algorithm 4).

    The proofs of [C25] use it. With equal prompts and all requests at once, as M grows, its total
    latency is at most (1 + 1/alpha)/2 times that of H-SF, with alpha = lower / upper bound of the
    outputs ([C25] Theorem 8.6). A request that arrives later takes a random place among the waiting
    ones. Like H-SF it raises an error if predictions are intervals.
    """

    randomized = True

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue for a new run, with its random stream."""
        super().reset(setup)
        self._rng = setup.rng

    def priority(self, request: VisibleRequest) -> float:
        """Return a random number, uniform in [0, 1)."""
        return float(self._rng.random())

    def expected_output(self, request: VisibleRequest) -> int:
        """Return the true output length, tokens."""
        return request.output_length
