"""Compiled simulated annealing over the inputs of the decoder (`schedule_decoder`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit
from instances.arrays import IntArray, RequestColumns

from .schedule_decoder import Encoding, Profile, Span, decode


class Cooling(NamedTuple):
    """What one annealing changes, and how long it takes.

    Attributes
    ----------
    low, high : int
        Positions low .. high - 1 may change; those from high to the end of ``span`` are decoded
        again behind them.
    span : Span
        Of every decoding.
    moves : int
        In all.
    hot, cold : float
        First and last temperature, in rounds; between them it falls geometrically.
    """

    low: int
    high: int
    span: Span
    moves: int
    hot: float
    cold: float


@njit
def next_uniform(state: IntArray) -> float:
    """A float in [0, 1) from xorshift32 (Marsaglia 2003).

    32-bit words held in 64 bits. ``state``, of shape (1,), is advanced in place; it must not be 0.
    """
    x = state[0]
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    state[0] = x
    number: float = x / 4294967296.0
    return number


@njit
def _copy(source: Encoding, target: Encoding) -> None:
    target.order[:] = source.order
    target.delay[:] = source.delay
    target.starts[:] = source.starts


@njit
def anneal(
    requests: RequestColumns,
    cooling: Cooling,
    current: Encoding,
    best: Encoding,
    best_cost: float,
    work: Profile,
    state: IntArray,
    first_move: int,
    last_move: int,
) -> float:
    """Moves first_move .. last_move - 1 of a cooling, from ``current``; ``state``: `next_uniform`.

    The acceptance threshold is drawn before the decoding, so that most moves are cut off early.
    Returns the best cost, with its encoding in ``best``.
    """
    low, high, span, total_moves, hot, cold = cooling
    order, delay, starts = current
    stop = span.stop
    max_delay = max(1, requests.output_lengths.max() // 2)
    out = starts.copy()
    trial = order.copy()
    trial_encoding = Encoding(trial, delay, starts)
    cost = decode(requests, current, low, span, out, work, 1e300)
    for j in range(low, stop):
        starts[order[j]] = out[order[j]]
    if cost < best_cost:
        best_cost = cost
        _copy(current, best)
    width = high - low
    for move in range(first_move, last_move):
        temperature = hot * (cold / hot) ** (move / total_moves)
        bound = cost - temperature * np.log(next_uniform(state) + 1e-300)
        kind = next_uniform(state)
        changed = -1
        old_delay = 0
        p = low + int(next_uniform(state) * width)
        if kind < 0.2:
            changed = order[p]
            old_delay = delay[changed]
            if old_delay > 0 and next_uniform(state) < 0.6:
                delay[changed] = 0
            else:
                delay[changed] = 1 + int(next_uniform(state) * max_delay)
            if delay[changed] == old_delay:
                continue
            first = p
            last = p
        else:
            if next_uniform(state) < 0.5:
                q = low + int(next_uniform(state) * width)
            else:
                q = p - 5 + int(next_uniform(state) * 11)
            if q == p or q < low or q >= high:
                continue
            first = min(p, q)
            last = max(p, q)
            i = order[p]
            if kind < 0.6:  # exchange
                trial[p] = order[q]
                trial[q] = i
            elif p < q:  # insertion
                for j in range(p, q):
                    trial[j] = order[j + 1]
                trial[q] = i
            else:
                for j in range(p, q, -1):
                    trial[j] = order[j - 1]
                trial[q] = i
            if next_uniform(state) < 0.5:  # a delay fits one place only: forget it half the time
                changed = i
                old_delay = delay[i]
                delay[i] = 0
        new_cost = decode(requests, trial_encoding, first, span, out, work, bound)
        if new_cost >= 0:
            cost = new_cost
            for j in range(first, last + 1):
                order[j] = trial[j]
            for j in range(first, stop):
                starts[order[j]] = out[order[j]]
            if cost < best_cost:
                best_cost = cost
                _copy(current, best)
        else:
            for j in range(first, last + 1):
                trial[j] = order[j]
            if changed >= 0:
                delay[changed] = old_delay
    return best_cost
