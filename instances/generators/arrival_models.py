"""Random instance families of the papers, each with the paper's exact distribution."""

from __future__ import annotations

import numpy as np

from instances.problem.instance import Instance
from instances.validation import as_integer

from .registry import register_generator

MEMORY_LIMITS = (30, 50)
PROMPT_LENGTHS = (1, 5)
REQUEST_COUNTS = (40, 60)
HORIZONS = (40, 60)
ARRIVAL_RATES = (0.5, 1.5)


def _memory_limit(rng: np.random.Generator, memory_limit: int | None) -> int:
    if memory_limit is None:
        return int(rng.integers(MEMORY_LIMITS[0], MEMORY_LIMITS[1] + 1))
    # A prompt of the largest length must leave room for one output token.
    return as_integer(memory_limit, None, "memory_limit", minimum=PROMPT_LENGTHS[1] + 1)


def _lengths(rng: np.random.Generator, n: int, memory_limit: int) -> tuple[list[int], list[int]]:
    prompts = [int(s) for s in rng.integers(PROMPT_LENGTHS[0], PROMPT_LENGTHS[1] + 1, n)]
    outputs = [int(rng.integers(1, memory_limit - s + 1)) for s in prompts]
    return prompts, outputs


@register_generator("arrival-model-1")
def arrival_model_1(
    rng: np.random.Generator, *, n: int | None = None, memory_limit: int | None = None
) -> Instance:
    """Requests that all arrive at time 0 ([J25] Section 5.1, Arrival Model 1).

    M is uniform on 30..50, n on 40..60, s on 1..5 and o on 1..M - s, all integers.

    Parameters
    ----------
    n : int or None, default None
        Number of requests; drawn if None.
    memory_limit : int or None, default None
        M; drawn if None.
    """
    if n is None:
        n = int(rng.integers(REQUEST_COUNTS[0], REQUEST_COUNTS[1] + 1))
    n = as_integer(n, None, "n", minimum=1)
    limit = _memory_limit(rng, memory_limit)
    prompts, outputs = _lengths(rng, n, limit)
    return Instance.from_arrays(prompts, outputs, memory_limit=limit)


@register_generator("arrival-model-2")
def arrival_model_2(
    rng: np.random.Generator, *, n: int | None = None, memory_limit: int | None = None
) -> Instance:
    """Poisson arrivals over 40 to 60 rounds ([J25] Section 5.1, Arrival Model 2).

    The rate is uniform on [0.5, 1.5], the last round T uniform on 40..60, and a Poisson number of
    requests arrives in each round 1..T. M and the lengths are those of Arrival Model 1. A draw
    without any request is repeated.

    Parameters
    ----------
    n : int or None, default None
        Keep the first n arrivals; the process runs on past T until there are that many. Where it is
        None, the number of requests is whatever arrives by T.
    memory_limit : int or None, default None
        M; drawn if None.
    """
    limit = _memory_limit(rng, memory_limit)
    rate = float(rng.uniform(*ARRIVAL_RATES))
    horizon = int(rng.integers(HORIZONS[0], HORIZONS[1] + 1))
    wanted = None if n is None else as_integer(n, None, "n", minimum=1)
    counts = rng.poisson(rate, horizon)
    while counts.sum() < (wanted or 1):
        more = rng.poisson(rate, horizon)
        counts = more if wanted is None else np.concatenate([counts, more])
    arrivals = [
        int(round_index)
        for round_index in np.repeat(np.arange(1, len(counts) + 1), counts)[:wanted]
    ]
    prompts, outputs = _lengths(rng, len(arrivals), limit)
    return Instance.from_arrays(
        prompts,
        outputs,
        arrivals,
        memory_limit=limit,
        metadata={"arrival_rate": rate, "arrival_horizon": horizon},
    )
