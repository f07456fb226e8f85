"""Arrivals whose mean load is just the memory, so that greedy admission keeps evicting ([A25])."""

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
"""Request types of each example: (prefill tokens, decode tokens, mean arrivals per iteration)."""

EQUILIBRIUM_MEMORY = {"one-type": 12, "two-types": 9}
"""Capacity M of each example, in tokens: its equilibrium memory with iterations of length 1."""

FIRST_ITERATIONS = (3, 6)
"""Arrivals in iterations 0 and 1 of the imbalanced start. Then 3 decode and 6 wait for prefill."""


class FcfsCascade(Family, name="fcfs-cascade"):
    """Arrivals whose mean load equals the memory: FCFS keeps evicting ([A25] Proposition 3).

    ``"one-type"`` is Example 2: prefill length 1, decode length 1, four arrivals per iteration and
    memory C = 12. ``"two-types"`` is the instance of Proposition 3: prefill length 1, decode length
    1 or 2, one arrival of each type per iteration and memory C = 9. C is the memory M* that these
    arrivals fill in equilibrium if an iteration takes d0 + M* d1 = 1, the time of a round.

    In [A25] a prefill iteration comes before the decodes, so run the instance with
    ``prefill_rounds=1``. With ``convention="token-per-round"`` the same requests are written for
    the round model, with prompt length (prefill - 1) and output length (decode + 1). They then hold
    the same tokens in the same rounds, and hindsight bounds apply.

    Parameters
    ----------
    example : {"one-type", "two-types"}
        Example 2 or the instance of Proposition 3.
    rounds : int, default 200
        Number of iterations with arrivals, 0 .. rounds - 1.
    arrivals : {"poisson", "constant"}
        ``"poisson"``: random arrivals as in the paper. ``"constant"``: the mean number in every
        iteration, so that only an imbalance at the start can cause an eviction.
    imbalanced : bool, default False
        Whether the first iteration has three arrivals and the second six, as in Example 2. Only for
        ``"one-type"``, because the paper states no such start for ``"two-types"``.
    convention : {"prefill-round", "token-per-round"}
        Lengths with a prefill iteration as in [A25], or for the round model.
    """

    example: str = chosen("one-type", "two-types")
    rounds: int = ranged(200, minimum=1)
    arrivals: str = chosen("poisson", "constant")
    imbalanced: bool = False
    convention: str = chosen("prefill-round", "token-per-round")

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw the number of arrivals of each type in each iteration, and make the instance."""
        rounds, types = self.rounds, TYPES[self.example]
        rates = np.array([rate for _, _, rate in types])
        counts = np.tile(rates, (rounds, 1))
        if self.arrivals == "poisson":
            counts = rng.poisson(rates, (rounds, len(types)))
        if self.imbalanced:
            if len(types) > 1:
                raise InvalidValueError(None, "imbalanced", True, "needs example='one-type'")
            counts[:2, 0] = FIRST_ITERATIONS[:rounds]
        if not counts.any():
            raise InvalidValueError(None, "rounds", rounds, "gives no request: give more rounds")
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
