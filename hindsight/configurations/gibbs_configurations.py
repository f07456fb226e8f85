"""Compiled kernels: soft and hard maxima over all configurations of every epoch, with marginals.

A configuration is a multiset of states (m, r) that can be active together (see
`hindsight.configurations.tables`, condition (C)). With the states read in order of decreasing r, a
prefix is described by (k, S) = (members, sum of their m), and appending (m, r) is allowed iff
S + m + (k + 1) r <= M. Hence for prices Q(tau, .) and a heat h the partition function

    Z_tau = sum over configurations A of exp(sum of Q over A / h)

is a forward recursion over (k, S), and a backward recursion gives the Gibbs marginals

    z[tau, p] = expected number of members in state p = d (h log Z_tau) / d Q(tau, p).

h log Z_tau >= max over A of Q(A), with equality in the limit h -> 0. A state with c copies counts
as c distinct members. States of price 0 that no start uses are left out: they cannot raise the
maximum.

Range. Prefix weights grow monotonically from 1 to at most exp(W / h). Starting both recursions at
exp(-level / 2 h), ``level`` being about W, keeps every number within exp(+-level / 2 h); so
h >= level / MAX_EXPONENT is enforced per epoch. Weights are applied as two factors exp(q / 2 h):
one of them alone could overflow, which is why reassociation (fastmath) is not allowed here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit
from instances.arrays import FloatArray, IntArray

MAX_EXPONENT = 1200.0
"""exp(600) and exp(-600) both fit in a double, with room for drift since the last level."""

SELDOM = 3e-4
"""Expected members below which a state is left out until the next refresh."""

NEGLIGIBLE_PRICE = 1e-7
"""Prices up to this, in rounds, count as none."""


@njit
def soft_capacities(
    Q: FloatArray,
    mass: FloatArray,
    seldom: npt.NDArray[np.bool_],
    m_of: IntArray,
    r_of: IntArray,
    c_of: IntArray,
    memory_limit: int,
    heat: float,
    level: FloatArray,
    z: FloatArray,
    soft: FloatArray,
    refresh: bool,
    first: int,
    stride: int,
) -> None:
    """soft[tau] = h log Z_tau and the marginals z[tau, p], written in place.

    Only for tau = first, first + stride, ...: every epoch is on its own, so that threads may share
    them, and whoever computes it, the result is the same to the last bit.

    ``level`` is the previous soft (or hard) maximum; where it is so far off that the sum is none of
    floats, soft[tau] is NaN. A pass with ``refresh`` looks at every priced
    state and marks in ``seldom`` those that hardly any configuration uses; the passes after it skip
    them (their share counts as 0), which makes a pass several times cheaper.
    """
    T, P = Q.shape
    width = memory_limit + 1
    items = np.zeros(c_of.sum(), np.int64)
    weights = np.zeros(len(items))
    offsets = np.zeros(len(items), np.int64)
    depths = np.zeros(len(items), np.int64)
    value = np.zeros((memory_limit + 2, width))
    # The prefix weights each item was appended to, for the way back.
    store = np.zeros(1 << 16)
    for tau in range(first, T, stride):
        warmth = max(heat, level[tau] / MAX_EXPONENT)
        n, size = 0, 0
        for p in range(P):
            z[tau, p] = 0.0
            priced = Q[tau, p] > NEGLIGIBLE_PRICE and (refresh or not seldom[tau, p])
            if mass[tau, p] > SELDOM or priced:
                root = np.exp(0.5 * Q[tau, p] / warmth)
                for _ in range(c_of[p]):
                    items[n], weights[n], offsets[n] = p, root, size
                    size += (memory_limit // r_of[p]) * width
                    n += 1
        if n == 0:
            soft[tau] = 0.0
            continue
        if size > len(store):
            store = np.zeros(2 * size)
        start = np.exp(-0.5 * level[tau] / warmth)
        value[:] = 0.0
        value[0, 0] = start
        last = 0
        for j in range(n):
            m, r, root = m_of[items[j]], r_of[items[j]], weights[j]
            depth = min(memory_limit // r, last + 1)
            depths[j] = depth
            for k in range(depth - 1, -1, -1):
                top = memory_limit - m - (k + 1) * r
                base = offsets[j] + k * width
                for S in range(top + 1):
                    store[base + S] = value[k, S]
                for S in range(top + 1):
                    value[k + 1, S + m] += (root * store[base + S]) * root
            last = max(last, depth)
        total = 0.0
        for k in range(last + 1):
            for S in range(width):
                total += start * value[k, S]
                value[k, S] = start
        if not 0.0 < total < np.inf:
            soft[tau] = np.nan
            continue
        soft[tau] = level[tau] + warmth * np.log(total)
        for j in range(n - 1, -1, -1):
            m, r, root = m_of[items[j]], r_of[items[j]], weights[j]
            share = 0.0
            # Ascending: value[k + 1] still holds the completions without this item.
            for k in range(depths[j]):
                top = memory_limit - m - (k + 1) * r
                base = offsets[j] + k * width
                for S in range(top + 1):
                    completed = (root * value[k + 1, S + m]) * root
                    share += store[base + S] * completed
                    value[k, S] += completed
            z[tau, items[j]] += share / total
        if refresh:
            for p in range(P):
                seldom[tau, p] = z[tau, p] < SELDOM


@njit
def hard_capacities(
    Q: FloatArray,
    m_of: IntArray,
    r_of: IntArray,
    c_of: IntArray,
    memory_limit: int,
    W: FloatArray,
    first: int,
    stride: int,
) -> None:
    """W[tau]: the heaviest configuration under float prices; certificates use integers.

    Only for tau = first, first + stride, ..., as in `soft_capacities`.
    """
    value = np.zeros((memory_limit + 2, memory_limit + 1))
    for tau in range(first, Q.shape[0], stride):
        value[:] = -1e30
        value[0, 0] = 0.0
        last = 0
        for p in range(Q.shape[1]):
            q = Q[tau, p]
            if q <= 0.0:
                continue
            m, r = m_of[p], r_of[p]
            for _ in range(c_of[p]):
                depth = min(memory_limit // r, last + 1)
                for k in range(depth - 1, -1, -1):
                    for S in range(memory_limit - m - (k + 1) * r, -1, -1):
                        if value[k, S] + q > value[k + 1, S + m]:
                            value[k + 1, S + m] = value[k, S] + q
                last = max(last, depth)
        W[tau] = value.max()
