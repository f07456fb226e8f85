"""[C25]'s benchmarks that know every output length: H-SF (Algorithm 3), A_random (Algorithm 4)."""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import Setup, VisibleRequest, register_policy


@register_policy("h-sf")
class HindsightShortestFirst(PriorityPolicy):
    """H-SF: the largest set of waiting requests that fits, so the shortest ([C25] Algorithm 3).

    The yardstick of [C25]'s competitive ratios. With equal prompts the shortest prefix is a
    largest feasible set (replacing a request by a shorter one lowers memory in every round), and
    the rule is that of MC-SF; with unequal prompts, which [C25] excludes, the code keeps the
    shortest-first prefix. It is not an optimum: see the tables of `hindsight`. Equal lengths go
    in order of appearance.

    Where predictions are intervals it refuses to run: it is a benchmark that knows the outputs.
    """

    def priority(self, request: VisibleRequest) -> int:
        """True output length."""
        return request.output_length


@register_policy("a-random")
class ARandom(PriorityPolicy):
    """A_random: a random order, true output lengths in the look-ahead ([C25] Algorithm 4).

    An auxiliary of [C25]'s proofs: at most (1 + 1/alpha)/2 times H-SF as M grows, equal prompts,
    all at once ([C25] Theorem 8.6). A request that arrives later takes a random place among those
    that wait. Like H-SF it refuses to run on interval predictions.
    """

    randomized = True

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue and keep the random stream."""
        super().reset(setup)
        self._rng = setup.rng

    def priority(self, request: VisibleRequest) -> float:
        """A uniform draw."""
        return float(self._rng.random())

    def expected_output(self, request: VisibleRequest) -> int:
        """True output length."""
        return request.output_length
