"""Cheapest starts under memory prices per round, at any size.

Under prices lambda_r >= 0 of a token in round r, request (a, s, o) pays for starting at t

    P(t) = w (t + o - a) + sum_{r = t+1}^{t+o} lambda_r (s + r - t)

with its weight w, which takes four look-ups in running sums of lambda_r and r lambda_r. Starts are
visited in blocks of consecutive rounds: with v its volume and m the smallest price from the block
to the last round a start in it reaches, P >= w ((first start of the block) + o - a) + v m, so
blocks that cannot hold the minimum are never priced. The same code runs on exact integers and on
floats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import plain_at_first, step
from instances import Instance
from instances.arrays import FloatArray, IntArray

BLOCK = 256
"""Starts in a block."""


class PricedRounds(NamedTuple):
    """Prices of rounds, prepared for pricing starts.

    Attributes
    ----------
    sums, weighted_sums : array
        Running sums of the prices lambda_r of memory in round r, and of r lambda_r, from r = 0 to
        the last possible completion.
    minima : array
        `block_minima` of lambda.
    unit : Any
        Cost of one round of latency of weight 1, in the units of the prices.
    """

    sums: npt.NDArray[Any]
    weighted_sums: npt.NDArray[Any]
    minima: npt.NDArray[Any]
    unit: Any


class RequestClasses(NamedTuple):
    """Distinct (a, s, o, w) of an instance.

    Attributes
    ----------
    arrival_times, prompt_lengths, output_lengths, weights : int64 array, shape (classes,)
        Sorted by arrival.
    counts : float64 array
        Requests of each class, float64, shape (classes,).
    class_of : int64 array
        The class of each request, int64, shape (n,).
    """

    arrival_times: IntArray
    prompt_lengths: IntArray
    output_lengths: IntArray
    weights: IntArray
    counts: FloatArray
    class_of: IntArray


def request_classes(instance: Instance) -> RequestClasses:
    """Group requests with equal arrival time, lengths and weight."""
    rows = np.column_stack(
        [
            instance.arrival_times,
            instance.prompt_lengths,
            instance.output_lengths,
            instance.weights,
        ]
    )
    distinct, class_of, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    columns = [np.ascontiguousarray(distinct[:, k]) for k in range(4)]
    return RequestClasses(
        columns[0],
        columns[1],
        columns[2],
        columns[3],
        counts.astype(np.float64),
        np.asarray(class_of, dtype=np.int64).reshape(-1),
    )


def requests_from(instance: Instance, first: IntArray) -> RequestClasses:
    """Return each request as a class of its own that arrives in round ``first[i]``."""
    n = len(instance)
    # Copies, as read-only columns have loops compiled a second time.
    lengths = instance.prompt_lengths.copy(), instance.output_lengths.copy()
    weights = instance.weights.copy()
    return RequestClasses(first.copy(), *lengths, weights, np.ones(n), np.arange(n))


def block_minima(prices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Smallest price of each block of rounds; ``prices[r]`` is that of round r, from r = 0 on.

    Round 0 has no price and must not count: it takes that of round 1 here.
    """
    padded = np.zeros(-(-len(prices) // BLOCK) * BLOCK, dtype=prices.dtype)
    padded[: len(prices)] = prices
    if len(prices) > 1:
        padded[0] = prices[1]
    least: npt.NDArray[Any] = padded.reshape(-1, BLOCK).min(axis=1)
    return least


@step
def block_floor(minima: npt.NDArray[Any], begin: int, end: int, o: int) -> Any:
    """Return a lower limit on the price of rounds begin + 1 .. end - 1 + o."""
    first, last = begin // BLOCK, (end - 1 + o) // BLOCK
    if last >= len(minima):
        return minima[0] - minima[0]
    least = minima[first]
    for b in range(first + 1, last + 1):
        least = min(least, minima[b])
    return least


@step
def start_cost(
    sums: npt.NDArray[Any],
    weighted_sums: npt.NDArray[Any],
    unit: Any,
    a: int,
    s: int,
    o: int,
    start: int,
) -> Any:
    """unit (start + o - a) + priced memory: what request (a, s, o) pays for ``start``.

    Parameters
    ----------
    sums, weighted_sums : array
        Running sums of lambda_r and r lambda_r from r = 0 to start + o at least.
    unit : Any
        Cost of one round of this request's latency, in the units of the prices.
    a, s, o : int
        Arrival, prompt and output length.
    start : int
        Round after which the request begins.
    """
    end = start + o
    return (
        unit * (end - a)
        + (s - start) * (sums[end] - sums[start])
        + (weighted_sums[end] - weighted_sums[start])
    )


@plain_at_first
def start_costs(
    sums: npt.NDArray[Any],
    weighted_sums: npt.NDArray[Any],
    unit: Any,
    a: int,
    s: int,
    o: int,
    begin: int,
    end: int,
) -> npt.NDArray[Any]:
    """Return `start_cost` of the starts begin .. end - 1."""
    costs = np.empty(max(0, end - begin), sums.dtype)
    for k in range(len(costs)):
        costs[k] = start_cost(sums, weighted_sums, unit, a, s, o, begin + k)
    return costs


@step
def _cheapest_start(
    prices: PricedRounds, request: tuple[int, int, int, int], last: int, where: int
) -> tuple[Any, int]:
    """Find min over t = a .. last of `start_cost` and a start that attains it, from a guess."""
    sums, weighted_sums, minima, _ = prices
    a, s, o, w = request
    unit = prices.unit * w
    volume = s * o + o * (o + 1) // 2
    where = min(max(where, a), last)
    best = start_cost(sums, weighted_sums, unit, a, s, o, where)
    begin = a
    # Later starts cost more even at no price.
    while begin <= last and unit * (begin + o - a) <= best:
        end = min(last + 1, (begin // BLOCK + 1) * BLOCK)
        floor = unit * (begin + o - a) + volume * block_floor(minima, begin, end, o)
        if floor <= best:
            for t in range(begin, end):
                cost = start_cost(sums, weighted_sums, unit, a, s, o, t)
                if cost < best:
                    best, where = cost, t
        begin = end
    return best, where


@plain_at_first
def cheapest_starts(
    prices: PricedRounds,
    a: IntArray,
    s: IntArray,
    o: IntArray,
    w: IntArray,
    final: IntArray,
    cheapest: npt.NDArray[Any],
) -> None:
    """Write, exactly, min over t = a[i] .. final[i] of `start_cost` for every class.

    Prices must reach at least to round final[i] + o[i].
    """
    where = 0
    for i in range(len(o)):
        cheapest[i], where = _cheapest_start(prices, (a[i], s[i], o[i], w[i]), final[i], where)
