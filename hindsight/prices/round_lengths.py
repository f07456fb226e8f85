r"""Lower bounds on total latency in seconds, by prices of machine time that use round lengths.

**Statement.** A round that processes tok tokens and holds kv tokens in memory lasts at least d0 +
d1 tok + d2 kv seconds, and least + d2 kv seconds (the *minorant*). Wherever tokens y to y + q of a
prompt are processed, c ((y + q)^2 - y^2) is added to d1 tok, where c is `AffineMinorant.square`. M
is the memory limit in tokens, a_i the arrival and C_i the completion of request i. Let alpha(t),
beta(t), eta(t) >= 0 be prices of a second of machine time, and let mu_i(t) >= 0 be a payment of
request i for each round that it takes part in, with sum_i mu_i(t) <= d0 eta(t). A request that
advances in a round of length D, with tok tokens processed and kv = s + k held (s of its prompt and
k of its output), pays for each second of it

    (alpha (d0 kv / M + w) + eta w + mu_i) / D + beta w / (D - d0),    w = d1 tok + d2 kv,

and for a chunk of its prompt the same with kv = y + q (0 / 0 counts as 0). Let V_i be the least sum
of C_i - a_i and all that i pays, over sequences of disjoint rounds in which i runs alone until it
completes, none of them before a_i or shorter than the minorant for i alone. Then the total latency
is at least sum_i V_i less the integral of pi = alpha + beta + eta.

*Proof.* Rounds are as long as the minorant says (see `machine_bounds`). Over the batch of a round,
kv (a chunk holds the prompt up to its end, or more) sums to M or less and w to D - d0 or less, so
d0 kv / M + w sums to D or less. Each request takes part once, so eta w + mu_i sums to eta (D - d0)
+ d0 eta = eta D or less. At any moment the payments sum to alpha + beta + eta at most. The round
that ends a prompt in chunks counts as a chunk, which pays less than a round that advances. Rounds
are disjoint, so all payments are at most the integral; and i's latency and payments are at least
V_i. []

**Preemption.** Only the last attempt of each step pays (see `machine_bounds`). Rounds in which a
request is held, or processes tokens again, are longer for it, and it pays nothing. So the bound
holds whether tokens are kept or recomputed.

**Several replicas.** With K machines the total latency is at least sum_i V_i less K times the
integral. *Proof.* The rounds of one machine are disjoint and pay at most the integral, as the mu_i
of its batch sum to d0 eta or less; so all pay at most K times that. V_i uses nothing but that i's
own rounds are disjoint, and M is the memory of one machine. [] The mu_i of *all* requests sum to d0
eta, not K d0 eta: all may meet on one machine. Prices that differ between machines gain nothing:
the bound is concave in them, so that their average over all permutations of the machines is as
good.

The overhead d0 of a round is paid in three parts: at price alpha by memory, at price beta by work,
and at price eta by all requests that take part. With beta = eta = 0, a request pays alpha times its
charges in `machine_bounds`. With beta alone, short rounds are expensive: they have little work,
which must pay for all their seconds. So a request pays more if it runs faster than in the rounds of
a full batch. With eta alone, a request pays for each round that it takes part in, whatever the
length of the round. The prices are dual variables of a linear program. There, the mu_i belong to
the row *a request takes at most one step in each round*.

**Shares.** mu_i is d0 eta * (level of request i) / (sum of the levels of all requests). A request
has a level in each cell of some time interval, and the level 0 outside it. Any levels are valid.

*Example* with d0 = d1 = 1, d2 = 0 and ample memory: three requests of one prompt token and two
output tokens arrive at 0. The optimum is 22: two of them in two rounds of 3 s, then the third in
two of 2 s. Let eta fall linearly from 3 to 0 over 8 s, and mu_i = eta / 3. A step that takes 2 s
from t on pays the mean of 4/3 eta, 4 - (t + 1) / 2. Two steps at once take 4 s and pay 7/2 + 5/2,
so V_i = 10: a wait of a second costs 1 and saves 1. The bound is 30 - 12 = 18, where own times give
12.

**Service levels.** Let a late request cost 1 and latency nothing. Then V_i is the least sum of all
that request i pays, over such sequences that keep its latency limits, but at most 1. The number of
late requests is at least sum_i V_i less the integral (with K machines, K times the integral): a
request on time pays V_i at least, a late request counts 1, and payments are bounded as above. Step
1 pays in the attempt that emits the first token in time.

The values V_i are computed from below by `hindsight.prices.round_length_values`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hindsight.runtime.clock import never, run_parts
from instances import Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed

from .deadlines import Deadlines
from .minorants import AffineMinorant, own_seconds
from .round_length_rounding import SAFE
from .round_length_tangents import Grid, Machine, Tables
from .round_length_values import Goals, Requests, request_values


class Shares(NamedTuple):
    """Levels of requests, which determine how much each pays for taking part in a round.

    In seconds, a request pays d0 * eta * (its level) / (sum of the levels of all requests) per
    round, where d0 is the overhead of a round and eta the price of a second of machine time for
    taking part. Levels are constant in cells, the time intervals with one price.

    Attributes
    ----------
    first, after : int64 array, shape (n,)
        First cell in which each request has a level, and the cell after its last cell with a level.
    levels : float64 array, shape (sum of after - first,)
        Whole numbers: the levels of the first request in its cells, then those of the second, and
        so on.
    """

    first: IntArray
    after: IntArray
    levels: FloatArray

    def places(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the request and the cell of each level, and the offset of each request's levels.

        A cell is a time interval with one price. The levels in a cell determine how much each
        request pays for taking part in a round. The level of request i in cell c is
        ``levels[place[i] + c]``, where ``place`` has the offsets. The first two arrays have the
        shape of ``levels``, ``place`` has shape (n,).
        """
        length = self.after - self.first
        place = np.cumsum(length) - length - self.first
        request = np.repeat(np.arange(len(length)), length)
        return request, np.arange(len(request)) - place[request], place

    def split(self, parts: int) -> Shares:
        """Return the levels after each cell is cut into ``parts`` cells of equal length.

        A cell is a time interval with one price. The levels in a cell determine how much each
        request pays for taking part in a round. Each part of a cell gets the level of the cell,
        divided by ``parts``.
        """
        levels = np.repeat(self.levels / parts, parts)
        return Shares(parts * self.first, parts * self.after, levels)


@dataclass(frozen=True, eq=False)
class RoundLengthPrices:
    """Prices of machine time, constant in *cells*: equal time intervals from time 0 on.

    Attributes
    ----------
    cell : float
        Length of a cell in seconds, a power of two.
    price : float64 array
        Price pi = alpha + beta + eta >= 0 of a second of machine time in each cell, shape (cells,).
        After the last cell it is 0. Requests pay alpha for memory and work, beta for work alone,
        and eta for work and for taking part in rounds. The work of a request is the number of
        seconds that its tokens add to a round.
    gamma : float64 array
        Share alpha / pi of the price in each cell, in [0, 1], shape (cells,).
    participation : tuple[float64 array, Shares]
        The shares eta / (pi - alpha) of all cells, in [0, 1], shape (cells,), and the levels that
        determine how much each request pays for taking part in rounds.
    """

    cell: float
    price: FloatArray
    gamma: FloatArray
    participation: tuple[FloatArray, Shares]

    @property
    def integral(self) -> Fraction:
        """Return the integral of the price pi over all time, for one machine, as a fraction."""
        return Fraction(self.cell) * sum(map(Fraction, self.price.tolist()), Fraction(0))


@dataclass(frozen=True, eq=False)
class SecondsProof:
    """Data that prove a lower bound on total latency in seconds: prices and the minorant for them.

    Attributes
    ----------
    prices : RoundLengthPrices
        The best prices of machine time that a price ascent found.
    minorant : AffineMinorant
        Affine lower bound on the length of a round, for which the prices were computed.
    allowance : float64 array
        Number of seconds after the arrival of each request, shape (n,). Up to then, the least
        remaining cost of the request (latency plus payments) is computed at each grid point. Later,
        it is bounded by the time that the rest of the request takes if it runs alone.
    """

    prices: RoundLengthPrices
    minorant: AffineMinorant
    allowance: FloatArray


class PricedValues:
    """Values V_i of the requests of a workload under given prices.

    V_i is the least sum of request i's latency and of its payments, at prices of machine time, for
    the rounds in which it runs. The sum of the V_i, minus the integral of the prices over time, is
    a lower bound on total latency.

    Parameters
    ----------
    workload : Workload
        The requests.
    minorant : AffineMinorant
        Affine lower bound on the length of a round, for the workload's memory limit.
    prices : RoundLengthPrices
        Prices of machine time. Any prices give a valid lower bound.
    step : float
        Step of the time grid in seconds: a power of two, at most ``prices.cell``.
    size : int, default 32
        Largest number of consecutive steps of a request that are evaluated together, as a block.
    deadlines : Deadlines or None, default None
        With deadlines, V_i is the least that request i pays if it meets its deadlines, but at most
        1, the cost of a late request. The bound is then on the number of late requests.
    """

    def __init__(
        self,
        workload: Workload,
        minorant: AffineMinorant,
        prices: RoundLengthPrices,
        step: float,
        size: int = 32,
        deadlines: Deadlines | None = None,
    ) -> None:
        workload = relaxed(workload)
        machine = d0, *_ = tuple(map(float, minorant))
        a, s, o = workload.arrival_times, workload.prompt_lengths, workload.output_lengths
        attendance, shares = prices.participation
        _, cell, place = shares.places()
        rest = (1 - prices.gamma) * prices.price
        parts = prices.price, prices.gamma * prices.price, (1 - attendance) * rest
        price, alpha, beta = np.pad(parts, ((0, 0), (0, 1)))
        total = np.bincount(cell, shares.levels, prices.price.size)
        levy = (d0 * attendance * rest / np.maximum(total, 1))[cell] * shares.levels
        self._deadlines, self._counts_late = deadlines or Deadlines.none(o), bool(deadlines)
        share = np.column_stack([shares.first, shares.after, place])
        self._requests = Requests(a, s, self._deadlines.output, share)
        self._tables = Tables(
            Machine(float(workload.memory_limit), *machine),
            Grid(step, round(prices.cell / step), price, alpha, beta, levy),
            size,
            np.zeros(1, dtype=np.int64),
        )
        self.own = own_seconds(s, o, *machine)
        self.integral = workload.replicas * prices.integral

    def of(self, chosen: IntArray, allowance: FloatArray) -> FloatArray:
        """Compute lower bounds on the values V_i of the requests ``chosen``, rounded down.

        Parameters
        ----------
        chosen : int64 array
            Indices of requests, shape (k,).
        allowance : float64 array
            Number of seconds >= 0 after the arrival of each chosen request, shape (k,). Up to then,
            its least remaining cost is computed at each grid point. Any number gives a valid bound.
            A number above V_i gives the best bound.
        """
        values = np.empty(len(chosen))
        requests = Requests._make(column[chosen] for column in self._requests)
        _, end, first_token, known = self._deadlines
        goals = Goals(allowance, end[chosen], first_token[chosen])
        request_values(requests, goals, self._tables, self.points(allowance), values)
        if not self._counts_late:
            # Subtract the roundings of the last sums, and of arrival times to floats.
            values -= SAFE * (allowance + values) + 2.0**-52 * requests.arrival
            return np.maximum(values, self.own[chosen] * (1 - SAFE))
        known = known[chosen]
        found: FloatArray = np.where(np.isnan(known), values - SAFE, known)
        return np.maximum(found, 0.0)

    def points(self, allowance: FloatArray) -> int:
        """Return the largest number of time-grid points at which costs of one request are computed.

        ``allowance`` has the number of seconds after each request's arrival up to which its least
        remaining cost is computed, shape (n,).
        """
        return int(float(allowance.max()) / self._tables.grid.step) + 4

    def raise_values(
        self,
        values: FloatArray,
        allowance: FloatArray,
        order: IntArray,
        pool: Executor,
        must_stop: Callable[[], bool] = never,
    ) -> bool:
        """Raise ``values`` to the lower bounds on V_i that `of` computes, request by request.

        V_i is the least latency plus payments of request i. ``values`` has a lower bound on it for
        each request. ``order`` has indices of requests in the order in which their bounds are
        computed. ``allowance`` has a number of seconds for each request, as in `of`. Return False
        if ``must_stop`` returned True before the end. A request whose bound is not computed by then
        keeps its value.
        """

        def evaluate(part: IntArray) -> None:
            for request in part:
                one = np.array([request])
                values[one] = np.maximum(values[one], self.of(one, allowance[one]))

        parts = np.array_split(order, min(len(order), 64))
        return run_parts(pool, evaluate, parts, must_stop, self._tables.stop) is not None

    def total(self, values: FloatArray) -> Fraction:
        """Return the lower bound on total latency in seconds, or on the number of late requests.

        This is the exact sum of all ``values``, minus (number of machines) * (integral of the price
        pi).
        """
        return sum(map(Fraction, values.tolist()), Fraction(0)) - self.integral
