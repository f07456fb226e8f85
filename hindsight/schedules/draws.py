"""Random numbers of compiled loops, and the acceptance of annealing."""

from __future__ import annotations

import numpy as np

from hindsight.runtime.compilation import njit, step
from instances.arrays import IntArray


def first_state(seed: int) -> IntArray:
    """Return a state of `next_uniform`, shape (1,), that differs much between similar seeds."""
    return np.array([np.random.default_rng(seed).integers(1, 1 << 32)], np.int64)


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
    most: float = cost - temperature * np.log(uniform + 1e-300)
    return most
