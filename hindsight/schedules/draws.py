"""Random numbers for compiled loops, and the acceptance threshold of simulated annealing."""

from __future__ import annotations

import numpy as np

from hindsight.runtime.compilation import njit, step
from instances.arrays import IntArray


def first_state(seed: int) -> IntArray:
    """Return a first state of `next_uniform`, shape (1,); similar seeds give unrelated states."""
    return np.array([np.random.default_rng(seed).integers(1, 1 << 32)], np.int64)


@njit
def next_uniform(state: IntArray) -> float:
    """Return a float in [0, 1) from xorshift32 (Marsaglia 2003).

    The 32-bit state is stored as int64. ``state``, shape (1,), is advanced in place; it must not
    be 0.
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
    """Draw the largest cost at which a move is accepted (Metropolis).

    ``cost`` is the cost without the move, and ``share`` the share of the cooling that is done. The
    threshold is drawn before the cost of the move is known, so that its evaluation can stop early.
    """
    temperature = hot * (cold / hot) ** share
    most: float = cost - temperature * np.log(uniform + 1e-300)
    return most
