r"""Lower bounds on total latency in seconds, by prices of machine time that use round lengths.

**Statement.** Let alpha(t), beta(t) >= 0 be prices of a second of machine time. A request that
advances in a round of length D, tok tokens and kv = s + k held, pays for each second of it

    alpha (d0 kv / M + w) / D + beta w / (D - d0),    w = d1 tok + d2 kv,

and for a chunk of its prompt the same with kv = tok (0 / 0 counts as 0). Let V_i be the least of
C_i - a_i and all that i pays, over sequences of rounds of i alone, disjoint, none before a_i, none
shorter than it makes it. Then the total latency is at least sum_i V_i less the integral of
alpha + beta.

*Proof.* Rounds are as long as the minorant says (see `machine_bounds`). Over the batch of a round,
kv (a chunk holds itself or more) sums to M or less and w to D - d0 or less, so d0 kv / M + w sums
to D or less: at any moment the payments sum to alpha + beta at most. The round that ends a prompt
in chunks counts as a chunk, which pays less than a round that advances. Rounds are disjoint, so all
payments are at most the integral; and i's latency and payments are at least V_i. []

**Several replicas.** With K machines the total latency is at least sum_i V_i less K times the
integral. *Proof.* The rounds of one machine are disjoint and pay at most the integral, so all pay
at most K times that. V_i uses nothing but that i's own rounds are disjoint, and M is the memory of
one machine. [] Prices that differ between machines gain nothing: the bound is concave in them, so
that their average over all permutations of the machines is as good.

With beta = 0 this prices the charges of `machine_bounds`. With alpha = 0 a short round is dear: it
has little work, which must pay for all its seconds. This ties the speed of a request to the length
of the round that a full batch shares.

**Service levels.** Let being late cost 1 and time nothing. Then V_i is the least of 1 and all that
i pays over such sequences that keep its limits. The number of late requests is at least sum_i V_i
less the integral, K times that with K machines: a request on time pays V_i at least, a late request
counts 1, and payments are bounded as above.

The values V_i are computed from below by `hindsight.prices.round_length_values`, in floats that are
rounded outward (`hindsight.prices.round_length_rounding`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hindsight.runtime.clock import never, run_parts
from instances import InvalidValueError, Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed

from .deadlines import Deadlines
from .machines import SecondsBound
from .minorants import AffineMinorant, own_seconds
from .round_length_rounding import lowered, refuse_late_arrivals, refuse_long_outputs
from .round_length_tangents import Grid, Machine, Tables
from .round_length_values import LONGEST, SLOWEST, UNHURRIED, Goals, Requests, request_values


@dataclass(frozen=True, eq=False)
class RoundLengthPrices:
    """Prices of machine time, constant in *cells*: equal time intervals from time 0 on.

    Attributes
    ----------
    cell : float
        Length of a cell in seconds, a power of two.
    price : float64 array
        Price pi = alpha + beta >= 0 of a second of machine time in each cell, shape (cells,). The
        part alpha is charged for memory and work, the part beta for work alone. After the last cell
        the price is 0.
    gamma : float64 array
        Share alpha / pi of the price in each cell, in [0, 1], shape (cells,).

    Raises
    ------
    InvalidValueError
        The cell is not a power of two, a price is negative or not finite, a gamma is outside
        [0, 1], or the shapes of ``price`` and ``gamma`` differ or are empty.
    """

    cell: float
    price: FloatArray
    gamma: FloatArray

    def __post_init__(self) -> None:
        for field, holds in {
            "cell": self.cell > 0 and math.frexp(self.cell)[0] == 0.5,
            "price": self.price.size > 0
            and bool(np.all((self.price >= 0) & np.isfinite(self.price))),
            "gamma": self.gamma.shape == self.price.shape
            and bool(np.all((self.gamma >= 0) & (self.gamma <= 1))),
        }.items():
            if not holds:
                rule = "is not allowed: cell must be a power of two, price finite and >= 0, and "
                rule += "gamma between 0 and 1 with the shape of price"
                raise InvalidValueError("prices", field, getattr(self, field), rule)

    @property
    def integral(self) -> Fraction:
        """Return the integral of the price of one machine over all time, exactly."""
        return Fraction(self.cell) * sum(map(Fraction, self.price.tolist()), Fraction(0))


@dataclass(frozen=True, eq=False)
class SecondsProof:
    """Data that prove a lower bound on total latency in seconds: prices and where they apply.

    Attributes
    ----------
    prices : RoundLengthPrices
        The best prices of machine time that a price ascent found.
    minorant : AffineMinorant
        Affine lower bound on the length of a round for which the prices were found.
    allowance : float64 array
        Time after its arrival within which a request is evaluated on the time grid, in seconds,
        shape (n,). For later times, only the request's own remaining time is used.
    """

    prices: RoundLengthPrices
    minorant: AffineMinorant
    allowance: FloatArray


def longest_block(
    workload: Workload, minorant: AffineMinorant, size: int, dearest: float = 1e300
) -> float:
    """Return the largest X, in seconds, over all blocks of all requests.

    A block is a prompt, or up to ``size`` consecutive steps of a request. X is the duration up to
    which the payments of a block are bounded by tangents. Longer durations use part (6) of the
    proof in `hindsight.prices.round_length_values`.

    Parameters
    ----------
    workload : Workload
        Requests whose memory is counted in tokens.
    minorant : AffineMinorant
        Affine lower bound on the length of a round.
    size : int
        Largest number of steps of a request in a block.
    dearest : float, default 1e300
        Largest price beta of work, per second of machine time. The default allows any prices.
    """
    d0, d1, d2 = map(float, minorant)
    s, o = workload.prompt_lengths, workload.output_lengths
    prompt, token = (d1 + d2) * (int(s.max()) + 1), d1 + d2 * int((s + o).max())
    return max(
        steps * min(max(SLOWEST * own, UNHURRIED * best), LONGEST * own)
        for steps, own, best in (
            (steps, d0 + work, d0 + math.sqrt(dearest * work * d0))
            for steps, work in ((1, prompt), (size, token))
        )
    )


class PricedValues:
    """Values V_i of the requests of a workload under given prices.

    V_i is the least sum of request i's latency and of all that it pays for the rounds in which it
    runs. The sum of the V_i, less the integral of the prices, is a lower bound on total latency.

    Parameters
    ----------
    workload : Workload
        Workload with output lengths below 10^6.
    minorant : AffineMinorant
        Affine lower bound on the length of a round, for the workload's memory limit.
    prices : RoundLengthPrices
        Prices of machine time. Any prices give a valid lower bound.
    step : float
        Step of the time grid in seconds: a power of two, at most ``prices.cell``.
    size : int, default 32
        Largest number of consecutive steps of a request that are evaluated together, as a block.
    spread : float, default 1.2
        Largest ratio of (round length - d0) among rounds that share a tangent, > 1. Smaller ratios
        give better bounds and take longer.
    deadlines : Deadlines or None, default None
        With deadlines, V_i is that of *Service levels* in the module docstring, in [0, 1].

    Raises
    ------
    InvalidValueError
        An output has 10^6 tokens or more, an arrival is too late for the step, or the step is
        invalid.
    """

    def __init__(
        self,
        workload: Workload,
        minorant: AffineMinorant,
        prices: RoundLengthPrices,
        step: float,
        size: int = 32,
        spread: float = 1.2,
        deadlines: Deadlines | None = None,
    ) -> None:
        workload = relaxed(workload)
        d0, d1, d2 = map(float, minorant)
        refuse_long_outputs(workload)
        if not (step > 0 and math.frexp(step)[0] == 0.5 and step <= prices.cell):
            reason = "is not a power of two that is at most a cell (interval with one price) long"
            raise InvalidValueError("grid", "step", step, reason)
        refuse_late_arrivals(workload, step)
        a, s, o = workload.arrival_times, workload.prompt_lengths, workload.output_lengths
        alpha, beta = np.zeros((2, prices.price.size + 1))
        alpha[:-1] = prices.gamma * prices.price
        beta[:-1] = (1 - prices.gamma) * prices.price
        self._deadlines = deadlines or Deadlines.none(o)
        self._requests, self._counts_late = Requests(a, s, self._deadlines.output), bool(deadlines)
        self._tables = Tables(
            Machine(float(workload.memory_limit), d0, d1, d2),
            Grid(step, round(prices.cell / step), alpha, beta, float(beta.max())),
            size,
            spread,
            np.zeros(1, dtype=np.int64),
        )
        longest = longest_block(workload, minorant, size, float(beta.max()))
        self._longest = math.ceil(longest / step) + 2
        self.own = own_seconds(s, o, d0, d1, d2)
        self.integral = workload.replicas * prices.integral

    def of(self, chosen: IntArray, allowance: FloatArray) -> FloatArray:
        """Compute lower bounds on the values V_i of the requests ``chosen``, rounded down.

        Parameters
        ----------
        chosen : int64 array
            Indices of requests, shape (k,).
        allowance : float64 array
            Time after arrival within which a request's values are computed, in seconds, >= 0,
            shape (k,). Any time gives a valid bound. A time longer than V_i loses nothing.
        """
        values = np.empty(len(chosen))
        requests = Requests._make(column[chosen] for column in self._requests)
        _, end, first_token, known = self._deadlines
        goals = Goals(allowance, end[chosen], first_token[chosen])
        request_values(requests, goals, self._tables, self.points(allowance), values)
        if not self._counts_late:
            a, own = requests.arrival, self.own[chosen]
            return np.maximum(lowered(values, a), lowered(own, 0.0))
        known = known[chosen]
        found: FloatArray = np.where(np.isnan(known), lowered(values, 1.0), known)
        return np.maximum(found, 0.0)

    def points(self, allowance: FloatArray) -> int:
        """Return the largest number of time-grid points at which a request is evaluated.

        ``allowance`` is as in `of`.
        """
        return int(float(allowance.max()) / self._tables.grid.step) + 4 * self._longest + 32

    def raise_values(
        self,
        values: FloatArray,
        allowance: FloatArray,
        order: IntArray,
        pool: Executor,
        must_stop: Callable[[], bool] = never,
    ) -> bool:
        """Raise ``values`` to the bounds of `of`, request by request in the given order.

        Return False if ``must_stop`` returned True before the end. A request that has not been
        evaluated by then keeps its value, which is also a lower bound on V_i.
        """

        def evaluate(part: IntArray) -> None:
            for request in part:
                one = np.array([request])
                values[one] = np.maximum(values[one], self.of(one, allowance[one]))

        parts = np.array_split(order, min(len(order), 64))
        return run_parts(pool, evaluate, parts, must_stop, self._tables.stop) is not None

    def total(self, values: FloatArray) -> Fraction:
        """Return the lower bound on total latency in seconds, or on the number of late requests.

        This is the exact sum of all ``values``, less the integral of the price for each machine.
        """
        return sum(map(Fraction, values.tolist()), Fraction(0)) - self.integral

    def bound(self, values: FloatArray, minorant: AffineMinorant) -> SecondsBound:
        """Return the lower bound on total latency that the ``values`` of all requests prove."""
        return SecondsBound(self.total(values), "round-length prices", minorant, len(values))
