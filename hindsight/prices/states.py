"""Integer prices of states per epoch, and the exact lower bound that they prove, without floats.

*Epoch prices* Q(tau, m, r) >= 0, integers in units of 1 / `SCALE`, charge a request for being in
state (m, r) at epoch tau = 0 .. T - 1 (see `hindsight.prices.state_tables`). From prices y[k,
tau] >= 0 of tables rho_k they are Q(tau, m, r) = sum_k y[k, tau] rho_k(m, r). The capacity W_tau is
the total Q(tau, .) of the heaviest configuration, by the dynamic program of the tables, in
integers. It is never more than sum_k y[k, tau] D_k when the tables are valid, and it is right
whether they are or not. With

    P_i(t) = SCALE (t + o_i - a_i) + sum_{age = 0}^{o_i - 1} Q(t + age, s_i + age, o_i - age)

(prices are 0 from epoch T on) every feasible schedule satisfies

    SCALE * TEL = sum_i P_i(t_i) - sum_tau W_tau
                  + sum_tau [ W_tau - sum over active i of Q(tau, state of i) ],

because the Q that the P_i add are the Q that the last sum takes away. Each bracket, the *slack* of
epoch tau, is >= 0, as the active states form a configuration. Hence

    SCALE * TEL >= sum_i min_{t >= a_i} P_i(t) - sum_tau W_tau,

and TEL is an integer, so the bound may be rounded up. From t = T on, P_i is free of prices and
grows by SCALE per round: the minimum over *all* starts is that over a_i .. max(a_i, T), and no
horizon is assumed. Of K replicas, what is active on each is a configuration, so K W_tau takes the
place of W_tau.
"""

from __future__ import annotations

import numpy as np

from instances import Instance, InvalidValueError
from instances.arrays import IntArray

from .state_kernels import capacities, gibbs_states
from .state_tables import state_copies

SCALE = 1 << 20
"""Prices and bounds are integers in units of 1 / SCALE rounds of latency."""


HEADROOM = 2**61
"""Totals of prices are kept below this, so that sums of a few of them still fit in int64."""


def integer_capacities(prices: IntArray, copies: IntArray) -> IntArray:
    """Compute W_tau, the total Q(tau, .) of the heaviest configuration at each epoch, exactly.

    Parameters
    ----------
    prices : int64 array
        Epoch prices Q, int64 >= 0, shape (T, M + 1, M + 1), 0 for states without copies.
    copies : int64 array
        See `hindsight.prices.state_tables.state_copies`, shape (M + 1, M + 1).

    Returns
    -------
    int64 array, shape (T,)

    Raises
    ------
    InvalidValueError
        The prices are too large.
    """
    total = sum(prices.max(axis=(1, 2), initial=0).tolist())
    if total * (len(copies) - 1) >= HEADROOM:
        raise InvalidValueError("epoch prices", "sum of maxima", total, "is too large")
    states, W = gibbs_states(copies), np.zeros(len(prices), dtype=np.int64)
    capacities(np.ascontiguousarray(prices[:, states.held, states.rounds]), states, W, 0, 1)
    return W


def exact_bound(prices: IntArray, instance: Instance) -> int:
    """Evaluate the lower bound on total latency that epoch prices prove, in exact integers.

    Capacities are computed here, so any prices give a valid bound.

    Parameters
    ----------
    prices : int64 array
        Epoch prices Q, int64 >= 0, in units of 1 / SCALE, shape (T, M + 1, M + 1).
    instance : Instance
        The problem.

    Raises
    ------
    InvalidValueError
        The prices are too large.
    """
    s, o, a, limit = instance.alone().columns
    W = integer_capacities(prices, state_copies(s, o, limit))
    T = len(prices)
    P, _ = start_values(np.ascontiguousarray(prices), s, o, a)
    total: int = -instance.replicas * sum(W.tolist())
    for row, output, arrival in zip(P, o.tolist(), a.tolist(), strict=True):
        # Among starts at or after the last price, the earliest is the cheapest.
        later = (max(arrival, T) + output - arrival) * SCALE
        total += min([later, *row[arrival:].tolist()])
    return -(-total // SCALE)


def start_values(Q: IntArray, s: IntArray, o: IntArray, a: IntArray) -> tuple[IntArray, IntArray]:
    """Return P[i, t] for t = 0 .. T, and u[i, t], its minimum over starts >= max(t, a_i).

    Both are int64 in units of 1 / SCALE, shape (n, T + 1); see the module docstring. P[i, t] is
    defined for t < a_i too; u[i, t] requires a_i <= T.
    """
    T = len(Q)
    starts = np.arange(T + 1)
    P = (starts + (o - a)[:, None]) * SCALE
    for own, prompt, output in zip(P, s.tolist(), o.tolist(), strict=True):
        for age in range(min(output, T)):
            own[: T - age] += Q[age:, prompt + age, output - age]
    allowed = np.where((starts < a[:, None]) & (starts < T), np.iinfo(np.int64).max, P)
    u = np.minimum.accumulate(allowed[:, ::-1], axis=1)[:, ::-1]
    return P, np.ascontiguousarray(u)
