"""Two policies of [C25] that know output lengths: H-SF and A_random (Algorithms 3 and 4)."""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import Setup, VisibleRequest, register_policy


@register_policy("h-sf")
class HindsightShortestFirst(PriorityPolicy):
    """H-SF: starts the largest set of waiting requests that fits ([C25] Algorithm 3).

    H-SF means hindsight shortest first. [C25] divides the total latencies of its policies by that
    of H-SF. If prompts are equal, the shortest requests that fit are a largest feasible set,
    because replacing a request by a shorter one lowers memory in every round. H-SF is then the same
    as MC-SF. [C25] excludes unequal prompts. For these, the code also starts requests in ascending
    order of output length, up to the first that does not fit. H-SF is not optimal: `hindsight`
    computes the optimum. Requests with equal outputs start in order of appearance.

    The policy needs the true output lengths and raises an error if predictions are intervals.
    """

    def priority(self, request: VisibleRequest) -> int:
        """Return the true output length, tokens."""
        return request.output_length


@register_policy("a-random")
class ARandom(PriorityPolicy):
    """A_random: requests start in random order while true lengths fit ([C25] Algorithm 4).

    The proofs of [C25] use this policy. With equal prompts and all requests at once, as memory
    grows, its total latency is at most (1 + 1/alpha)/2 times that of H-SF. Here alpha is (lower
    bound) / (upper bound) of the output lengths ([C25] Theorem 8.6). A request that arrives later
    takes a random place among the waiting ones. Like H-SF, the policy raises an error if
    predictions are intervals.
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
