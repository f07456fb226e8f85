"""Gibbs weights over starts, from memory prices per round, at any size.

What a request pays for its start is told in `hindsight.bounds.cheapest_starts`. The weights
exp(-P(t) / temperature), normalised over t, are the gradient of a smooth stand-in for min P and a
fractional solution of the relaxation but for its memory rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hindsight.bounds.cheapest_starts import (
    PricedRounds,
    RequestClasses,
    cheapest_start,
    start_costs,
)
from hindsight.runtime.compilation import njit
from instances.arrays import FloatArray, IntArray

SPREAD = 18.0
"""Weights below exp(-18) of the largest are left out: the rest of the mass moves together."""


class StartWindows(NamedTuple):
    """The Gibbs weights of each class, all of shape (classes,).

    Attributes
    ----------
    first, last : int64 array
        The starts before ``last`` from ``first`` on, stride by stride, have weights.
    hints : int64 array
        A cheapest start.
    cheapest : float64 array
        Least priced cost over the starts that have weights.
    mass : float64 array
        Sum of the weights, the largest of which is 1.
    mean_starts : float64 array
        Under the weights.
    """

    first: IntArray
    last: IntArray
    hints: IntArray
    cheapest: FloatArray
    mass: FloatArray
    mean_starts: FloatArray


@njit
def soft_starts(
    prices: PricedRounds,
    classes: RequestClasses,
    begin_class: int,
    end_class: int,
    final: IntArray,
    temperature: float,
    stride: int,
    entering: FloatArray,
    running: FloatArray,
    windows: StartWindows,
) -> None:
    """Windows of the Gibbs weights of classes begin_class .. end_class - 1, and their memory.

    Memory in round r is the running sum to r of ``entering`` plus that of the running sum of
    ``running``, to which this adds. Of ``windows`` the hints are read too. Each class has weights
    on every ``stride``-th start, class after class one start later, so that together they still
    begin in every round.
    """
    sums, weighted_sums, _, _ = prices
    a, s, o, counts, _ = classes
    first, last, hints, cheapest, mass, mean_starts = windows
    reach = SPREAD * temperature
    for i in range(begin_class, end_class):
        ai, si, oi = a[i], s[i], o[i]
        phase = i % stride
        best, where, begin, end = cheapest_start(
            prices, reach, ai, si, oi, final[i], hints[i], stride, phase
        )
        hints[i] = where
        begin += (phase - begin) % stride
        if begin >= end:
            begin = end - 1
        costs = start_costs(sums, weighted_sums, 1.0, ai, si, oi, begin, end, stride)
        best = costs.min()
        near = np.flatnonzero(costs <= best + reach)
        lo, hi = begin + stride * near[0], begin + stride * near[-1] + 1
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
    prices: PricedRounds,
    classes: RequestClasses,
    begin_class: int,
    end_class: int,
    temperature: float,
    windows: StartWindows,
    left: IntArray,
    share: FloatArray,
    samples: int,
    curvature: FloatArray,
) -> None:
    """Add the covariances of memory per knot, over temperature, to ``curvature`` (knots, knots).

    The price in round r is y[left[r]] (1 - share[r]) + y[left[r] + 1] share[r]. Windows longer
    than ``samples`` starts are thinned out to about that many.
    """
    sums, weighted_sums, _, _ = prices
    _, s, o, counts, _ = classes
    first, last, _, _, _, _ = windows
    for i in range(begin_class, end_class):
        lo, hi, si, oi = first[i], last[i], s[i], o[i]
        if hi - lo < 2:
            continue
        stride = (hi - lo + samples - 1) // samples
        at = np.arange(lo + (hi - lo - 1) % stride // 2, hi, stride)
        # Only differences matter: as if it had arrived in round o.
        cost = start_costs(sums, weighted_sums, 1.0, oi, si, oi, at[0], hi, stride)
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
