"""A relaxation much tighter than the linear one of [J25] and [W25], with fractional starts.

The full configuration relaxation (`hindsight.configurations.ascent`): not only memory round by
round, but every multiset of requests that cannot run together counts. Its dual is followed by
ascent, begun from the lifted memory and core tables (`hindsight.configurations.warm_start`); at the
maximum of the smoothed dual the Gibbs weights of the starts use every state just as often as the
Gibbs weights of the configurations provide it, so they are a fractional schedule, up to what the
ascent leaves undone. No linear program is solved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hindsight.configurations.proofs import StatePrices
from hindsight.heuristics.list_scheduling import best_list_schedule
from hindsight.runtime.clock import Clock
from instances import Instance, InvalidValueError
from instances.arrays import FloatArray, IntArray
from instances.validation import as_integer

from .gibbs_kernels import gibbs_starts, priced_starts
from .prices import exact_bound
from .tables import ordered_states, state_copies
from .warm_start import LARGEST_MEMORY_LIMIT, priced_epochs, warm_ascent

LARGEST_PRICE_ARRAY = 100_000_000
"""Most entries of the epoch prices, T (M + 1)^2, of a relaxation: 0.8 GB."""

START_HEAT = (0.3, 0.1)
"""First and last heat of the starts, in rounds; the fractional starts belong to the last."""


@dataclass(frozen=True, eq=False)
class StrengthenedRelaxation:
    """Fractional starts, their prices, and the bound that these prices prove.

    Attributes
    ----------
    instance : Instance
        The instance relaxed.
    certified_bound : int
        Lower bound on the optimum, exact, proved by ``prices``.
    expected_start_times : float64 array
        sum_t t x[i,t], float64, shape (n,); requests with equal (a, s, o) share one value.
    prices : StatePrices
        Integer prices of what runs together: the proof of ``certified_bound``, which
        `hindsight.make_certificate` and a user's bound (`hindsight.register_bound`) accept.
    runtime : float
        Seconds.
    """

    instance: Instance
    certified_bound: int
    expected_start_times: FloatArray
    prices: StatePrices
    runtime: float

    def __repr__(self) -> str:
        return f"StrengthenedRelaxation({self.instance!r}, certified_bound={self.certified_bound})"


def relax_strengthened(instance: Instance, *, iterations: int = 120) -> StrengthenedRelaxation:
    """Ascend on the configuration dual and read off fractional starts.

    The result is deterministic. An iteration takes some ten milliseconds at 25 requests.

    Parameters
    ----------
    instance : Instance
        The problem.
    iterations : int, default 120
        Iterations of the configuration ascent, at least 1.

    Raises
    ------
    InvalidValueError
        Some weight is not 1, M is above `LARGEST_MEMORY_LIMIT`, ``iterations`` is below 1, or there
        are too many rounds for M (T (M + 1)^2 above `LARGEST_PRICE_ARRAY`).
    """
    instance.require_tokens()
    instance.refuse_weights("is not 1: prices of what runs together count every request alike")
    clock = Clock()
    count = as_integer(iterations, None, "iterations", minimum=1)
    limit = instance.memory_limit
    if limit > LARGEST_MEMORY_LIMIT:
        raise InvalidValueError(
            instance.name,
            "memory_limit",
            limit,
            f"is above {LARGEST_MEMORY_LIMIT}: too large for tables; scale token counts down",
        )
    copies = state_copies(instance.prompt_lengths, instance.output_lengths, limit)
    makespan = best_list_schedule(instance).makespan
    epochs = priced_epochs(instance, makespan)
    if epochs * (limit + 1) ** 2 > LARGEST_PRICE_ARRAY:
        raise InvalidValueError(
            instance.name,
            "rounds",
            epochs,
            f"times (M + 1)^2 = {(limit + 1) ** 2} exceeds {LARGEST_PRICE_ARRAY}",
        )
    ascent = warm_ascent(instance, copies, makespan)
    ascent.ascend(count, start_heat=START_HEAT)
    prices, _ = ascent.integer_prices()
    weights = _start_weights(instance, copies, ascent.prices)
    return StrengthenedRelaxation(
        instance=instance,
        certified_bound=exact_bound(prices, instance),
        expected_start_times=weights @ np.arange(weights.shape[1]),
        prices=StatePrices(prices),
        runtime=clock.seconds(),
    )


def _start_weights(instance: Instance, copies: IntArray, prices: FloatArray) -> FloatArray:
    """Return x[i, t] for t = 0 .. T; each row sums to 1."""
    states = ordered_states(copies)
    n, epochs = len(instance), len(prices)
    x, costs = np.zeros((n, epochs + 1)), np.zeros((n, epochs + 1))
    requests = priced_starts(states, *instance.columns[:3], epochs)
    gibbs_starts(np.ascontiguousarray(prices.T), requests, START_HEAT[1], costs, x)
    return x
