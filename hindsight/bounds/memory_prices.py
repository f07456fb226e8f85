"""Lower bounds from memory prices, in exact integer arithmetic.

For any prices lambda_r >= 0 of a token of memory in round r, relaxing the memory rows gives

    L = sum_i min_{t >= a_i} [ w_i (t + o_i - a_i) + sum_{r=t+1}^{t+o_i} lambda_r (s_i + r - t) ]
        - M sum_r lambda_r  <=  optimum,

over *every* start, so no horizon enters. Prices are integers over a common denominator, hence L is
an exact rational and, the optimum being an integer, it may be rounded up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hindsight.outcomes.proofs import MemoryPrices
from hindsight.runtime.clock import never, timed_slices
from instances import Instance, InvalidValueError
from instances.arrays import IntArray

from .cheapest_starts import (
    PricedRounds,
    RequestClasses,
    block_minima,
    cheapest_starts,
    request_classes,
    start_costs,
)

PRICE_BITS = 10
"""Prices of a token are of the order of 1 / M: rounded to fewer bits they would prove little."""

INT64_HEADROOM = 2**61
"""Scaled costs are kept below this, so that sums of a few of them still fit in int64."""


def round_prices(
    prices: npt.NDArray[np.float64], instance: Instance, largest_denominator: int = 2**24
) -> MemoryPrices:
    """Round floats to multiples of a power of two that keeps `price_bound` exact.

    Negative and non-finite entries become 0: any non-negative prices give a valid bound. A price
    of 1 / M keeps `PRICE_BITS` bits, where the largest denominator alone would leave it fewer.
    """
    cleaned = np.where(np.isfinite(prices), np.maximum(prices, 0.0), 0.0)
    last = int(np.max(np.flatnonzero(cleaned), initial=-1)) + 1
    cleaned = cleaned[:last]
    latest = max(last, int(instance.arrival_times.max())) + int(instance.output_lengths.max())
    largest_prompt, heaviest = int(instance.prompt_lengths.max()), int(instance.weights.max())
    # The largest value that occurs: (s - t) sum lambda + sum r lambda, twice.
    weight = float(cleaned.sum()) * (2 * latest + largest_prompt) + heaviest * (2 * latest + 1)
    denominator = max(largest_denominator, 1 << (instance.memory_limit.bit_length() + PRICE_BITS))
    while denominator > 1 and weight * denominator >= INT64_HEADROOM:
        denominator //= 2
    if weight * denominator >= INT64_HEADROOM:
        return MemoryPrices(np.zeros(0, dtype=np.int64), 1)
    numerators = np.rint(cleaned * denominator).astype(np.int64)
    return MemoryPrices(numerators, denominator)


@dataclass(frozen=True, eq=False)
class PriceBound:
    """The exact Lagrangian bound of memory prices.

    Attributes
    ----------
    prices : MemoryPrices
        The prices that prove the bound.
    scaled_value : int
        The bound times ``prices.denominator``, an exact integer.
    cheapest : int64 array
        Minimum priced cost of each request, in the same units, shape (n,).
    """

    prices: MemoryPrices
    scaled_value: int
    cheapest: IntArray

    @property
    def bound(self) -> int:
        """Return the bound rounded up, as total latencies are integers."""
        return -(-self.scaled_value // self.prices.denominator)


def bound_without_prices(instance: Instance) -> PriceBound:
    """Return the bound at price 0 in every round: no request waits."""
    none = MemoryPrices(np.zeros(0, dtype=np.int64), 1)
    cheapest = instance.weights * instance.output_lengths
    return PriceBound(none, sum(cheapest.tolist()), cheapest)


class PricedCosts:
    """Exact priced costs of every start of every request.

    Costs are stored up to the last priced round; beyond it each further round of waiting or running
    adds a constant.

    Parameters
    ----------
    classes : RequestClasses or None, default None
        Classes of the instance's requests, if computed already.
    """

    def __init__(
        self, instance: Instance, prices: MemoryPrices, classes: RequestClasses | None = None
    ) -> None:
        self.classes = request_classes(instance) if classes is None else classes
        self.prices = prices
        horizon, outputs = prices.horizon, self.classes.output_lengths
        self._arrivals = np.minimum(self.classes.arrival_times, horizon)
        self._lengths = np.minimum(outputs, max(horizon, 1))
        self._units = prices.denominator * self.classes.weights
        self._beyond = self._units * (outputs - self._lengths)
        padded = np.zeros(horizon + int(self._lengths.max()) + 1, dtype=np.int64)
        padded[1 : horizon + 1] = prices.numerators
        weighted_sums = np.cumsum(padded * np.arange(len(padded), dtype=np.int64))
        self._rounds = PricedRounds(
            np.cumsum(padded), weighted_sums, block_minima(padded), prices.denominator
        )

    def of(self, index: int) -> tuple[int, IntArray]:
        """Compute scaled costs of starting request ``index`` at a_i, a_i + 1, ... to the horizon.

        Returns the first start and the costs; from the last entry on, a later start costs the
        weight times the denominator more a round, because no price is left.
        """
        k = int(self.classes.class_of[index])
        first = int(self._arrivals[k])
        sums, weighted_sums, _, _ = self._rounds
        costs = start_costs(
            sums,
            weighted_sums,
            int(self._units[k]),
            first,
            int(self.classes.prompt_lengths[k]),
            int(self._lengths[k]),
            first,
            self.prices.horizon + 1,
        )
        return int(self.classes.arrival_times[k]), costs + self._beyond[k]

    def cheapest(
        self, final: IntArray | None = None, should_stop: Callable[[], bool] = never
    ) -> IntArray:
        """Return the least scaled cost of each class over all starts, or those to ``final[k]``."""
        horizon = self.prices.horizon
        last = (
            np.full_like(self._arrivals, horizon)
            if final is None
            else np.clip(final, self._arrivals, horizon)
        )
        costs = np.zeros(len(last), dtype=np.int64)
        for part in timed_slices(len(last), should_stop):
            cheapest_starts(
                self._rounds,
                self._arrivals[part],
                self.classes.prompt_lengths[part],
                self._lengths[part],
                self.classes.weights[part],
                last[part],
                costs[part],
            )
        costs += self._beyond
        return costs


def price_bound(
    instance: Instance,
    prices: MemoryPrices,
    *,
    classes: RequestClasses | None = None,
    should_stop: Callable[[], bool] = never,
) -> PriceBound:
    """Evaluate the bound of this module in exact arithmetic.

    Requests with equal arrival and lengths are priced once, and blocks of starts that cannot hold a
    minimum are skipped (`hindsight.bounds.cheapest_starts`).

    Parameters
    ----------
    instance : Instance
        The problem.
    prices : MemoryPrices
        Prices of memory in each round.
    classes : RequestClasses or None, default None
        Classes of the instance's requests, if computed already.
    should_stop : Callable[[], bool], default never
        Polled; returning True stops the computation.

    Raises
    ------
    StoppedEarlyError
        ``should_stop`` returned True.
    """
    instance.require_tokens()
    costs = PricedCosts(instance, prices, classes)
    cheapest: IntArray = costs.cheapest(should_stop=should_stop)[costs.classes.class_of]
    paid = instance.memory_limit * sum(prices.numerators.tolist())
    return PriceBound(prices, sum(cheapest.tolist()) - paid, cheapest)


def useful_starts(
    instance: Instance, bound: PriceBound, upper_bound: int, latest_completion: int | None = None
) -> list[IntArray]:
    """Return, per request, the starts that a schedule of total latency <= ``upper_bound`` can use.

    A start whose priced cost exceeds the request's cheapest by more than ``upper_bound`` - L
    belongs only to worse schedules (reduced-cost fixing). The lists are complete over all
    rounds, priced or not, so their largest completion is a *proved* horizon: every schedule at
    least as good as ``upper_bound`` ends by then. Unlike a strict improvement test this keeps the
    schedules of latency exactly ``upper_bound``, so the incumbent stays representable.
    ``latest_completion`` leaves out starts that complete later; proving that it may is the
    caller's business.

    Raises
    ------
    InvalidValueError
        ``upper_bound`` lies below the bound, which no feasible schedule does.
    """
    denominator = bound.prices.denominator
    slack = denominator * upper_bound - bound.scaled_value
    if slack < 0:
        raise InvalidValueError(
            None, "upper_bound", upper_bound, f"is below the proved lower bound {bound.bound}"
        )
    costs = PricedCosts(instance, bound.prices)
    allowed: list[IntArray] = []
    for index in range(len(instance)):
        first, priced = costs.of(index)
        excess = priced - int(bound.cheapest[index])
        starts = first + np.flatnonzero(excess <= slack)
        beyond = (slack - int(excess[-1])) // (denominator * instance[index].weight)
        last = first + len(priced) - 1
        final = last + max(0, beyond)
        if latest_completion is not None:
            final = min(final, latest_completion - instance[index].output_length)
            starts = starts[starts <= final]
        if final > last:
            starts = np.concatenate([starts, np.arange(last + 1, final + 1)])
        allowed.append(starts.astype(np.int64))
    return allowed
