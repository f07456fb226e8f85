"""Compiled simulated annealing over the inputs of the decoder (`schedule_decoder`)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import largest, njit, overwrite, step
from instances.arrays import IntArray, RequestColumns

from .schedule_decoder import Encoding, Profile, Span, decode


class Work(NamedTuple):
    """Work arrays of an annealing.

    Attributes
    ----------
    current, best : Encoding
        The schedule that moves change, and the best one found.
    profile : Profile
        Work space for decodings.
    state : int64 array, shape (1,)
        State of the generator `next_uniform`.
    """

    current: Encoding
    best: Encoding
    profile: Profile
    state: IntArray


class Cooling(NamedTuple):
    """Scope, length and temperatures of one annealing.

    Attributes
    ----------
    low, high : int
        Positions low .. high - 1 may change; positions from high to the end of ``span`` are decoded
        again behind them.
    span : Span
        Range of positions that every decoding covers.
    moves : int
        Number of moves in all.
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
    """Return a float in [0, 1) from xorshift32 (Marsaglia 2003).

    32-bit words held in 64 bits. ``state``, of shape (1,), is advanced in place; it must not be 0.
    """
    x = state[0]
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    state[0] = x
    number: float = x / 4294967296.0
    return number


@step
def threshold(cost: float, hot: float, cold: float, share: float, uniform: float) -> float:
    """Draw the largest acceptable cost of a move (Metropolis) at a given share of the cooling.

    It is drawn before the cost of the move is known, so that the evaluation can stop early.
    """
    temperature = hot * (cold / hot) ** share
    most: float = cost - temperature * np.log(uniform)
    return most


@step
def move_entry(trial: IntArray, order: IntArray, p: int, q: int, exchange: bool) -> None:
    """Move the entry at position p of ``trial``, a copy of ``order``, to position q.

    With ``exchange`` the two entries swap; otherwise those in between shift by one.
    """
    if exchange:
        trial[p] = order[q]
    else:
        step = 1 if p < q else -1
        for j in range(p, q, step):
            trial[j] = order[j + step]
    trial[q] = order[p]


@step
def _redraw_delay(delay: IntArray, i: int, longest: int, state: IntArray) -> None:
    """Reset the delay of a request to 0, or draw another of 1 .. ``longest`` rounds."""
    if delay[i] > 0 and next_uniform(state) < 0.6:
        delay[i] = 0
    else:
        delay[i] = 1 + int(next_uniform(state) * longest)


@step
def _draw_place(p: int, low: int, width: int, state: IntArray) -> int:
    """Draw another position for the request at p, anywhere in the piece or nearby."""
    if next_uniform(state) < 0.5:
        return low + int(next_uniform(state) * width)
    return p - 5 + int(next_uniform(state) * 11)


@step
def _accept(
    work: Work, out: IntArray, first: int, stop: int, cost: float, best_cost: float
) -> float:
    """Take over the starts decoded into ``out``, also as the best if they are; return the cost."""
    current, best, _, _ = work
    order, delay, starts = current
    for j in range(first, stop):
        starts[order[j]] = out[order[j]]
    if cost >= best_cost:
        return best_cost
    overwrite(best.order, order)
    overwrite(best.delay, delay)
    overwrite(best.starts, starts)
    return cost


@partial(njit, makes_arrays=True)
def anneal(
    requests: RequestColumns,
    cooling: Cooling,
    work: Work,
    best_cost: float,
    first_move: int,
    last_move: int,
) -> float:
    """Make moves first_move .. last_move - 1 of a cooling; return the best cost found."""
    low, high, span, total_moves, hot, cold = cooling
    current, _, profile, state = work
    order, delay, starts = current
    stop = span.stop
    max_delay = max(1, largest(requests.output_lengths) // 2)
    out = starts.copy()
    trial = order.copy()
    trial_encoding = Encoding(trial, delay, starts)
    cost = decode(requests, current, low, span, out, profile, 1e300)
    best_cost = _accept(work, out, low, stop, cost, best_cost)
    for move in range(first_move, last_move):
        uniform = next_uniform(state) + 1e-300
        bound = threshold(cost, hot, cold, move / total_moves, uniform)
        kind = next_uniform(state)
        p = low + int(next_uniform(state) * (high - low))
        i = order[p]
        old_delay = delay[i]
        if kind < 0.2:
            # Change the delay of one request.
            _redraw_delay(delay, i, max_delay, state)
            if delay[i] == old_delay:
                continue
            first = last = p
        else:
            # Move one request to another place, by exchange or insertion.
            q = _draw_place(p, low, high - low, state)
            if q == p or q < low or q >= high:
                continue
            first, last = min(p, q), max(p, q)
            move_entry(trial, order, p, q, kind < 0.6)
            # A delay suits only one place: reset it half the time.
            if next_uniform(state) < 0.5:
                delay[i] = 0
        new_cost = decode(requests, trial_encoding, first, span, out, profile, bound)
        if new_cost >= 0:
            cost = new_cost
            for j in range(first, last + 1):
                order[j] = trial[j]
            best_cost = _accept(work, out, first, stop, cost, best_cost)
        else:
            for j in range(first, last + 1):
                trial[j] = order[j]
            delay[i] = old_delay
    return best_cost
