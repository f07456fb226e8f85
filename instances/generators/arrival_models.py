"""Random instances of [J25] Section 5.1, with exactly the distributions of the paper."""

from __future__ import annotations

import numpy as np

from instances.problem.instance import Instance
from instances.validation import ranged

from .registry import Family

MEMORY_LIMITS = (30, 50)
PROMPT_LENGTHS = (1, 5)
REQUEST_COUNTS = (40, 60)
HORIZONS = (40, 60)
ARRIVAL_RATES = (0.5, 1.5)


def _between(rng: np.random.Generator, ends: tuple[int, int]) -> int:
    return int(rng.integers(ends[0], ends[1] + 1))


class _ArrivalModel(Family):
    n: int | None = ranged(None, minimum=1)
    # The least ``memory_limit`` has room for the longest prompt and one output token.
    memory_limit: int | None = ranged(None, minimum=PROMPT_LENGTHS[1] + 1)

    def limit(self, rng: np.random.Generator) -> int:
        """Return the memory limit M: the given one, or a random one."""
        return _between(rng, MEMORY_LIMITS) if self.memory_limit is None else self.memory_limit


def _lengths(rng: np.random.Generator, n: int, memory_limit: int) -> tuple[list[int], list[int]]:
    prompts = rng.integers(PROMPT_LENGTHS[0], PROMPT_LENGTHS[1] + 1, n).tolist()
    return prompts, [_between(rng, (1, memory_limit - s)) for s in prompts]


class ArrivalModel1(_ArrivalModel, name="arrival-model-1"):
    """Requests that all arrive at time 0 ([J25] Section 5.1, Arrival Model 1).

    All quantities are uniform random integers: the memory limit M on 30..50, the number of requests
    on 40..60, prompt lengths s on 1..5, and output lengths on 1..M - s.

    Parameters
    ----------
    n : int or None, default None
        Number of requests; random if None.
    memory_limit : int or None, default None
        M; random if None.
    """

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw ``n`` and ``memory_limit`` if they are None, then lengths. Return the instance."""
        n = _between(rng, REQUEST_COUNTS) if self.n is None else self.n
        limit = self.limit(rng)
        return Instance.from_arrays(*_lengths(rng, n, limit), memory_limit=limit)


class ArrivalModel2(_ArrivalModel, name="arrival-model-2"):
    """Poisson arrivals over 40 to 60 rounds ([J25] Section 5.1, Arrival Model 2).

    The mean number of arrivals per round is uniform on [0.5, 1.5], and the last round T is uniform
    on 40..60. A Poisson number of requests arrives in each round 1..T. M and the lengths are drawn
    as in Arrival Model 1. A draw without any request is repeated.

    Parameters
    ----------
    n : int or None, default None
        Number of requests. The first n arrivals are kept, which may include arrivals after round T.
        None keeps all requests that arrive by round T.
    memory_limit : int or None, default None
        M; random if None.
    """

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw ``memory_limit`` if it is None, then arrivals and lengths. Return the instance."""
        limit = self.limit(rng)
        rate = float(rng.uniform(*ARRIVAL_RATES))
        horizon = _between(rng, HORIZONS)
        counts = rng.poisson(rate, horizon)
        while counts.sum() < (self.n or 1):
            more = rng.poisson(rate, horizon)
            counts = more if self.n is None else np.concatenate([counts, more])
        arrivals = np.repeat(np.arange(1, len(counts) + 1), counts)[: self.n]
        lengths = _lengths(rng, len(arrivals), limit)
        metadata = {"arrival_rate": rate, "arrival_horizon": horizon}
        return Instance.from_arrays(*lengths, arrivals, memory_limit=limit, metadata=metadata)
