"""Cheapest starts and Gibbs weights over starts, from memory prices per round, at any size.

Under prices lambda_r >= 0 of a token in round r, request (a, s, o) pays for starting at t

    P(t) = t + o - a + sum_{r = t+1}^{t+o} lambda_r (s + r - t),

four look-ups in the running sums of lambda_r and r lambda_r. Starts are looked at in blocks of
consecutive rounds: with v its volume and m the smallest price from the block to the last round a
start in it reaches, P >= (first start of the block) + o - a + v m, so blocks that cannot hold the
minimum are never priced. The same code runs on exact integers and on floats.

The weights exp(-P(t) / temperature), normalised over t, are the gradient of a smooth stand-in for
min P and a fractional solution of the relaxation but for its memory rows. What is inside the
loops over requests is written on slices, so that it is bearable without numba too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hindsight.runtime.optional_numba import njit
from instances import Instance
from instances.arrays import FloatArray, IntArray

SPREAD = 18.0
"""Weights below exp(-18) of the largest are left out: the rest of the mass moves together."""

BLOCK = 256
"""Starts in a block."""


@dataclass(frozen=True, eq=False)
class RequestClasses:
    """Distinct (a, s, o) of an instance.

    Attributes
    ----------
    arrival_times, prompt_lengths, output_lengths : int64, shape (classes,), sorted by arrival.
    counts : requests of each class, float64, shape (classes,).
    class_of : the class of each request, int64, shape (n,).
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
def cheapest_start(
    sums: npt.NDArray[Any],
    weighted_sums: npt.NDArray[Any],
    minima: npt.NDArray[Any],
    unit: Any,
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
    sums, weighted_sums : running sums of lambda_r and r lambda_r from r = 0 to final + o at least.
    minima : `block_minima` of lambda.
    unit : the price of a round of latency.
    reach : how far above the minimum a start is still of interest.
    hint : a start tried first.

    Returns
    -------
    The minimum, a start that has it, and begin and end of a range of starts that holds all those
    within ``reach`` of it.
    """
    volume = s * o + o * (o + 1) // 2
    at = max(hint, a)
    at = min(at + (phase - at) % stride, final)
    best = (
        unit * (at + o - a)
        + (s - at) * (sums[at + o] - sums[at])
        + (weighted_sums[at + o] - weighted_sums[at])
    )
    where = at
    lo, hi = at, at + 1
    begin = a
    while begin <= final and unit * (begin + o - a) <= best + reach:
        end = min(final + 1, (begin // BLOCK + 1) * BLOCK)
        floor = unit * (begin + o - a) + volume * _block_floor(minima, begin, end, o)
        first = begin + (phase - begin) % stride
        if floor <= best + reach and first < end:
            starts = np.arange(first, end, stride)
            costs = (
                unit * (starts + (o - a))
                + (s - starts) * (sums[first + o : end + o : stride] - sums[first:end:stride])
                + (weighted_sums[first + o : end + o : stride] - weighted_sums[first:end:stride])
            )
            least = costs.min()
            if least < best:
                best = least
                where = first + stride * costs.argmin()
            if least <= best + reach:
                lo, hi = min(lo, begin), max(hi, end)
        begin = end
    return best, where, lo, hi


@njit
def cheapest_starts(
    sums: npt.NDArray[Any],
    weighted_sums: npt.NDArray[Any],
    minima: npt.NDArray[Any],
    unit: Any,
    a: IntArray,
    s: IntArray,
    o: IntArray,
    final: IntArray,
    cheapest: npt.NDArray[Any],
) -> None:
    """`cheapest_start` of every class up to ``final[i]``, into ``cheapest``."""
    hint = 0
    for i in range(len(o)):
        best, hint, _, _ = cheapest_start(
            sums, weighted_sums, minima, unit, unit - unit, a[i], s[i], o[i], final[i], hint, 1, 0
        )
        cheapest[i] = best


@njit
def soft_starts(
    sums: FloatArray,
    weighted_sums: FloatArray,
    minima: FloatArray,
    a: IntArray,
    s: IntArray,
    o: IntArray,
    counts: FloatArray,
    final: IntArray,
    temperature: float,
    stride: int,
    position: int,
    entering: FloatArray,
    running: FloatArray,
    first: IntArray,
    last: IntArray,
    hints: IntArray,
    cheapest: FloatArray,
    mass: FloatArray,
    mean_starts: FloatArray,
) -> None:
    """Minima of P, windows of the Gibbs weights, their masses and means, and changes of memory.

    Memory in round r is the running sum to r of ``entering`` plus that of the running sum of
    ``running``, to which this adds. All arrays after them are written; ``hints`` is read too. Each
    class has weights on every ``stride``-th start, class after class one start later, so that
    together they still begin in every round; the first given is class number ``position``.
    """
    reach = SPREAD * temperature
    for i in range(len(o)):
        ai, si, oi = a[i], s[i], o[i]
        hint, phase = hints[i], (position + i) % stride
        best, where, begin, end = cheapest_start(
            sums, weighted_sums, minima, 1.0, reach, ai, si, oi, final[i], hint, stride, phase
        )
        hints[i] = where
        begin += (phase - begin) % stride
        if begin >= end:
            begin = end - 1
        at = np.arange(begin, end, stride)
        costs = (
            (at + (oi - ai))
            + (si - at) * (sums[begin + oi : end + oi : stride] - sums[begin:end:stride])
            + (weighted_sums[begin + oi : end + oi : stride] - weighted_sums[begin:end:stride])
        )
        best = costs.min()
        near = np.flatnonzero(costs <= best + reach)
        lo, hi = at[near[0]], at[near[-1]] + 1
        weights = np.exp((best - costs[near[0] : near[-1] + 1]) / temperature)
        total = weights.sum()
        cheapest[i] = best
        mass[i] = total
        first[i], last[i] = lo, hi
        mean_starts[i] = lo + stride * (weights * np.arange(len(weights))).sum() / total
        weights *= counts[i] / total
        entering[lo + 1 : hi + 1 : stride] += si * weights
        running[lo + 1 : hi + 1 : stride] += weights
        entering[lo + 1 + oi : hi + 1 + oi : stride] -= (si + oi) * weights
        running[lo + 1 + oi : hi + 1 + oi : stride] -= weights


@njit
def price_curvature(
    sums: FloatArray,
    weighted_sums: FloatArray,
    a: IntArray,
    s: IntArray,
    o: IntArray,
    counts: FloatArray,
    temperature: float,
    first: IntArray,
    last: IntArray,
    left: IntArray,
    share: FloatArray,
    samples: int,
    curvature: FloatArray,
) -> None:
    """Add the covariances of memory per knot, over temperature, to ``curvature`` (knots, knots).

    The price in round r is y[left[r]] (1 - share[r]) + y[left[r] + 1] share[r]. Windows longer
    than ``samples`` starts are thinned out to about that many.
    """
    for i in range(len(o)):
        lo, hi, si, oi = first[i], last[i], s[i], o[i]
        if hi - lo < 2:
            continue
        stride = (hi - lo + samples - 1) // samples
        at = np.arange(lo + (hi - lo - 1) % stride // 2, hi, stride)
        cost = (
            at
            + (si - at) * (sums[at + oi] - sums[at])
            + (weighted_sums[at + oi] - weighted_sums[at])
        )
        weights = np.exp((cost.min() - cost) / temperature)
        weights /= weights.sum()
        base = left[lo + 1]
        width = left[hi - 1 + oi] + 2 - base
        profiles = np.zeros((len(at), width))
        held = np.arange(1, oi + 1) + float(si)
        for k in range(len(at)):
            t = at[k]
            knots = left[t + 1 : t + oi + 1] - base
            up = held * share[t + 1 : t + oi + 1]
            profiles[k] = np.bincount(knots, held - up, width) + np.bincount(knots + 1, up, width)
        centred = profiles - weights @ profiles
        scaled = centred * np.sqrt(weights * (counts[i] / temperature)).reshape(-1, 1)
        curvature[base : base + width, base : base + width] += scaled.T @ scaled
