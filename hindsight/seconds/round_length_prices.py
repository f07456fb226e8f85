r"""Bounds on the total latency in seconds by prices of machine time that know a round's length.

**Statement.** Let pi(t) >= 0 be a price of a second of machine time and gamma(t) in [0, 1]. A
request that advances in a round of length D, tok tokens and kv = s + k held, pays for each second
of it

    pi(t) (gamma (d0 kv / M + w) / D + (1 - gamma) w / (D - d0)),    w = d1 tok + d2 kv,

and for a chunk of its prompt the same with kv = tok (0 / 0 counts as 0). Let V_i be the least of
C_i - a_i and all that i pays, over sequences of rounds of i alone, disjoint, none before a_i, none
shorter than it makes it. Then the total latency is at least sum_i V_i less the integral of pi.

*Proof.* Rounds are as long as the minorant says (see `machine_bounds`). Over the batch of a round,
kv (a chunk holds itself or more) sums to M or less and w to D - d0 or less, so d0 kv / M + w sums
to D or less: at any moment the payments sum to at most pi (gamma + 1 - gamma). Rounds are disjoint,
so all payments are at most the integral of pi; and i's latency and payments are at least V_i. []

With gamma = 1 that prices the charges of `machine_bounds`. With gamma = 0 a fast round is dear: it
offers little work, and its seconds are shared by that work. That ties the speed of a request to the
length of the round that all of a full batch share.

**Evaluation.** Let G_k(t) be the least completion time plus payments of steps k + 1 .. o where step
k + 1 begins at t or later: G_o(t) = t, and G_{k-1}(t) is the least, over t' >= t and D, of the
payment of a round [t', t' + D) and G_k(t' + D). Time has a grid of step h; pi and gamma are
constant in its cells. Kept are values at grid points whose interpolation g_k is non-decreasing and
nowhere above G_k.

*Step.* Replace 1 / D and 1 / (D - d0) by falling functions below them, linear between the multiples
of h (`reciprocals_below`); call the price of a second r(D). Cut the (t, D) plane into squares of
side h and those along t + D = const. On a triangle g_k(t + D) and the integral L of pi over the
round are linear, and r is; r L is at least the interpolation of its values at the corners, as the
difference is minus the sum over edges of phi_i phi_j (r_i - r_j)(L_i - L_j), and along each edge
(t, D or t + D fixed) r does not rise and L does not fall as D grows. Where gamma changes, at a grid
point, L is split there and each part does the same. So payment + g_k at (t, D) is at least a
mixture of its values at corners, with the weights of t between its two grid points: G_{k-1} is at
least the chord of the grid points' least values, and so after a minimum over all later points.

*Long rounds.* Steps after the first are evaluated at all D up to ``longest_decode``; beyond, in
classes [x, y) of cells: at least the least price a second among the cells in reach, times the least
of h l r(h (l + 1)) over the class's bins l and the gammas in reach, and then G_k at t + x.

*Chunks.* Of two chunk rounds or more, one with a share f of the prompt pays at least f s times that
of a token (kv = 1, w = d1 + d2). Let l be the bin of the longest. They take max(l h + d0, 2 d0 + d1
s + d2 (2 s + 1)) or more (with d2 (s + 1) where prompts are held by chunks) and pay at least s
times the least, over cells of the phase, of pi times the least h j r(h (j + 1)) over bins j <= l.
If the cell where this is least lies within reach of the shortest such phase, that is the value
taken; if later, beginning the shortest phase so that it just reaches that cell costs no more, and
ends no later.

*Window.* Beyond ``allowance`` after a_i only two facts are used: G_k(t) >= t + own remaining
seconds, and G_k does not fall. Their maximum has a kink, and its chord there would be above it:
grid points up to and including the kink's cell get the constant. A start after the last computed
grid point m may be in the cell after m, so its own time counts from m.

*Rounding.* h is a power of two and prices of cells are multiples of a power of two and less than
2^52 of it in all: grid, sums of prices and their differences are exact. 1 - gamma, rounded, makes
the shares sum to 1 + 2^-53 at most. Everything else adds, multiplies and divides numbers >= 0,
fewer than 4 o + 100 times to a value: with o < 10^6 values are within 10^-9 of exact, relatively,
and they are lowered by that. Whether the compiler reorders sums does not matter for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from hindsight.runtime.compilation import njit
from instances import InvalidValueError, Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed

from .machine_bounds import SecondsBound
from .minorants import AffineMinorant
from .reciprocals import reciprocals_below

ROUNDING = 1e-9
"""Relative deflation of a value, beyond (4 o + 100) 2^-53 for o < 10^6."""

LONGEST_OUTPUT = 10**6
"""For `ROUNDING`, and because schedules in seconds list every round."""

SHRINK = 1 - 1e-12
"""Shortest lengths are multiplied by it before they are cut to whole cells."""

_SUMS = {"nnan", "ninf", "nsz", "contract", "reassoc"}


@dataclass(frozen=True, eq=False)
class RoundLengthPrices:
    """Prices of machine time.

    Attributes
    ----------
    step : float
        Grid of time in seconds, a power of two.
    price : float64 array
        Of each whole cell [m step, (m + 1) step), >= 0, as `round_down` makes them; 0 after the
        last. Shape (cells,).
    row : int64 array
        Entry of ``gamma`` that holds in each cell, not decreasing, shape (cells,).
    gamma : float64 array
        In [0, 1], shape (rows,).

    Raises
    ------
    InvalidValueError
        Not so.
    """

    step: float
    price: FloatArray
    row: IntArray
    gamma: FloatArray

    def __post_init__(self) -> None:
        for field, holds in {
            "step": self.step > 0 and math.frexp(self.step)[0] == 0.5,
            "price": self.price.size > 0
            and math.isfinite(float(self.price.sum()))
            and bool(np.all((self.price >= 0) & (self.price == round_down(self.price)))),
            "row": self.row.shape == self.price.shape
            and bool(np.all(np.diff(self.row) >= 0))
            and 0 <= int(self.row[0]) <= int(self.row[-1]) < self.gamma.size,
            "gamma": bool(np.all((self.gamma >= 0) & (self.gamma <= 1))),
        }.items():
            if not holds:
                raise InvalidValueError("prices", field, getattr(self, field), "is not as declared")


def round_down(price: FloatArray) -> FloatArray:
    """Prices of cells as multiples of a power of two, so few that their sums are exact."""
    unit = 2.0 ** (math.frexp(float(price.sum()))[1] - 52)
    return np.floor(price / unit) * unit


@partial(njit, fastmath=_SUMS)
def _least(
    g: FloatArray,
    start: int,
    rate: FloatArray,
    prefix: FloatArray,
    m: int,
    low: int,
    high: int,
    best: float,
) -> float:
    """Least of ``best`` and g + rate x (price of the cells), rounds of low .. high cells from m."""
    here = prefix[m]
    for count in range(low, high + 1):
        best = min(best, g[start + count] + rate[count] * (prefix[m + count] - here))
    return best


@partial(njit, fastmath=_SUMS)
def _least_across(
    g: FloatArray,
    start: int,
    rate: FloatArray,
    after: FloatArray,
    prefix: FloatArray,
    m: int,
    edge: int,
    low: int,
    high: int,
    best: float,
) -> float:
    """As `_least` where the rates ``after`` hold from grid point ``edge`` on."""
    here = prefix[m]
    middle = prefix[edge]
    for count in range(low, high + 1):
        there = prefix[m + count]
        early = rate[count] * (min(there, middle) - here)
        late = after[count] * (max(there, middle) - middle)
        best = min(best, g[start + count] + (early + late))
    return best


@njit
def _tail(point: int, step: float, remaining: float, ceiling: float) -> float:
    """G at a grid point beyond the window: own time or the last value, chord-safe."""
    if (point - 1) * step + remaining >= ceiling:
        return point * step + remaining
    return ceiling


@njit
def _request_values(
    a: FloatArray,
    s: IntArray,
    o: IntArray,
    M: float,
    d0: float,
    d1: float,
    d2: float,
    step: float,
    first: int,
    last: int,
    top: int,
    reach: int,
    prefix: FloatArray,
    row: IntArray,
    gamma: FloatArray,
    over_length: FloatArray,
    over_work: FloatArray,
    chunk: FloatArray,
    far_length: IntArray,
    far_price: FloatArray,
    far_memory: FloatArray,
    far_work: FloatArray,
    whole: int,
    allowance: FloatArray,
    values: FloatArray,
) -> None:
    """values[i]: least of C_i - a_i and what request i pays, rounding errors aside."""
    cells = row.size
    rows = gamma.size
    longest = 0
    for i in range(a.size):
        longest = max(longest, int(allowance[i] / step) + 8)
    current = np.empty(longest + reach + top + 16)
    following = np.empty(longest + reach + top + 16)
    rate = np.zeros((rows + 1, top + 1))
    first_cell = np.zeros(rows + 1, np.int64)
    for m in range(cells - 1, -1, -1):
        first_cell[row[m]] = m
    for i in range(a.size):
        begin = int(a[i] / step)
        earliest = begin
        for k in range(1, o[i]):
            tok = s[i] if k == 1 else 1
            earliest += max(first, int((d0 + d1 * tok + d2 * (s[i] + k)) * SHRINK / step))
        cut = a[i] + allowance[i]
        low_next = earliest
        length_next = 0
        remaining_next = 0.0
        ceiling = 0.0
        for k in range(o[i], 0, -1):
            kv = float(s[i] + k)
            tok = s[i] if k == 1 else 1
            w = d1 * tok + d2 * kv
            shortest = (d0 + w) * SHRINK
            remaining = remaining_next + shortest
            # Both are whole cells of the shortest round; rounding may tell them apart by one.
            l_min = max(first, int(shortest / step), low_next - earliest)
            low = earliest
            high = max(int((cut - remaining) / step) + 1, low + 1)
            # What costs more than the allowance need not be told apart.
            while (
                high > low + 1
                and 0 <= high - 1 - low_next < length_next
                and following[high - 1 - low_next] > cut
            ):
                high -= 1
            length = high - low + 1
            until = top if k == 1 or l_min >= last else last
            end = high + max(until, far_length[-1], reach if k == 1 else 0) + 2
            for y in range(length_next, max(length_next, end - low_next)):
                following[y] = _tail(low_next + y, step, remaining_next, ceiling)
            for r in range(row[min(low, cells - 1)], row[min(high + until, cells - 1)] + 1):
                shared = gamma[r] * (kv * d0 / M + w)
                worked = (1.0 - gamma[r]) * w
                for count in range(l_min, until + 1):
                    rate[r, count] = (
                        shared * over_length[count - first] + worked * over_work[count - first]
                    )
            later = high * step + remaining
            if high + 1 >= low_next:
                later = max(later, following[high + 1 - low_next])
            for x in range(length - 1, -1, -1):
                m = low + x
                at = min(m, cells)
                best = later
                r1 = row[min(m, cells - 1)]
                r2 = row[min(m + until, cells - 1)]
                if r2 == r1:
                    best = _least(following, m - low_next, rate[r1], prefix, at, l_min, until, best)
                elif r2 == r1 + 1:
                    best = _least_across(
                        following, m - low_next, rate[r1], rate[r2], prefix, at, first_cell[r2],
                        l_min, until, best,
                    )  # fmt: skip
                else:
                    for count in range(l_min, until + 1):
                        rate[rows, count] = rate[r1 : r2 + 1, count].min()
                    best = _least(
                        following, m - low_next, rate[rows], prefix, at, l_min, until, best
                    )
                if until < top:
                    for q in range(far_length.size):
                        paid = far_price[q, at] * (
                            (kv * d0 / M + w) * far_memory[q, r1] + w * far_work[q, r1]
                        )
                        best = min(best, following[m + far_length[q] - low_next] + paid)
                if k == 1:
                    least = math.inf
                    seen = m - 2
                    two = int((2 * d0 + d1 * s[i] + d2 * ((1 + whole) * s[i] + 1)) * SHRINK / step)
                    for count in range(first, top):
                        e = m + max(count + first, two)
                        while seen < e + 1:
                            seen += 1
                            if seen >= cells:
                                least = 0.0
                            elif seen >= 0:
                                least = min(least, (prefix[seen + 1] - prefix[seen]) / step)
                        g = following[e - low_next]
                        if g >= best:
                            break
                        best = min(best, g + s[i] * least * chunk[r1, count - first])
                current[x] = best
                later = best
            current, following = following, current
            low_next = low
            length_next = length
            ceiling = following[length - 1]
            remaining_next = remaining
            if k > 1:
                tok = s[i] if k == 2 else 1
                earliest -= max(first, int((d0 + d1 * tok + d2 * (s[i] + k - 1)) * SHRINK / step))
        share = a[i] / step - begin
        values[i] = (1 - share) * following[0] + share * following[1] - a[i]


def _in_reach(table: FloatArray, row: IntArray, reach: int) -> FloatArray:
    """Per row of the table, the least over the rows of cells in ``reach`` of its own."""
    least = np.zeros_like(table)
    for r in np.unique(row):
        where = np.flatnonzero(row == r)
        touched = np.unique(row[max(0, where[0] - 1) : where[-1] + reach + 3])
        least[r] = table[touched].min(axis=0)
    return least


def _least_in_windows(values: FloatArray, width: int) -> FloatArray:
    """Least of each ``width`` consecutive values, by doubling."""
    covered = 1
    least = values
    while 2 * covered <= width:
        least = np.minimum(least[:-covered], least[covered:])
        covered *= 2
    rest = width - covered
    return np.minimum(least[: len(least) - rest], least[rest:])


def refuse_long_outputs(workload: Workload) -> None:
    """Refuse what rounding was not thought through for.

    Raises
    ------
    InvalidValueError
        An output of `LONGEST_OUTPUT` tokens or more.
    """
    longest = int(workload.output_lengths.max())
    if longest >= LONGEST_OUTPUT:
        raise InvalidValueError("workload", "output_lengths", longest, "is not below 10^6")


class PricedValues:
    """The values V_i of a workload under given prices, by request.

    Parameters
    ----------
    workload : Workload
        Output lengths below 10^6.
    minorant : AffineMinorant
        Of the batch time, for the workload's memory limit.
    prices : RoundLengthPrices
        Any.
    longest_decode : float or None, default None
        Rounds up to it are looked at one by one, seconds. None takes 4 d0.
    """

    def __init__(
        self,
        workload: Workload,
        minorant: AffineMinorant,
        prices: RoundLengthPrices,
        longest_decode: float | None = None,
    ) -> None:
        workload = relaxed(workload)
        d0, d1, d2 = map(float, minorant)
        M = workload.memory_limit
        step = prices.step
        width = Fraction(step)
        s = np.asarray(workload.prompt_lengths)
        o = np.asarray(workload.output_lengths)
        refuse_long_outputs(workload)
        cells = prices.price.size
        first = math.floor(minorant.d0 / width)
        top = math.ceil((minorant.d0 + (minorant.d1 + minorant.d2) * M) / width) + 1
        decode = 4 * d0 if longest_decode is None else longest_decode
        last = min(max(first + 1, math.ceil(decode / step)), top)
        two = (2 * d0 + d1 * s + d2 * (2 * s + 1)) / step
        reach = max(top + first, int(two.max()) + 1) + 2
        prefix = np.zeros(cells + top + 2)
        prefix[1 : cells + 1] = np.cumsum(prices.price)
        prefix[cells + 1 :] = prefix[cells]
        over_length = reciprocals_below(first * width, width, top - first + 1)
        over_work = reciprocals_below(first * width - minorant.d0, width, top - first + 1)
        # Per bin of lengths, the least of D / D' and D / (D' - d0), with D and D' its two ends.
        starts = np.maximum(np.arange(first, top) * step, d0) * SHRINK
        ends = np.arange(first + 1, top + 1) * step
        beyond = np.array(
            [float((first + 1 + j) * width - minorant.d0) for j in range(top - first)]
        )
        gamma = prices.gamma[:, None]
        memory = gamma * (starts / ends) * SHRINK
        work = (1 - gamma) * (starts / beyond) * SHRINK
        token = memory * (d0 / M + d1 + d2) + work * (d1 + d2)
        chunk = _in_reach(np.minimum.accumulate(token, axis=1), prices.row, reach)
        lengths = [last]
        while lengths[-1] < 3 * last and int(lengths[-1] * 1.12) + 1 < top:
            lengths.append(int(lengths[-1] * 1.12) + 1)
        far_price = np.zeros((len(lengths), cells + 1))
        far_memory = np.zeros((len(lengths), prices.gamma.size))
        far_work = np.zeros_like(far_memory)
        for q, (x, y) in enumerate(zip(lengths, [*lengths[1:], top], strict=True)):
            if x < y:
                padded = np.concatenate([prices.price[:1], prices.price, np.zeros(y + 2)]) / step
                far_price[q, :cells] = _least_in_windows(padded, y + 3)[:cells]
                bins = slice(x - first, y - first)
                far_memory[q] = _in_reach(memory[:, bins].min(axis=1), prices.row, top)
                far_work[q] = _in_reach(work[:, bins].min(axis=1), prices.row, top)
        self._requests = workload.arrival_times, s, o
        self._model = float(M), d0, d1, d2, step, first, last, top, reach, prefix
        self._tables = over_length, over_work, chunk, np.array(lengths)
        self._far = far_price, far_memory, far_work
        self._whole = int(workload.memory_rule.prompt_allocation == "whole")
        self._prices = prices
        self.own = o * d0 + d1 * (s + o - 1) + d2 * (o * s + o * (o + 1) / 2)
        self.integral = Fraction(float(prefix[cells]))

    def of(self, chosen: IntArray, allowance: FloatArray) -> FloatArray:
        """Lower bounds on V_i of the requests ``chosen``, rounded down, seconds.

        Parameters
        ----------
        chosen : int64 array
            Positions, shape (k,).
        allowance : float64 array
            Of each of them, see `priced_bound`, shape (k,).
        """
        values = np.empty(len(chosen))
        a, s, o = self._requests
        a, s, o = a[chosen], s[chosen], o[chosen]
        prices = self._prices
        _request_values(
            a, s, o, *self._model, prices.row, prices.gamma, *self._tables, *self._far,
            self._whole, allowance, values,
        )  # fmt: skip
        return np.maximum(values - ROUNDING * (values + a), self.own[chosen] * (1 - ROUNDING))

    def bound(self, values: FloatArray, minorant: AffineMinorant) -> SecondsBound:
        """What ``values`` of all requests prove."""
        total = sum(map(Fraction, values.tolist()), Fraction(0)) - self.integral
        return SecondsBound(total, "round-length prices", minorant, len(values))


def priced_bound(
    workload: Workload,
    minorant: AffineMinorant,
    prices: RoundLengthPrices,
    allowance: FloatArray | None = None,
    longest_decode: float | None = None,
) -> tuple[SecondsBound, FloatArray]:
    """A certified lower bound on the total latency in seconds, and the values V_i it is made of.

    The statement and its proof stand at the head of this module. Floats with outward rounding.

    Parameters
    ----------
    workload : Workload
        Output lengths below 10^6.
    minorant : AffineMinorant
        Of the batch time, for the workload's memory limit.
    prices : RoundLengthPrices
        Any: the better the prices, the larger the bound.
    allowance : float64 array or None, default None
        Seconds after arrival that are looked at closely, shape (n,). Any is valid; above V_i
        nothing is lost. None takes all the time that has a price.
    longest_decode : float or None, default None
        Rounds up to it are looked at one by one, seconds. None takes 4 d0.

    Returns
    -------
    bound : SecondsBound
        Named "round-length prices".
    values : float64 array
        Seconds, shape (n,).
    """
    priced = PricedValues(workload, minorant, prices, longest_decode)
    if allowance is None:
        horizon = prices.price.size * prices.step
        allowance = np.maximum(0.0, horizon - workload.arrival_times) + priced.own + prices.step
    values = priced.of(np.arange(len(workload)), allowance)
    return priced.bound(values, minorant), values
