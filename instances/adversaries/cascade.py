"""Arrivals at the fluid equilibrium, where greedy admission evicts for ever ([A25])."""

from __future__ import annotations

import numpy as np

from instances.errors import InvalidValueError
from instances.generators.registry import Family
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH, Instance
from instances.problem.request import Request
from instances.validation import chosen, ranged

TYPES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "one-type": ((1, 1, 4),),
    "two-types": ((1, 1, 1), (1, 2, 1)),
}
"""Prefill length, decode length and arrivals an iteration of each type."""

EQUILIBRIUM_MEMORY = {"one-type": 12, "two-types": 9}
"""M*, with iterations of length 1: the capacity of both examples."""

FIRST_ITERATIONS = (3, 6)
"""Example 2's imbalance: three prompts decode while six wait for their prefill."""


class FcfsCascade(Family, name="fcfs-cascade"):
    """Arrivals that M could just carry in level stages ([A25] Example 2, Proposition 3).

    ``"one-type"`` is Example 2 (prefill 1, decode 1, four an iteration, C = 12); ``"two-types"``
    the instance of Proposition 3 (decode 1 or 2, one of each an iteration, C = 9). C is the
    equilibrium memory M* with iterations of length 1, so that with any d0 + M* d1 = 1 an iteration
    is a round.

    [A25] counts a prefill iteration before the decodes: run it with
    ``prefill_rounds=1``. ``convention="token-per-round"`` writes the same
    requests for the round model, (s, o) = (prefill - 1, decode + 1), which holds the same tokens
    in the same rounds; hindsight bounds are for that form.

    Parameters
    ----------
    example : {"one-type", "two-types"}
        As above.
    rounds : int, default 200
        Iterations with arrivals, 0 .. rounds - 1.
    arrivals : {"poisson", "constant"}
        ``"poisson"`` as in the paper, or ``"constant"``, the rate itself in every iteration: then
        nothing but an imbalance at the start can cause an eviction.
    imbalanced : bool, default False
        Three and six requests in the first two iterations, Example 2's start; only for
        ``"one-type"``, since the paper states none for the other.
    convention : {"prefill-round", "token-per-round"}
        How lengths are written.
    """

    example: str = chosen("one-type", "two-types")
    rounds: int = ranged(200, minimum=1)
    arrivals: str = chosen("poisson", "constant")
    imbalanced: bool = False
    convention: str = chosen("prefill-round", "token-per-round")

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw the number of requests of each type in each iteration."""
        rounds, types = self.rounds, TYPES[self.example]
        rates = np.array([rate for _, _, rate in types])
        counts = np.tile(rates, (rounds, 1))
        if self.arrivals == "poisson":
            counts = rng.poisson(rates, (rounds, len(types)))
        if self.imbalanced:
            if len(types) > 1:
                raise InvalidValueError(None, "imbalanced", True, "is for one-type only")
            counts[:2, 0] = FIRST_ITERATIONS[:rounds]
        if not counts.any():
            raise InvalidValueError(None, "rounds", rounds, "brought no request: take more")
        shift = int(self.convention == "token-per-round")
        requests = [
            Request(time, prefill - shift, decode + shift)
            for time in range(rounds)
            for (prefill, decode, _), count in zip(types, counts[time].tolist(), strict=True)
            for _ in range(count)
        ]
        metadata: dict[str, object] = {"service_model": self.convention}
        if shift:
            metadata[ALLOW_ZERO_PROMPT_LENGTH] = True
        return Instance(requests, EQUILIBRIUM_MEMORY[self.example], metadata=metadata)
