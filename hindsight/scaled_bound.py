"""The exact bound of memory prices where requests times rounds are many."""

from __future__ import annotations

import numpy as np

from instances import Instance
from instances.instance import IntArray

from .prices import MemoryPrices, PriceBound
from .soft_starts import RequestClasses, block_minima, cheapest_starts, request_classes


def scaled_price_bound(
    instance: Instance,
    prices: MemoryPrices,
    *,
    classes: RequestClasses | None = None,
    final: IntArray | None = None,
) -> PriceBound:
    """`hindsight.prices.price_bound`, integer for integer, without pricing most starts.

    Requests that are alike are priced once, and blocks of starts that cannot hold a minimum are
    passed over (`hindsight.soft_starts`).

    Parameters
    ----------
    classes : of the instance's requests, where they are known.
    final : last start of each class that is considered; None considers all. With it the bound is
        one of schedules and fractional solutions that start nothing later.
    """
    grouped = request_classes(instance) if classes is None else classes
    a, s, o = grouped.arrival_times, grouped.prompt_lengths, grouped.output_lengths
    last = np.maximum(a, prices.horizon) if final is None else final
    padded = np.zeros(max(int(last.max()), prices.horizon) + int(o.max()) + 1, dtype=np.int64)
    padded[1 : prices.horizon + 1] = prices.numerators
    sums = np.cumsum(padded)
    weighted = np.cumsum(padded * np.arange(len(padded), dtype=np.int64))
    cheapest = np.zeros(len(o), dtype=np.int64)
    cheapest_starts(
        sums, weighted, block_minima(padded), prices.denominator, a, s, o, last, cheapest
    )
    each: IntArray = cheapest[grouped.class_of]
    paid = instance.memory_limit * int(sums[-1])
    return PriceBound(prices, sum(each.tolist()) - paid, each)
