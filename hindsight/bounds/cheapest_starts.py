"""Cheapest starts under memory prices per round, at any size.

Under prices lambda_r >= 0 of a token in round r, request (a, s, o) pays for starting at t

    P(t) = t + o - a + sum_{r = t+1}^{t+o} lambda_r (s + r - t),

four look-ups in the running sums of lambda_r and r lambda_r. Starts are looked at in blocks of
consecutive rounds: with v its volume and m the smallest price from the block to the last round a
start in it reaches, P >= (first start of the block) + o - a + v m, so blocks that cannot hold the
minimum are never priced. The same code runs on exact integers and on floats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit
from instances import Instance
from instances.arrays import FloatArray, IntArray

BLOCK = 256
"""Starts in a block."""


class PricedRounds(NamedTuple):
    """Prices, in the form in which starts are priced.

    Attributes
    ----------
    sums, weighted_sums : array
        Running sums of lambda_r and r lambda_r from r = 0 on, to every completion.
    minima : array
        `block_minima` of lambda.
    unit : Any
        The price of a round of latency.
    """

    sums: npt.NDArray[Any]
    weighted_sums: npt.NDArray[Any]
    minima: npt.NDArray[Any]
    unit: Any


class RequestClasses(NamedTuple):
    """Distinct (a, s, o) of an instance.

    Attributes
    ----------
    arrival_times, prompt_lengths, output_lengths : int64 array, shape (classes,)
        Sorted by arrival.
    counts : float64 array
        Requests of each class, float64, shape (classes,).
    class_of : int64 array
        The class of each request, int64, shape (n,).
    """

    arrival_times: IntArray
    prompt_lengths: IntArray
    output_lengths: IntArray
    counts: FloatArray
    class_of: IntArray

    def grouped(self, values: IntArray) -> list[IntArray]:
        """A value of each request, shape (n,), class by class."""
        by_class = np.argsort(self.class_of, kind="stable")
        ends = np.cumsum(self.counts.astype(np.int64))
        return np.split(values[by_class], ends[:-1])


def request_classes(instance: Instance) -> RequestClasses:
    """Group requests that are alike."""
    rows = np.column_stack(
        [instance.arrival_times, instance.prompt_lengths, instance.output_lengths]
    )
    distinct, class_of, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    columns = [np.ascontiguousarray(distinct[:, k]) for k in range(3)]
    return RequestClasses(
        columns[0],
        columns[1],
        columns[2],
        counts.astype(np.float64),
        np.asarray(class_of, dtype=np.int64).reshape(-1),
    )


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


@njit
def _block_floor(minima: npt.NDArray[Any], begin: int, end: int, o: int) -> Any:
    """Smallest price of rounds begin + 1 .. end - 1 + o, or less."""
    first, last = begin // BLOCK, (end - 1 + o) // BLOCK
    if last >= len(minima):
        return minima[0] - minima[0]
    return minima[first : last + 1].min()


@njit
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
        The price of a round of latency.
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


@njit
def start_costs(
    sums: npt.NDArray[Any],
    weighted_sums: npt.NDArray[Any],
    unit: Any,
    a: int,
    s: int,
    o: int,
    begin: int,
    end: int,
    stride: int,
) -> npt.NDArray[Any]:
    """`start_cost` of begin, begin + stride, .. before ``end``."""
    costs = np.empty(max(0, (end - begin + stride - 1) // stride), sums.dtype)
    for k in range(len(costs)):
        costs[k] = start_cost(sums, weighted_sums, unit, a, s, o, begin + stride * k)
    return costs


@njit
def cheapest_start(
    prices: PricedRounds,
    reach: Any,
    a: int,
    s: int,
    o: int,
    final: int,
    hint: int,
    stride: int,
    phase: int,
) -> tuple[Any, int, int, int]:
    """min over t = a .. final of unit (t + o - a) + priced memory, exactly.

    With a ``stride`` above 1, a power of two up to `BLOCK`, only over t = phase modulo stride (and
    ``final``, where the hint is beyond).

    Parameters
    ----------
    prices : PricedRounds
        Up to round final + o at least.
    reach : Any
        How far above the minimum a start is still of interest.
    a : int
        Arrival of the request.
    s : int
        Its prompt length.
    o : int
        Its output length.
    final : int
        Its last start.
    hint : int
        A start tried first.
    stride : int
        1, or a power of two up to `BLOCK`.
    phase : int
        Remainder of those starts by ``stride``.

    Returns
    -------
    tuple[Any, int, int, int]
        The minimum, a start that has it, and begin and end of a range of starts that holds all
        those within ``reach`` of it.
    """
    sums, weighted_sums, minima, unit = prices
    volume = s * o + o * (o + 1) // 2
    at = max(hint, a)
    at = min(at + (phase - at) % stride, final)
    best = start_cost(sums, weighted_sums, unit, a, s, o, at)
    where = at
    lo, hi = at, at + 1
    begin = a
    while begin <= final and unit * (begin + o - a) <= best + reach:
        end = min(final + 1, (begin // BLOCK + 1) * BLOCK)
        floor = unit * (begin + o - a) + volume * _block_floor(minima, begin, end, o)
        first = begin + (phase - begin) % stride
        if floor <= best + reach and first < end:
            costs = start_costs(sums, weighted_sums, unit, a, s, o, first, end, stride)
            least = costs.min()
            if least < best:
                best = least
                where = int(first + stride * costs.argmin())
            if least <= best + reach:
                lo, hi = min(lo, begin), max(hi, end)
        begin = end
    return best, where, lo, hi


@njit
def cheapest_starts(
    prices: PricedRounds,
    a: IntArray,
    s: IntArray,
    o: IntArray,
    final: IntArray,
    cheapest: npt.NDArray[Any],
) -> None:
    """`cheapest_start` of every class up to ``final[i]``, into ``cheapest``."""
    hint, nothing = 0, prices.unit - prices.unit
    for i in range(len(o)):
        best, hint, _, _ = cheapest_start(prices, nothing, a[i], s[i], o[i], final[i], hint, 1, 0)
        cheapest[i] = best
