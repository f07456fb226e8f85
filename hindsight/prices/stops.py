"""Lower bounds on the preemptive optimum from prices of memory per round, in exact integers.

A request that may be stopped between rounds and keeps its tokens is free to choose its o_i rounds
r_1 < ... < r_o, all after a_i; in the k-th it holds s_i + k tokens.

**Statement.** For prices q_r(m) >= 0 of holding m tokens in round r (rounds without a price are
free) let K_r be the heaviest set of requests that fits into round r: at most one level
1 <= k <= min(o_i, r - a_i) of each request, sum of s_i + k at most M. Then

    OPT_p  >=  sum_i V_i  -  sum_r K_r,
    V_i = min over r_1 < ... < r_o, r_1 > a_i, of  r_o - a_i + sum_k q_{r_k}(s_i + k).

**Proof.** In a feasible preemptive schedule request i pays r_o - a_i + (prices of its rounds) >=
V_i. Those that run in round r are a set as in the definition of K_r, because the k-th token cannot
come before round a_i + k; so all prices paid in round r sum to at most K_r. Subtract.

Linear prices q_r(m) = lambda_r m have K_r <= M lambda_r, and may be used at any memory limit;
tables of prices, one number for each (r, m), also see that memory cannot always be filled up.

V_i is a dynamic program over (tokens produced, round), O(o_i T). K_r is a knapsack with one choice
per request, O(M sum_i o_i) per round.

**Ascent.** `StopDual` makes the minimum over the rounds of a request and the maximum over the sets
of a round soft at a heat, by the same dynamic programs with sums of exponentials in place of
minima; the gradient of the smooth minorant is then

    (share of Gibbs paths that hold m in round r)  -  (share of Gibbs sets that hold m in round r),

exactly. Whatever the floats did, the bound is evaluated again in integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hindsight.outcomes.proofs import (
    NO_PRICES,
    PLAIN,
    MemoryPrices,
    Proof,
    Wanted,
    check_prices,
    moved_rows,
    rounded,
    shortest_scale,
)
from hindsight.runtime.compilation import largest, njit, overwrite, step
from instances import Instance, InvalidValueError
from instances.arrays import FloatArray, IntArray, RequestColumns

from .ascent import Evaluation, Settings

SCALE = 1 << 16
"""Denominator of rounded prices."""


@dataclass(frozen=True, eq=False)
class PreemptivePrices(Proof):
    """Prices of holding memory in each round, in units of 1 / ``denominator``.

    Attributes
    ----------
    numerators : int64 array, shape (T + 1, M + 1) or (T + 1, 1)
        ``numerators[r, m]`` is the price of holding m tokens in round r; with one column,
        ``numerators[r, 0]`` is that of a single token. Row 0 and column 0 of a table are 0.
    denominator : int
        At least 1.

    Raises
    ------
    InvalidValueError
        A price is negative, or the denominator is below 1.
    """

    numerators: IntArray
    denominator: int

    optima: ClassVar[frozenset[bool]] = frozenset({True})

    def __post_init__(self) -> None:
        check_prices(self.numerators, self.denominator)

    @property
    def is_linear(self) -> bool:
        """Return whether each round has a single price per token."""
        return bool(self.numerators.shape[1] == 1)

    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> Proof:
        moved = moved_rows(self.numerators[1:], arrival_times, shifts)
        if moved is None:
            return NO_PRICES
        return PreemptivePrices(np.concatenate([self.numerators[:1], moved]), self.denominator)

    def to_part(self, instance: Instance, wanted: Wanted = PLAIN) -> dict[str, Any]:
        """See `Proof`; write the smallest scale that keeps the bound, and only usable prices."""
        table = self.numerators

        def bound(scale: int) -> int:
            prices = PreemptivePrices(rounded(table, self.denominator, scale), scale)
            return preemptive_price_bound(instance, prices)

        scale = shortest_scale(self.denominator, bound, wanted.must_stop)
        last = int(np.max(np.flatnonzero(table.any(axis=1)), initial=0))
        prices = rounded(table, self.denominator, scale)[1 : last + 1]
        if self.is_linear:
            linear = MemoryPrices(np.ascontiguousarray(prices[:, 0]), scale)
            return linear.to_part(instance, Wanted(preemptive=True))
        levels = np.zeros(table.shape[1], dtype=bool)
        for s, o in {(one.prompt_length, one.output_length) for one in instance}:
            levels[s + 1 : s + o + 1] = True
        tokens = np.flatnonzero(levels & prices.any(axis=0))
        part = {"tokens": tokens.tolist(), "prices": prices[:, tokens].tolist()}
        return {"kind": "preemptive-prices", "scale": scale, **part}


@step
def _costs_with(
    k: int,
    table: npt.NDArray[Any],
    unit: Any,
    request: tuple[int, int, int],
    ahead: npt.NDArray[Any],
    costs: npt.NDArray[Any],
) -> None:
    """Fill row k of `costs_to_go`, ``costs``, from the row of k + 1 tokens, ``ahead``."""
    s, o, a = request
    last, tokens, is_linear = table.shape[0] - 1, s + k + 1, table.shape[1] == 1
    costs[last] = unit * (last + o - k - a)
    for t in range(last - 1, a - 1, -1):
        then = unit * (t + 1 - a) if k + 1 == o else ahead[t + 1]
        price = table[t + 1, 0] * tokens if is_linear else table[t + 1, tokens]
        costs[t] = min(costs[t + 1], price + then)


@njit
def costs_to_go(
    table: npt.NDArray[Any], unit: Any, request: tuple[int, int, int], costs: npt.NDArray[Any]
) -> None:
    """Fill ``costs[k, t]``, the least remaining cost of a request with k tokens after round t.

    The latency, times ``unit``, is paid in the round of the last token. Prices are paid in rounds
    after t. Before its arrival the request waits.

    Parameters
    ----------
    table : int64 or float64 array, shape (T + 1, M + 1) or (T + 1, 1)
        Prices of rounds 1 .. T >= a; row 0 is not read.
    unit : Any
        Cost of one round of latency, in the units of the prices.
    request : tuple[int, int, int]
        Prompt length, output length and arrival.
    costs : int64 or float64 array, shape (o, T + 1)
        Written.
    """
    _, o, a = request
    for k in range(o - 1, -1, -1):
        _costs_with(k, table, unit, request, costs[min(k + 1, o - 1)], costs[k])
        for t in range(min(a, table.shape[0] - 1) - 1, -1, -1):
            costs[k, t] = costs[k, a]


@partial(njit, makes_arrays=True)
def _path_values(
    table: npt.NDArray[Any], unit: Any, requests: RequestColumns, values: npt.NDArray[Any]
) -> None:
    """Fill ``values[i]`` with V_i, keeping only two rows of `costs_to_go` at a time."""
    prompt, output, arrival, _ = requests
    rows = np.empty((2, table.shape[0]), dtype=values.dtype)
    for i in range(len(arrival)):
        request = (prompt[i], output[i], arrival[i])
        for k in range(output[i] - 1, -1, -1):
            _costs_with(k, table, unit, request, rows[(k + 1) % 2], rows[k % 2])
        values[i] = rows[0, arrival[i]]


@partial(njit, makes_arrays=True)
def heaviest_sets(
    table: npt.NDArray[Any], requests: RequestColumns, heaviest: npt.NDArray[Any]
) -> None:
    """Fill ``heaviest[r]`` with K_r for a table of prices; entry 0 is 0."""
    prompt, output, arrival, limit = requests
    best = np.zeros(limit + 1, dtype=heaviest.dtype)
    heaviest[0] = 0
    for r in range(1, table.shape[0]):
        best.fill(0)
        for i in range(len(arrival)):
            most = min(output[i], r - arrival[i], limit - prompt[i])
            if most < 1:
                continue
            # Downwards: the smaller capacities that are read do not contain request i yet.
            for capacity in range(limit, prompt[i], -1):
                value = best[capacity]
                for k in range(1, min(most, capacity - prompt[i]) + 1):
                    tokens = prompt[i] + k
                    value = max(value, best[capacity - tokens] + table[r, tokens])
                best[capacity] = value
        heaviest[r] = best[limit]


def round_preemptive_prices(table: FloatArray, denominator: int = SCALE) -> PreemptivePrices:
    """Round floats to integers; negative and non-finite ones become 0. Any prices are valid."""
    cleaned = np.where(np.isfinite(table), np.maximum(table, 0.0), 0.0)
    return PreemptivePrices(np.rint(cleaned * denominator).astype(np.int64), denominator)


def preemptive_price_bound(instance: Instance, prices: PreemptivePrices) -> int:
    """Return the lower bound that prices prove, rounded up because total latencies are integers.

    Raises
    ------
    InvalidValueError
        The prices end before the last arrival, or int64 could overflow.
    """
    table = prices.numerators
    last = table.shape[0] - 1
    if last < int(instance.arrival_times.max()):
        raise InvalidValueError("prices", "rounds", last, "end before the last arrival")
    dearest = int(table.max(initial=0)) * (instance.memory_limit if prices.is_linear else 1)
    longest = int(instance.output_lengths.max())
    most = max(longest + last, instance.memory_limit)
    if dearest * most + prices.denominator * (last + longest) >= 2**61:
        raise InvalidValueError("prices", "largest price", dearest, "overflows 64 bits")
    values = np.zeros(len(instance), dtype=np.int64)
    _path_values(table, np.int64(prices.denominator), instance.columns, values)
    if prices.is_linear:
        capacity = instance.memory_limit * sum(table[:, 0].tolist())
    else:
        heaviest = np.zeros(last + 1, dtype=np.int64)
        heaviest_sets(table, instance.columns, heaviest)
        capacity = sum(heaviest.tolist())
    surplus = sum(values.tolist()) - capacity
    return int(-(-surplus // prices.denominator))


@partial(njit, makes_arrays=True)
def path_shares(
    table: FloatArray, heat: float, requests: RequestColumns, shares: FloatArray
) -> float:
    """Add to ``shares[r, m]`` the expected number of requests that hold m tokens in round r.

    The expectation is under the Gibbs paths. Returns the sum of soft V_i.
    """
    prompt, output, arrival, _ = requests
    soft, flow = np.empty((2, largest(output), table.shape[0]))
    last = table.shape[0] - 1
    total = 0.0
    for i in range(len(arrival)):
        a, s, o = arrival[i], prompt[i], output[i]
        # Backwards in time: `costs_to_go` with a soft minimum.
        for k in range(o - 1, -1, -1):
            soft[k, last] = last + o - k - a
            for t in range(last - 1, a - 1, -1):
                then = t + 1.0 - a if k + 1 == o else soft[k + 1, t + 1]
                run = table[t + 1, s + k + 1] + then
                wait = soft[k, t + 1]
                low, high = min(run, wait), max(run, wait)
                soft[k, t] = low - heat * np.log1p(np.exp((low - high) / heat))
        total += soft[0, a]
        # Forwards in time: the probability of k tokens after round t.
        flow[:o, a : last + 1].fill(0.0)
        flow[0, a] = 1.0
        for t in range(a, last):
            for k in range(min(o, t - a + 1)):
                here = flow[k, t]
                if here < 1e-12:
                    continue
                goes = here * np.exp((soft[k, t] - soft[k, t + 1]) / heat)
                flow[k, t + 1] += goes
                runs = here - goes
                shares[t + 1, s + k + 1] += runs
                if k + 1 < o:
                    flow[k + 1, t + 1] += runs
    return total


@partial(njit, makes_arrays=True)
def set_shares(
    table: FloatArray, heat: float, requests: RequestColumns, shares: FloatArray
) -> float:
    """Subtract the expected members with m tokens from ``shares[r, m]``; return the soft K_r's sum.

    The expectation is under the Gibbs sets of round r.
    """
    prompt, output, arrival, limit = requests
    n = len(arrival)
    ahead = np.zeros((n + 1, limit + 1))
    behind = np.zeros((n + 1, limit + 1))
    weight = np.zeros(limit + 1)
    total = 0.0
    for r in range(1, table.shape[0]):
        # Relative to the highest price per token, every weight is at most 1.
        slope = 0.0
        for m in range(1, limit + 1):
            slope = max(slope, table[r, m] / m)
        if slope == 0.0:
            continue
        # All exponents stay above -600, so no weight that matters underflows.
        warm = max(heat, slope * limit / 600.0)
        for m in range(limit + 1):
            weight[m] = np.exp((table[r, m] - slope * m) / warm)
        for m in range(limit + 1):
            behind[n, m] = np.exp(slope * (m - limit) / warm)
        # Weight of the sets of requests i and later that fit if m tokens are already held.
        for i in range(n - 1, -1, -1):
            overwrite(behind[i], behind[i + 1])
            most = min(output[i], r - arrival[i])
            for k in range(1, most + 1):
                tokens = prompt[i] + k
                for m in range(limit - tokens + 1):
                    behind[i, m] += weight[tokens] * behind[i + 1, m + tokens]
        whole = behind[0, 0]
        total += warm * np.log(whole) + slope * limit
        # Weight of the sets of requests before i that hold m tokens; both weights give shares.
        ahead[0].fill(0.0)
        ahead[0, 0] = 1.0 / whole
        for i in range(n):
            overwrite(ahead[i + 1], ahead[i])
            most = min(output[i], r - arrival[i])
            for k in range(1, most + 1):
                tokens = prompt[i] + k
                share = 0.0
                for m in range(limit - tokens + 1):
                    part = ahead[i, m] * weight[tokens]
                    share += part * behind[i + 1, m + tokens]
                    ahead[i + 1, m + tokens] += part
                shares[r, tokens] -= share
    return total


class StopDual:
    """Dual function of a table of prices, shape (T + 1, M + 1); computes smooth values only."""

    settings = Settings(damping=1e-9)
    """Parameters of Adam; the damping is small as gradients of single prices are."""

    def __init__(self, instance: Instance) -> None:
        self._requests = instance.columns

    def evaluate(self, x: FloatArray, heat: float) -> Evaluation:
        """See `hindsight.prices.ascent.Dual`."""
        gradient = np.zeros_like(x)
        paths = path_shares(x, heat, self._requests, gradient)
        sets = set_shares(x, heat, self._requests, gradient)
        return Evaluation(-math.inf, paths - sets, gradient)
