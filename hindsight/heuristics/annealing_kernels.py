"""Compiled simulated annealing over the inputs of the decoder (`schedule_decoder`)."""

from __future__ import annotations

import numpy as np

from hindsight.runtime.compilation import njit
from instances.arrays import IntArray

from .schedule_decoder import decode


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
def anneal(
    order: IntArray,
    delay: IntArray,
    starts: IntArray,
    best_order: IntArray,
    best_delay: IntArray,
    best_starts: IntArray,
    profile: IntArray,
    filled: IntArray,
    prompt: IntArray,
    output: IntArray,
    arrival: IntArray,
    limit: int,
    low: int,
    high: int,
    stop: int,
    tail_weight: float,
    tail_size: int,
    best_cost: float,
    state: IntArray,
    first_move: int,
    last_move: int,
    total_moves: int,
    hot: float,
    cold: float,
    max_delay: int,
) -> float:
    """Moves first_move .. last_move - 1 of a geometric cooling of ``total_moves``.

    Positions low .. high - 1 may change; high .. stop - 1 are decoded again behind them.
    The acceptance threshold is drawn before the decoding, so that most moves are cut off early.
    Returns the best cost (its encoding in ``best_*``). ``order``, ``delay``, ``starts``, shape
    (n,), hold the state, and ``state`` that of `next_uniform`. The other arguments are
    those of `decode`.
    """
    out = starts.copy()
    trial = order.copy()
    bound = 1e300
    cost = decode(
        order,
        delay,
        low,
        stop,
        starts,
        out,
        profile,
        filled,
        prompt,
        output,
        arrival,
        limit,
        tail_weight,
        tail_size,
        bound,
    )
    for j in range(low, stop):
        starts[order[j]] = out[order[j]]
    if cost < best_cost:
        best_cost = cost
        best_order[:] = order
        best_delay[:] = delay
        best_starts[:] = starts
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
        new_cost = decode(
            trial,
            delay,
            first,
            stop,
            starts,
            out,
            profile,
            filled,
            prompt,
            output,
            arrival,
            limit,
            tail_weight,
            tail_size,
            bound,
        )
        if new_cost >= 0:
            cost = new_cost
            for j in range(first, last + 1):
                order[j] = trial[j]
            for j in range(first, stop):
                starts[order[j]] = out[order[j]]
            if cost < best_cost:
                best_cost = cost
                best_order[:] = order
                best_delay[:] = delay
                best_starts[:] = starts
        else:
            for j in range(first, last + 1):
                trial[j] = order[j]
            if changed >= 0:
                delay[changed] = old_delay
    return best_cost
