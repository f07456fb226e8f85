"""Integer prices of states per epoch, the lower bound that they prove, and these proofs as data.

In state (m, r) a request holds m tokens and has r rounds to go. A configuration is a multiset of
states that fit into memory together. *Epoch prices* Q(tau, m, r) >= 0, integers in units of 1 /
`SCALE`, charge a request for being in state (m, r) at epoch tau = 0 .. T - 1, the time between two
rounds. They may be computed from tables rho_k (a number for each state, of sum at most D_k for
every configuration) with prices y[k, tau] >= 0: Q(tau, m, r) = sum_k y[k, tau] rho_k(m, r). The
capacity W_tau is the largest total price Q(tau, .) of a configuration. The dynamic program of
`hindsight.prices.state_tables` computes it in integers. If all tables are valid, W_tau is at most
sum_k y[k, tau] D_k, but the bound does not need this. With

    P_i(t) = SCALE (t + o_i - a_i) + sum_{age = 0}^{o_i - 1} Q(t + age, s_i + age, o_i - age)

(prices are 0 from epoch T on) every feasible schedule satisfies

    SCALE * TEL = sum_i P_i(t_i) - sum_tau W_tau
                  + sum_tau [ W_tau - sum over active i of Q(tau, state of i) ],

because the Q that the P_i add are the Q that the last sum takes away. Each bracket, the *slack* of
epoch tau, is >= 0, as the active states form a configuration. Hence

    SCALE * TEL >= sum_i min_{t >= a_i} P_i(t) - sum_tau W_tau,

and TEL is an integer, so the bound may be rounded up. From t = T on, P_i is free of prices and
grows by SCALE per round: the minimum over *all* starts is that over a_i .. max(a_i, T), and no
horizon is assumed. With K replicas, the active states on each replica form a configuration, so
K W_tau replaces W_tau.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hindsight.outcomes.proofs import NO_PRICES, Proof, moved_rows
from instances import Instance, InvalidValueError
from instances.arrays import IntArray

from .state_kernels import capacities
from .state_tables import ordered_states, state_copies

SCALE = 1 << 20
"""Denominator of integer prices of states: their unit is 1 / SCALE rounds of latency."""


HEADROOM = 2**61
"""Upper limit of each sum of integer prices, so that the sum of a few such sums fits into int64."""


def integer_capacities(prices: IntArray, copies: IntArray) -> IntArray:
    """Compute the largest total price W_tau of a configuration at each epoch tau, exactly.

    An epoch is the time between two rounds. A configuration is a multiset of states (m, r) that fit
    into memory together. In state (m, r) a request holds m tokens and has r rounds to go.

    Parameters
    ----------
    prices : int64 array
        Prices Q[tau, m, r] >= 0, shape (T, M + 1, M + 1). They are 0 for states in which no request
        can be. M is the memory limit.
    copies : int64 array
        Number of requests that can be in each state (m, r) at the same time, shape (M + 1, M + 1),
        see `hindsight.prices.state_tables.state_copies`.

    Returns
    -------
    int64 array, shape (T,)

    Raises
    ------
    InvalidValueError
        The sum over all epochs of the largest price at the epoch, times M, is `HEADROOM` or more.
    """
    total = sum(prices.max(axis=(1, 2), initial=0).tolist())
    if total * (len(copies) - 1) >= HEADROOM:
        raise InvalidValueError("prices", "sum of maxima by epoch", total, "must be below 2^61 / M")
    states, W = ordered_states(copies), np.zeros(len(prices), dtype=np.int64)
    capacities(np.ascontiguousarray(prices[:, states.held, states.rounds]), states, W, 0, 1)
    return W


def exact_bound(prices: IntArray, instance: Instance) -> int:
    """Return the lower bound on total latency, in rounds, that prices of states prove.

    In state (m, r) a request holds m tokens and has r rounds to go. The bound is the sum of the
    least costs of all requests (latency plus prices), minus the sum over the epochs (times between
    two rounds) of the largest total price of states that fit into memory together. It is computed
    in exact integers, and rounded up. Any prices >= 0 give a valid bound.

    Parameters
    ----------
    prices : int64 array
        Prices Q[tau, m, r] >= 0 in units of 1 / SCALE rounds, shape (T, M + 1, M + 1), with M the
        memory limit.
    instance : Instance
        The problem.

    Raises
    ------
    InvalidValueError
        The prices are too large for sums in int64.
    """
    s, o, a, limit = instance.alone().columns
    W = integer_capacities(prices, state_copies(s, o, limit))
    _, cheapest = start_values(np.ascontiguousarray(prices), s, o, a)
    # ``cheapest[i, 0]`` is the least cost of request i, latency plus prices, if it arrives by T,
    # the last start that `start_values` considers. This cost is at least the output length o. If
    # the request arrives later, there are no prices, and its least cost is o. Then ``cheapest[i,
    # 0]`` is the cost of start T, before the arrival, which is below o. So the larger of this entry
    # and o is right for all requests.
    values = np.maximum(cheapest[:, 0], o * SCALE)
    total: int = sum(values.tolist()) - instance.replicas * sum(W.tolist())
    return -(-total // SCALE)


def start_values(Q: IntArray, s: IntArray, o: IntArray, a: IntArray) -> tuple[IntArray, IntArray]:
    """Return the cost P[i, t] of each start t, and the least cost u[i, t] from then on.

    P[i, t] is the latency of request i if it starts at t, plus the prices Q of the states that it
    passes through. It is computed for t = 0 .. T, also before the arrival a_i. T is the number of
    epochs (times between two rounds) with prices. u[i, t] is the least P[i, t'] over the starts t'
    = max(t, a_i) .. T. Entries with a_i > T have no meaning. Both are int64 in units of 1 / SCALE
    rounds, shape (n, T + 1). ``s`` and ``o`` are prompt and output lengths.
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


@dataclass(frozen=True, eq=False)
class StatePrices(Proof):
    """Integer prices of states at each epoch, which prove a lower bound on total latency.

    An epoch is the time between two rounds. In state (m, r) a request holds m tokens and has r
    rounds to go. `hindsight.prices.states` has the proof.

    Attributes
    ----------
    prices : int64 array, shape (T, M + 1, M + 1)
        Price Q[tau, m, r] >= 0 that a request pays for being in state (m, r) at epoch tau, in units
        of 1 / ``scale`` rounds of latency. M is the memory limit in tokens.
    scale : int
        Denominator of the prices.
    """

    prices: IntArray
    scale: int = SCALE

    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> Proof:
        moved = moved_rows(self.prices, arrival_times, shifts)
        return NO_PRICES if moved is None else StatePrices(moved, self.scale)

    def to_part(self, instance: Instance, *, preemptive: bool = False) -> dict[str, Any]:
        """Return these prices as the object ``"proof"`` of a JSON certificate (`Proof.to_part`)."""
        s, o, _, limit = instance.alone().columns
        m, r = np.nonzero(state_copies(s, o, limit))
        prices = self.prices[:, m, r]
        epochs = int(np.max(np.flatnonzero(prices.any(axis=1)), initial=-1)) + 1
        part = {"states": np.column_stack([m, r]).tolist(), "prices": prices[:epochs].tolist()}
        return {"kind": "state-prices", "scale": self.scale, **part}

    def check_shape(self, instance: Instance) -> None:
        """Raise InvalidValueError unless prices are >= 0 and have shape (T, M + 1, M + 1).

        M is the memory limit of the instance. T, the number of epochs (times between two rounds),
        may be any number.
        """
        states = (instance.memory_limit + 1, instance.memory_limit + 1)
        if self.prices.ndim != 3 or self.prices.shape[1:] != states:
            raise InvalidValueError("prices", "shape", self.prices.shape, "must be (T, M+1, M+1)")
        if self.prices.size and int(self.prices.min()) < 0:
            raise InvalidValueError("prices", "minimum", int(self.prices.min()), "is negative")


@dataclass(frozen=True, eq=False)
class PathStage:
    """Stage of the proof `PathPrices`: drop nodes of the graph, then split the remaining nodes.

    Each schedule corresponds to a path through the graph. A node is an epoch (the time between two
    rounds), together with a record about some requests: for each *followed* request, whether it
    runs and since when, and for each *tracked* request, whether it has started. For each node, the
    stage computes a lower bound on the total latency of all paths through it. It drops the node if
    this bound exceeds the limit of the proof.

    Attributes
    ----------
    start_prices : int64 array, shape (n,)
        Start price u_i of each request, in units of 1 / `StatePrices.scale` rounds. It is the
        multiplier of the constraint "request i starts once" in this lower bound. The bound contains
        u_i for every request. For each start of a followed request on the path, it also contains
        (cost of the start) - u_i, where the cost is the latency plus the prices of states. For
        requests that are not followed yet, u_i is the least cost of their starts.
    followed, tracked : tuple[int, ...]
        Indices of the requests that become followed, and of those that become tracked, at the end
        of this stage. Each remaining node is then split into one node for each possible record
        about these requests.
    """

    start_prices: IntArray
    followed: tuple[int, ...] = ()
    tracked: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class PathPrices(Proof):
    """Proof by path graphs that every schedule's total latency exceeds a limit (`hindsight.paths`).

    In a path graph each schedule corresponds to a path. A node is an epoch (the time between two
    rounds), together with a record of which requests run. If no path is left, no schedule is within
    the limit.

    Attributes
    ----------
    prices : StatePrices
        Prices of states, from which the costs of paths are computed.
    limit : int
        Total latency that every schedule exceeds, in rounds.
    stages : tuple[PathStage, ...]
        Stages that drop nodes of the graph; after the last one no path is left.
    """

    prices: StatePrices
    limit: int
    stages: tuple[PathStage, ...]

    @property
    def steps(self) -> tuple[Proof, ...]:
        """Return the two proofs that a certificate may contain, the simpler one first.

        The first is the proof by prices of states alone, the second is this proof by paths.
        """
        return (self.prices, self)

    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> Proof:
        # Keep the start prices of `stages`, the multipliers of "request i starts once". Costs of
        # starts stay the same if idle gaps are put back: latencies do not change, and prices of
        # states only move to later epochs.
        moved = self.prices.moved(arrival_times, shifts)
        if not isinstance(moved, StatePrices):
            return moved
        return PathPrices(moved, self.limit, self.stages)

    def to_part(self, instance: Instance, *, preemptive: bool = False) -> dict[str, Any]:
        """Return this proof as the object ``"proof"`` of a JSON certificate (`Proof.to_part`)."""
        least = start_values(self.prices.prices, *instance.alone().columns[:3])[1][:, 0]

        stages: list[dict[str, Any]] = []
        followed = np.zeros(len(instance), dtype=np.bool_)
        for stage in self.stages:
            regrets = (stage.start_prices - least)[followed]
            prices = {"start_prices": regrets.tolist()}
            if stages and stages[-1] == {**prices, "followed": [], "tracked": []}:
                stages.pop()
            told_apart = {"followed": list(stage.followed), "tracked": list(stage.tracked)}
            stages.append({**prices, **told_apart})
            followed[list(stage.followed)] = True
        part = {"kind": "path-search", "limit": self.limit, "stages": stages}
        return {**self.prices.to_part(instance), **part}

    def check_shape(self, instance: Instance) -> None:
        """Raise InvalidValueError unless prices of states are >= 0, of shape (T, M + 1, M + 1).

        M is the memory limit of the instance. T, the number of epochs (times between two rounds),
        may be any number.
        """
        self.prices.check_shape(instance)
