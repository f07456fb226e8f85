"""Requests of a few types, each of which arrives as an independent Poisson process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances.errors import InvalidValueError
from instances.problem.workload import Workload
from instances.validation import as_number


def poisson_arrivals(
    types: Sequence[tuple[float, int, int]],
    horizon: float,
    *,
    memory_limit: int,
    rng: np.random.Generator,
) -> Workload:
    """Draw a workload in which requests of each type arrive as a Poisson process ([A25]).

    Parameters
    ----------
    types : Sequence[tuple[float, int, int]]
        (arrival rate, prompt length, output length) of each type, in requests per second and
        tokens.
    horizon : float
        Requests arrive in 0 .. horizon seconds.
    memory_limit : int
        Capacity M of the machine, tokens.
    rng : numpy.random.Generator
        Source of all randomness.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        There are no types, a rate or the horizon is not a positive number, a length is not a whole
        number in its range, or no request arrives.
    """
    if not types:
        raise InvalidValueError(None, "types", [], "is empty: at least one is needed")
    rates = [
        as_number(rate, f"type {j}", "arrival_rate", above=0) for j, (rate, *_) in enumerate(types)
    ]
    horizon = as_number(horizon, None, "horizon", above=0)
    # Draw the number of arrivals first. Given this number, the arrival times of a Poisson process
    # are independent and uniform.
    total = sum(rates)
    count = int(rng.poisson(total * horizon))
    times = np.sort(rng.uniform(0.0, horizon, count))
    kinds = rng.choice(len(rates), size=count, p=np.array(rates) / total)
    prompts, outputs = np.array([lengths for _, *lengths in types], dtype=object)[kinds].T
    return Workload(times, prompts, outputs, memory_limit=memory_limit)
