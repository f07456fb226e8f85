"""The exact bound of memory prices where requests times rounds are many."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.outcomes.proofs import MemoryPrices
from hindsight.runtime.interruption import never, timed_slices
from instances import Instance
from instances.arrays import IntArray

from .cheapest_starts import RequestClasses, block_minima, cheapest_starts, request_classes
from .memory_prices import PriceBound


def scaled_price_bound(
    instance: Instance,
    prices: MemoryPrices,
    *,
    classes: RequestClasses | None = None,
    final: IntArray | None = None,
    should_stop: Callable[[], bool] = never,
) -> PriceBound:
    """`price_bound`, integer for integer, without pricing most starts.

    Requests that are alike are priced once, and blocks of starts that cannot hold a minimum are
    passed over (`hindsight.relaxation.soft_starts`).

    Parameters
    ----------
    classes : of the instance's requests, where they are known.
    final : last start of each class that is considered; None considers all. With it the bound is
        one of schedules and fractional solutions that start nothing later.
    should_stop : polled.

    Raises
    ------
    StoppedEarlyError: ``should_stop`` said so.
    """
    grouped = request_classes(instance) if classes is None else classes
    s, o = grouped.prompt_lengths, grouped.output_lengths
    horizon = prices.horizon
    # Nothing changes after the last price: rounds are described up to there, and what a request
    # waits or runs beyond it is added.
    a = np.minimum(grouped.arrival_times, horizon)
    last = np.full_like(a, horizon) if final is None else np.clip(final, a, horizon)
    priced = np.minimum(o, max(horizon, 1))
    padded = np.zeros(horizon + int(priced.max()) + 1, dtype=np.int64)
    padded[1 : horizon + 1] = prices.numerators
    sums = np.cumsum(padded)
    weighted = np.cumsum(padded * np.arange(len(padded), dtype=np.int64))
    minima = block_minima(padded)
    cheapest = np.zeros(len(o), dtype=np.int64)
    for part in timed_slices(len(o), should_stop):
        cheapest_starts(
            *(sums, weighted, minima, prices.denominator),
            *(a[part], s[part], priced[part], last[part], cheapest[part]),
        )
    cheapest += prices.denominator * (o - priced)
    each: IntArray = cheapest[grouped.class_of]
    paid = instance.memory_limit * int(sums[-1])
    return PriceBound(prices, sum(each.tolist()) - paid, each)
