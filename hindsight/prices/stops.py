"""Lower bounds on the preemptive optimum from prices of memory per round, in exact integers.

A request that may be stopped between rounds and keeps its tokens can run in any o_i rounds
r_1 < ... < r_o after its arrival a_i. In the k-th of them it holds s_i + k tokens.

**Statement.** For prices q_r(m) >= 0 of holding m tokens in round r (rounds without a price are
free) let K_r be the heaviest set of requests that fits into round r: at most one level
1 <= k <= min(o_i, r - a_i) of each request, sum of s_i + k at most M. Then

    OPT_p  >=  sum_i V_i  -  sum_r K_r,
    V_i = min over r_1 < ... < r_o, r_1 > a_i, of  r_o - a_i + sum_k q_{r_k}(s_i + k).

**Proof.** In a feasible preemptive schedule request i pays r_o - a_i + (prices of its rounds) >=
V_i. Those that run in round r are a set as in the definition of K_r, because the k-th token cannot
come before round a_i + k; so all prices paid in round r sum to at most K_r. Subtract.

Linear prices q_r(m) = lambda_r m have K_r <= M lambda_r, and may be used at any memory limit.
Tables of prices, one number for each (r, m), prove more, because the requests that run together
often cannot fill the memory completely.

V_i is a dynamic program over (tokens produced, round), O(o_i T). K_r is a knapsack with one choice
per request, O(M sum_i o_i) per round.

**Ascent.** `smooth_bound` makes the minimum over the rounds of a request and the maximum over the
sets of a round soft at a heat, by the same dynamic programs with sums of exponentials in place of
minima; the gradient of the smooth minorant is then

    (share of Gibbs paths that hold m in round r)  -  (share of Gibbs sets that hold m in round r),

exactly. The final bound is evaluated in integers, so rounding errors of the ascent do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hindsight.outcomes.proofs import NO_PRICES, MemoryPrices, MemoryPricesProof, Proof, moved_rows
from hindsight.runtime.compilation import njit, overwrite
from instances import Instance, InvalidValueError
from instances.arrays import FloatArray, IntArray, RequestColumns

from .ascent import Evaluation, Settings

SCALE = 1 << 16
"""Default denominator: prices of holding memory are rounded to multiples of 1 / SCALE rounds."""


@dataclass(frozen=True, eq=False)
class PreemptivePrices(MemoryPricesProof):
    """Prices of holding memory in the rounds 1 .. T, in 1 / ``denominator`` rounds of latency.

    They prove a lower bound on the least total latency of schedules that may stop requests between
    rounds.

    Attributes
    ----------
    numerators : int64 array, shape (T + 1, M + 1) or (T + 1, 1)
        ``numerators[r, m]`` is the price for a request of holding m tokens in round r, and 0 for
        r = 0 or m = 0. M is the memory limit. If there is only one column, ``numerators[r, 0]`` is
        the price of each token held in round r.
    denominator : int
        Denominator of all prices, at least 1.

    Raises
    ------
    InvalidValueError
        A price is negative, or the denominator is below 1.
    """

    optima: ClassVar[frozenset[bool]] = frozenset({True})

    @property
    def is_linear(self) -> bool:
        """Return whether the price of holding m tokens in a round is m times a price per token.

        Then ``numerators`` has a single column, the prices per token.
        """
        return bool(self.numerators.shape[1] == 1)

    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> Proof:
        moved = moved_rows(self.numerators[1:], arrival_times, shifts)
        if moved is None:
            return NO_PRICES
        return PreemptivePrices(np.concatenate([self.numerators[:1], moved]), self.denominator)

    def to_part(self, instance: Instance, *, preemptive: bool = False) -> dict[str, Any]:
        """Return these prices as the object ``"proof"`` of a JSON certificate (`Proof.to_part`).

        Prices are written only for numbers of tokens that some request can hold.
        """
        table = self.numerators
        last = int(np.max(np.flatnonzero(table.any(axis=1)), initial=0))
        prices = table[1 : last + 1]
        if self.is_linear:
            linear = MemoryPrices(np.ascontiguousarray(prices[:, 0]), self.denominator)
            return linear.to_part(instance, preemptive=True)
        levels = np.zeros(table.shape[1], dtype=bool)
        for s, o in {(one.prompt_length, one.output_length) for one in instance}:
            levels[s + 1 : s + o + 1] = True
        tokens = np.flatnonzero(levels & prices.any(axis=0))
        part = {"tokens": tokens.tolist(), "prices": prices[:, tokens].tolist()}
        return {"kind": "preemptive-prices", "scale": self.denominator, **part}


def costs_to_go(
    prices: PreemptivePrices, request: tuple[int, int, int]
) -> Iterator[npt.NDArray[Any]]:
    """Yield the least remaining cost of a request after each round, if it has produced k tokens.

    There is one array for each k, in the order k = o - 1, ..., 0. The request may be stopped
    between rounds. In each round in which it runs it pays the price of the tokens that it holds,
    and in the round of its last token also its whole latency. The remaining cost after a round is
    the sum of all that it pays in later rounds.

    Parameters
    ----------
    prices : PreemptivePrices
        Prices of holding memory in the rounds 1 .. T, with T >= a.
    request : tuple[int, int, int]
        Prompt length s, output length o and arrival a.

    Yields
    ------
    int64 array, shape (T + 1 - a,)
        Least remaining cost after each of the rounds a .. T, in units of 1 / denominator.
    """
    (s, o, a), table, unit = request, prices.numerators, prices.denominator
    last = len(table) - 1
    # ``then`` has an entry for each of the rounds a + 1 .. T: the remaining cost after this round,
    # if the request has produced token k + 1 in it. The loop begins with the last token. For this
    # token ``then`` is the latency, which the request pays in the round of the token.
    then = unit * np.arange(1, last + 1 - a)
    for k in range(o - 1, -1, -1):
        tokens = s + k + 1
        price = table[a + 1 :, 0] * tokens if prices.is_linear else table[a + 1 :, tokens]
        # Append the remaining cost after round T, the last round with prices. After T the request
        # runs without a break until it completes, and pays only its latency.
        costs = np.append(price + then, unit * (last + o - k - a))
        costs = np.minimum.accumulate(costs[::-1])[::-1]
        yield costs
        then = costs[1:]


def heaviest_sets(prices: PreemptivePrices, requests: RequestColumns) -> IntArray:
    """Return the largest total price K_r of requests that may run together, for each round r.

    A request that runs in round r pays the price of the tokens that it holds. All these requests
    together hold at most M tokens, the memory limit. The result has an entry for r = 0 .. T, and
    K_0 is 0. If prices are given as prices lambda_r per token, the result has M lambda_r instead,
    an upper bound on K_r.
    """
    table, limit = prices.numerators, requests.memory_limit
    if prices.is_linear:
        return limit * table[:, 0]
    # ``best[r, m]`` is the largest total price in round r of requests that hold at most m tokens
    # together. Requests are added one by one.
    best = np.zeros((len(table), limit + 1), dtype=np.int64)
    for s, o, a in zip(*(column.tolist() for column in requests[:3]), strict=True):
        without = best.copy()
        for m in range(s + 1, s + o + 1):
            # The request with lengths s and o holds m tokens in the round of its (m - s)-th token.
            # This is round a + m - s or a later one.
            r = a + m - s
            held = without[r:, : limit + 1 - m] + table[r:, m, None]
            np.maximum(best[r:, m:], held, out=best[r:, m:])
    heaviest: IntArray = best[:, limit]
    return heaviest


def round_preemptive_prices(table: FloatArray, denominator: int = SCALE) -> PreemptivePrices:
    """Round float prices of holding memory, in rounds of latency, to multiples of 1 / denominator.

    Negative and non-finite prices become 0. Any prices >= 0 give a valid lower bound.
    """
    cleaned = np.where(np.isfinite(table), np.maximum(table, 0.0), 0.0)
    return PreemptivePrices(np.rint(cleaned * denominator).astype(np.int64), denominator)


def preemptive_price_bound(instance: Instance, prices: PreemptivePrices) -> int:
    """Return the lower bound on the preemptive optimum that prices of holding memory prove.

    The preemptive optimum is the least total latency, in rounds, of schedules that may stop
    requests between rounds. The bound is computed exactly, and rounded up because total latencies
    are integers.

    Raises
    ------
    InvalidValueError
        The prices end before the last arrival, or int64 could overflow.
    """
    table = prices.numerators
    last = table.shape[0] - 1
    if last < int(instance.arrival_times.max()):
        raise InvalidValueError("prices", "rounds", last, "must be at least the last arrival")
    dearest = int(table.max(initial=0)) * (instance.memory_limit if prices.is_linear else 1)
    longest = int(instance.output_lengths.max())
    most = max(longest + last, instance.memory_limit)
    if dearest * most + prices.denominator * (last + longest) >= 2**61:
        raise InvalidValueError("prices", "largest price", dearest, "is too large for 64-bit sums")
    rows = list(zip(*(column.tolist() for column in instance.columns[:3]), strict=True))
    # ``values`` has the least cost (latency plus prices) of each different request. This is the
    # remaining cost at the arrival, with 0 tokens produced: the first entry of the array that
    # `costs_to_go` yields last.
    values = {row: int([costs[0] for costs in costs_to_go(prices, row)][-1]) for row in set(rows)}
    capacity = sum(heaviest_sets(prices, instance.columns).tolist())
    surplus = sum(values[row] for row in rows) - capacity
    return int(-(-surplus // prices.denominator))


@partial(njit, makes_arrays=True)
def path_shares(
    table: FloatArray, heat: float, requests: RequestColumns, shares: FloatArray
) -> float:
    """Add to ``shares[r, m]`` the expected number of requests that hold m tokens in round r.

    ``table[r, m]`` is the price of holding m tokens in round r. A path of a request is a choice of
    the rounds in which it runs. The cost of a path is the latency plus the prices of these rounds,
    and its probability is proportional to exp(-cost / heat), with temperature ``heat``. Returns the
    sum over the requests of -heat log(sum over paths of exp(-cost / heat)), a soft minimum of the
    cost.
    """
    prompt, output, arrival, _ = requests
    # Entry (k, t) of both arrays is for k tokens produced by the end of round t. k is at most an
    # output length, and therefore at most the memory limit M. ``table`` has M + 1 columns.
    shape, last = table.T.shape, table.shape[0] - 1
    soft, flow = np.empty(shape), np.empty(shape)
    total = 0.0
    for i in range(len(arrival)):
        a, s, o = arrival[i], prompt[i], output[i]
        # Backwards in time: ``soft[k, t]`` is the soft minimum of the remaining cost after round t
        # if k tokens are produced. It is the soft minimum of two numbers: of the cost if the
        # request runs in round t + 1, and of the cost if it waits.
        for k in range(o - 1, -1, -1):
            soft[k, last] = last + o - k - a
            for t in range(last - 1, a - 1, -1):
                then = t + 1.0 - a if k + 1 == o else soft[k + 1, t + 1]
                run = table[t + 1, s + k + 1] + then
                wait = soft[k, t + 1]
                low, high = min(run, wait), max(run, wait)
                soft[k, t] = low - heat * np.log1p(np.exp((low - high) / heat))
        total += soft[0, a]
        # Forwards in time: ``flow[k, t]`` is the probability that the request has produced exactly
        # k tokens by the end of round t.
        for k in range(o):
            for t in range(a, last + 1):
                flow[k, t] = 0.0
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
    """Subtract from ``shares[r, m]`` the expected number of requests with m tokens in round r.

    In each round r a random set of requests runs. These requests fit into memory together, and each
    holds a number m of tokens that it can hold in this round. The price of the set is the sum of
    ``table[r, m]``, the price of holding m tokens, over its requests. The probability of the set is
    proportional to exp(price / heat), with temperature ``heat``. Returns the sum over the rounds of
    heat log(sum over sets of exp(price / heat)), a soft maximum of the price.
    """
    prompt, output, arrival, limit = requests
    n = len(arrival)
    ahead, behind = np.zeros((2, n + 1, limit + 1))
    weight = np.zeros(limit + 1)
    total = 0.0
    for r in range(1, table.shape[0]):
        # The weight exp(price / heat) of holding m tokens is divided by exp(slope m / heat), where
        # ``slope`` is the highest price per token in this round. So every weight is at most 1.
        slope = 0.0
        for m in range(1, limit + 1):
            slope = max(slope, table[r, m] / m)
        if slope == 0.0:
            continue
        # Raise the temperature so far that slope * (memory limit) / temperature is at most 600. All
        # exponents below are then at least -600, so that no weight underflows.
        warm = max(heat, slope * limit / 600.0)
        for m in range(limit + 1):
            weight[m] = np.exp((table[r, m] - slope * m) / warm)
            behind[n, m] = np.exp(slope * (m - limit) / warm)
        # ``behind[i, m]`` is the total weight of all sets of requests i, i + 1, ... that fit into
        # memory if requests before i hold m tokens. Then M - m tokens are left. The weight of a set
        # is exp(price / warm), divided by exp(slope (M - m) / warm). This divisor is the same for
        # all these sets.
        for i in range(n - 1, -1, -1):
            overwrite(behind[i], behind[i + 1])
            most = prompt[i] + min(output[i], r - arrival[i])
            for tokens in range(prompt[i] + 1, most + 1):
                for m in range(limit - tokens + 1):
                    behind[i, m] += weight[tokens] * behind[i + 1, m + tokens]
        whole = behind[0, 0]
        total += warm * np.log(whole) + slope * limit
        # ``ahead[i, m]`` is the total weight of all sets of requests 0 .. i - 1 that hold m tokens
        # together, divided by the weight ``whole`` of all sets. ``behind[i + 1, m]`` is the total
        # weight of all sets of requests i + 1, i + 2, ... that fit into memory if the requests up
        # to i hold m tokens. ``weight[t]`` is the weight of one request that holds t tokens. So the
        # probability that a set contains request i, and that this request holds t tokens, is the
        # sum over m of ``ahead[i, m]`` * ``weight[t]`` * ``behind[i + 1, m + t]``.
        ahead[0].fill(0.0)
        ahead[0, 0] = 1.0 / whole
        for i in range(n):
            overwrite(ahead[i + 1], ahead[i])
            most = prompt[i] + min(output[i], r - arrival[i])
            for tokens in range(prompt[i] + 1, most + 1):
                share = 0.0
                for m in range(limit - tokens + 1):
                    part = ahead[i, m] * weight[tokens]
                    share += part * behind[i + 1, m + tokens]
                    ahead[i + 1, m + tokens] += part
                shares[r, tokens] -= share
    return total


SETTINGS = Settings(damping=1e-9)
"""`Adam` for prices of memory: their gradients are small, and ``damping`` must be smaller still."""


def smooth_bound(requests: RequestColumns, x: FloatArray, heat: float) -> Evaluation:
    """Return a smooth minorant of the lower bound that prices of memory prove, and its gradient.

    The lower bound is on the least total latency of schedules that may stop requests between
    rounds. The minorant is a differentiable function of the prices that never exceeds this bound.
    The bound itself is not computed, so the field ``value`` of the result is -inf.

    Parameters
    ----------
    requests : RequestColumns
        The requests, and the memory limit M.
    x : float64 array, shape (T + 1, M + 1)
        Price of holding m tokens in round r, in rounds of latency.
    heat : float
        Temperature of the minorant, in rounds of latency.
    """
    gradient = np.zeros_like(x)
    paths = path_shares(x, heat, requests, gradient)
    sets = set_shares(x, heat, requests, gradient)
    return Evaluation(-math.inf, paths - sets, gradient)
