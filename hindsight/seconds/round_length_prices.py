r"""Bounds on total latency in seconds by prices of machine time that use a round's length.

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
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit, step
from hindsight.runtime.requests import Requests
from instances import InvalidValueError, Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed

from .machine_bounds import SecondsBound
from .minorants import AffineMinorant
from .reciprocals import reciprocals_below

ROUNDING = 1e-9
"""Relative deflation of a value, beyond (4 o + 100) 2^-53 for o < 10^6."""

LONGEST_OUTPUT = 10**6
"""Outputs are shorter, for `ROUNDING` and because schedules in seconds list every round."""

SHRINK = 1 - 1e-12
"""Factor on shortest lengths before they are truncated to whole cells."""

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
        The arrays do not have this form.
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
    """Round prices of cells down to multiples of a power of two with exact sums."""
    unit = 2.0 ** (math.frexp(float(price.sum()))[1] - 52)
    return np.floor(price / unit) * unit


class Machine(NamedTuple):
    """M and the minorant d0 + d1 tok + d2 kv of a round's length, as floats."""

    memory: float
    d0: float
    d1: float
    d2: float


class _Grid(NamedTuple):
    """Prices on the grid of time.

    Attributes
    ----------
    step : float
        h, seconds.
    prefix : float64 array, shape (cells + top + 2,)
        Integral of pi before each grid point; constant from the last cell on.
    row : int64 array, shape (cells,)
        Entry of ``gamma`` that holds in each cell.
    gamma : float64 array, shape (rows,)
        Share of a price that is paid by memory.
    first_cell : int64 array, shape (rows,)
        First cell of each row.
    """

    step: float
    prefix: FloatArray
    row: IntArray
    gamma: FloatArray
    first_cell: IntArray


class _Lengths(NamedTuple):
    """Lengths of rounds in cells: ``first`` is that of d0 at least, ``top`` the longest.

    Attributes
    ----------
    first, last, top : int
        Rounds of ``first`` .. ``last`` cells are evaluated one by one, in the first step of a
        request all of ``first`` .. ``top``.
    over_length, over_work : float64 array, shape (top - first + 1,)
        At most 1 / D and 1 / (D - d0), from ``first`` cells on, see `reciprocals_below`.
    """

    first: int
    last: int
    top: int
    over_length: FloatArray
    over_work: FloatArray


class _LongRounds(NamedTuple):
    """Classes [x, y) of rounds longer than ``last`` cells, see *Long rounds*.

    Attributes
    ----------
    length : int64 array, shape (classes,)
        x, cells.
    price : float64 array, shape (classes, cells + 1)
        Least price of a second among the cells in reach, by the cell of the start.
    memory, work : float64 array, shape (classes, rows)
        Least of h l r(h (l + 1)), for what is paid by memory and by work.
    """

    length: IntArray
    price: FloatArray
    memory: FloatArray
    work: FloatArray


class _Chunks(NamedTuple):
    """First steps that take two or more chunk rounds; see *Chunks*.

    Attributes
    ----------
    token : float64 array, shape (rows, top - first)
        Least of h j r(h (j + 1)) over bins j <= l, for the payment of one token.
    reach : int
        Cells that the shortest such phase of a request touches, at most.
    whole : int
        1 where the memory of a prompt is held from its first chunk on, else 0.
    """

    token: FloatArray
    reach: int
    whole: int


class _Tables(NamedTuple):
    """Tables from which the values of all requests are computed."""

    machine: Machine
    grid: _Grid
    lengths: _Lengths
    far: _LongRounds
    chunks: _Chunks


class _Request(NamedTuple):
    """A request, and the time from which only little is known of it; see *Window*."""

    arrival: float
    prompt: int
    output: int
    cut: float


class _Values(NamedTuple):
    """G_k at grid points ``low``, ``low`` + 1, ...: ``computed`` of them, then `_tail`.

    Attributes
    ----------
    at : float64 array
        The values.
    remaining : float
        Own seconds of the steps after k.
    ceiling : float
        The last computed value.
    """

    at: FloatArray
    low: int
    computed: int
    remaining: float
    ceiling: float


class _Step(NamedTuple):
    """Step k of a request: G_{k-1} is computed at grid points ``low`` .. ``high``.

    Attributes
    ----------
    share : float
        d0 kv / M + w, what is shared by memory.
    work : float
        w, what is shared by work.
    shortest, longest : int
        Lengths of rounds that are evaluated one by one, cells.
    remaining : float
        Own seconds of steps k and later.
    """

    k: int
    low: int
    high: int
    share: float
    work: float
    shortest: int
    longest: int
    remaining: float


@partial(njit, fastmath=_SUMS)
def _least(
    g: FloatArray, start: int, rate: FloatArray, prefix: FloatArray, m: int, step: _Step
) -> float:
    """Return the least of g + rate x (price of cells) over rounds that begin at m."""
    best = math.inf
    here = prefix[m]
    for count in range(step.shortest, step.longest + 1):
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
    step: _Step,
) -> float:
    """Return `_least` where the rates ``after`` hold from grid point ``edge`` on."""
    best = math.inf
    here = prefix[m]
    middle = prefix[edge]
    for count in range(step.shortest, step.longest + 1):
        there = prefix[m + count]
        early = rate[count] * (min(there, middle) - here)
        late = after[count] * (max(there, middle) - middle)
        best = min(best, g[start + count] + (early + late))
    return best


@step
def _tail(point: int, step: float, remaining: float, ceiling: float) -> float:
    """Return G at a grid point beyond the window: own time or the last value, safe for chords."""
    if (point - 1) * step + remaining >= ceiling:
        return point * step + remaining
    return ceiling


@step
def _shortest_cells(request: _Request, k: int, tables: _Tables) -> int:
    """Return the whole cells of the shortest round of step k."""
    d0, d1, d2 = tables.machine.d0, tables.machine.d1, tables.machine.d2
    tokens = request.prompt if k == 1 else 1
    seconds = d0 + d1 * tokens + d2 * (request.prompt + k)
    return max(tables.lengths.first, int(seconds * SHRINK / tables.grid.step))


@step
def _window(request: _Request, k: int, low: int, following: _Values, tables: _Tables) -> _Step:
    """Choose the grid points at which G_{k-1} is computed, from ``low`` on, and the lengths."""
    machine, lengths, step = tables.machine, tables.lengths, tables.grid.step
    memory = float(request.prompt + k)
    tokens = request.prompt if k == 1 else 1
    work = machine.d1 * tokens + machine.d2 * memory
    seconds = (machine.d0 + work) * SHRINK
    remaining = following.remaining + seconds
    # Both are whole cells of the shortest round; rounding may make them differ by one.
    shortest = max(lengths.first, int(seconds / step), following.low - low)
    high = max(int((request.cut - remaining) / step) + 1, low + 1)
    # Values above the allowance need not be distinguished.
    while (
        high > low + 1
        and 0 <= high - 1 - following.low < following.computed
        and following.at[high - 1 - following.low] > request.cut
    ):
        high -= 1
    longest = lengths.top if k == 1 or shortest >= lengths.last else lengths.last
    share = memory * machine.d0 / machine.memory + work
    return _Step(k, low, high, share, work, shortest, longest, remaining)


@step
def _fill_tail(following: _Values, end: int, step: float) -> None:
    """Write G_k at the grid points beyond its window, before ``end``."""
    for x in range(following.computed, max(following.computed, end - following.low)):
        point = following.low + x
        following.at[x] = _tail(point, step, following.remaining, following.ceiling)


@step
def _fill_rates(step: _Step, grid: _Grid, lengths: _Lengths, rate: FloatArray) -> None:
    """Write rate[r, l], the price r(h l) of a second in a cell of row r, for rows in reach."""
    cells = grid.row.size
    first_row = grid.row[min(step.low, cells - 1)]
    last_row = grid.row[min(step.high + step.longest, cells - 1)]
    for r in range(first_row, last_row + 1):
        shared = grid.gamma[r] * step.share
        worked = (1.0 - grid.gamma[r]) * step.work
        for count in range(step.shortest, step.longest + 1):
            at = count - lengths.first
            rate[r, count] = shared * lengths.over_length[at] + worked * lengths.over_work[at]


@njit
def _take_least(rate: FloatArray, r1: int, r2: int, step: _Step, least: FloatArray) -> None:
    """Write the least of rows r1 .. r2 of the rates, length by length."""
    for count in range(step.shortest, step.longest + 1):
        least[count] = rate[r1, count]
        for r in range(r1 + 1, r2 + 1):
            least[count] = min(least[count], rate[r, count])


@step
def _near_rounds(
    step: _Step, following: _Values, grid: _Grid, rate: FloatArray, values: FloatArray
) -> None:
    """Lower values[x] to the least over rounds that begin at ``low`` + x, length by length."""
    g, prefix, cells = following.at, grid.prefix, grid.row.size
    least = rate[grid.gamma.size]
    for m in range(step.low, step.high + 1):
        start = m - following.low
        at = min(m, cells)
        r1 = grid.row[min(m, cells - 1)]
        r2 = grid.row[min(m + step.longest, cells - 1)]
        if r2 == r1:
            best = _least(g, start, rate[r1], prefix, at, step)
        elif r2 == r1 + 1:
            # gamma changes once: the integral of pi is split there.
            edge = grid.first_cell[r2]
            best = _least_across(g, start, rate[r1], rate[r2], prefix, at, edge, step)
        else:
            # gamma changes more often: the least of the rates, length by length.
            _take_least(rate, r1, r2, step, least)
            best = _least(g, start, least, prefix, at, step)
        values[m - step.low] = best


@step
def _far_rounds(
    step: _Step, following: _Values, grid: _Grid, far: _LongRounds, values: FloatArray
) -> None:
    """Lower values[x] to the least over the longer rounds that begin at ``low`` + x, by class."""
    cells = grid.row.size
    for m in range(step.low, step.high + 1):
        at = min(m, cells)
        r = grid.row[min(m, cells - 1)]
        best = values[m - step.low]
        for q in range(far.length.size):
            paid = far.price[q, at] * (step.share * far.memory[q, r] + step.work * far.work[q, r])
            best = min(best, following.at[m + far.length[q] - following.low] + paid)
        values[m - step.low] = best


@step
def _in_chunks(
    m: int, request: _Request, following: _Values, tables: _Tables, best: float
) -> float:
    """Return the least of ``best`` and two or more chunk rounds from m on, by the longest bin."""
    machine, grid, chunks = tables.machine, tables.grid, tables.chunks
    first, cells, s = tables.lengths.first, grid.row.size, request.prompt
    tokens = (1 + chunks.whole) * s + 1
    two = int((2 * machine.d0 + machine.d1 * s + machine.d2 * tokens) * SHRINK / grid.step)
    r = grid.row[min(m, cells - 1)]
    # Least price of a second in the cells that the phase touches.
    least = math.inf
    seen = m - 2
    for count in range(first, tables.lengths.top):
        end = m + max(count + first, two)
        while seen < end + 1:
            seen += 1
            if seen >= cells:
                least = 0.0
            elif seen >= 0:
                least = min(least, (grid.prefix[seen + 1] - grid.prefix[seen]) / grid.step)
        g = following.at[end - following.low]
        if g >= best:
            break
        best = min(best, g + s * least * chunks.token[r, count - first])
    return best


@step
def _step_back(
    step: _Step,
    request: _Request,
    following: _Values,
    tables: _Tables,
    rate: FloatArray,
    values: FloatArray,
) -> _Values:
    """Compute G_{k-1} from G_k into ``values``; ``following`` reaches as far as any round."""
    # Step for rounds up to ``longest``, *Long rounds* for those beyond.
    _near_rounds(step, following, tables.grid, rate, values)
    if step.longest < tables.lengths.top:
        _far_rounds(step, following, tables.grid, tables.far, values)
    # Window: a start after the last computed grid point counts own time from that point.
    best = step.high * tables.grid.step + step.remaining
    if step.high + 1 >= following.low:
        best = max(best, following.at[step.high + 1 - following.low])
    # The minimum over all later points; in the first step *Chunks*, too.
    for m in range(step.high, step.low - 1, -1):
        best = min(best, values[m - step.low])
        if step.k == 1:
            best = _in_chunks(m, request, following, tables, best)
        values[m - step.low] = best
    count = step.high - step.low + 1
    return _Values(values, step.low, count, step.remaining, values[count - 1])


@partial(njit, makes_arrays=True)
def _request_value(request: _Request, tables: _Tables, rate: FloatArray, room: int) -> float:
    """Return V_i + a_i up to rounding, from G_o, G_{o-1}, ..., G_0 on the grid."""
    grid, lengths = tables.grid, tables.lengths
    begin = int(request.arrival / grid.step)
    low = begin
    for k in range(1, request.output):
        low += _shortest_cells(request, k, tables)
    spare = np.empty(room)
    # G_o(t) = t: nothing computed and nothing remaining, so that all of it is `_tail`.
    following = _Values(np.empty(room), low, 0, 0.0, 0.0)
    for k in range(request.output, 0, -1):
        # Window: where step k may begin, and G_k up to where its rounds end.
        step = _window(request, k, low, following, tables)
        reach = max(step.longest, tables.far.length[-1], tables.chunks.reach if k == 1 else 0)
        _fill_tail(following, step.high + reach + 2, grid.step)
        # Step: prices of a second by length, then the least over all rounds.
        _fill_rates(step, grid, lengths, rate)
        values = _step_back(step, request, following, tables, rate, spare)
        spare, following = following.at, values
        if k > 1:
            low -= _shortest_cells(request, k - 1, tables)
    share = request.arrival / grid.step - begin
    value: float = (1 - share) * following.at[0] + share * following.at[1]
    return value


@partial(njit, makes_arrays=True)
def _request_values(
    requests: Requests, allowance: FloatArray, tables: _Tables, values: FloatArray
) -> None:
    """Write values[i], the least of C_i - a_i and the payments of request i, up to rounding."""
    lengths = tables.lengths
    widest = 0
    for one in allowance:
        widest = max(widest, int(one / tables.grid.step) + 8)
    rate = np.zeros((tables.grid.gamma.size + 1, lengths.top + 1))
    room = widest + tables.chunks.reach + lengths.top + 16
    for i in range(len(values)):
        a, s, o = requests.arrival[i], requests.prompt[i], requests.output[i]
        request = _Request(a, s, o, a + allowance[i])
        values[i] = _request_value(request, tables, rate, room) - a


def _in_reach(table: FloatArray, row: IntArray, reach: int) -> FloatArray:
    """Return, per row, the least over the rows of cells in ``reach`` of its own."""
    least = np.zeros_like(table)
    for r in np.unique(row):
        where = np.flatnonzero(row == r)
        touched = np.unique(row[max(0, where[0] - 1) : where[-1] + reach + 3])
        least[r] = table[touched].min(axis=0)
    return least


def _least_in_windows(values: FloatArray, width: int) -> FloatArray:
    """Return the least of each ``width`` consecutive values, by doubling."""
    covered = 1
    least = values
    while 2 * covered <= width:
        least = np.minimum(least[:-covered], least[covered:])
        covered *= 2
    rest = width - covered
    return np.minimum(least[: len(least) - rest], least[rest:])


def _long_rounds(
    prices: RoundLengthPrices, memory: FloatArray, work: FloatArray, last: int
) -> _LongRounds:
    """Build classes of rounds of ``last`` cells and more; tables are given by row and bin."""
    cells, top = prices.price.size, last + memory.shape[1]
    lengths = [last]
    while lengths[-1] < 3 * last and int(lengths[-1] * 1.12) + 1 < top:
        lengths.append(int(lengths[-1] * 1.12) + 1)
    price = np.zeros((len(lengths), cells + 1))
    by_memory, by_work = np.zeros((2, len(lengths), prices.gamma.size))
    for q, (x, y) in enumerate(pairwise([*lengths, top])):
        if x < y:
            padded = np.concatenate([prices.price[:1], prices.price, np.zeros(y + 2)]) / prices.step
            price[q, :cells] = _least_in_windows(padded, y + 3)[:cells]
            bins = slice(x - last, y - last)
            by_memory[q] = _in_reach(memory[:, bins].min(axis=1), prices.row, top)
            by_work[q] = _in_reach(work[:, bins].min(axis=1), prices.row, top)
    return _LongRounds(np.array(lengths), price, by_memory, by_work)


def refuse_long_outputs(workload: Workload) -> None:
    """Refuse output lengths for which the rounding analysis does not hold.

    Raises
    ------
    InvalidValueError
        An output has `LONGEST_OUTPUT` tokens or more.
    """
    longest = int(workload.output_lengths.max())
    if longest >= LONGEST_OUTPUT:
        raise InvalidValueError("workload", "output_lengths", longest, "is not below 10^6")


class PricedValues:
    """Values V_i of the requests of a workload under given prices.

    Parameters
    ----------
    workload : Workload
        Workload with output lengths below 10^6.
    minorant : AffineMinorant
        Minorant of the batch time, for the workload's memory limit.
    prices : RoundLengthPrices
        Any prices.
    longest_decode : float or None, default None
        Rounds up to this length in seconds are examined one by one. None uses 4 d0.
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
        first_cell = np.searchsorted(prices.row, np.arange(prices.gamma.size)).astype(np.int64)
        whole = int(workload.memory_rule.prompt_allocation == "whole")
        self._requests = Requests(workload.arrival_times, s, o)
        self._tables = _Tables(
            Machine(float(M), d0, d1, d2),
            _Grid(step, prefix, prices.row, prices.gamma, first_cell),
            _Lengths(first, last, top, over_length, over_work),
            _long_rounds(prices, memory[:, last - first :], work[:, last - first :], last),
            _Chunks(chunk, reach, whole),
        )
        self.own = o * d0 + d1 * (s + o - 1) + d2 * (o * s + o * (o + 1) / 2)
        self.integral = Fraction(float(prefix[cells]))

    def of(self, chosen: IntArray, allowance: FloatArray) -> FloatArray:
        """Compute lower bounds on V_i of the requests ``chosen``, rounded down, seconds.

        Parameters
        ----------
        chosen : int64 array
            Positions, shape (k,).
        allowance : float64 array
            Allowance of each of them, see `priced_bound`, shape (k,).
        """
        values = np.empty(len(chosen))
        a = self._requests.arrival[chosen]
        requests = Requests(a, self._requests.prompt[chosen], self._requests.output[chosen])
        _request_values(requests, allowance, self._tables, values)
        return np.maximum(values - ROUNDING * (values + a), self.own[chosen] * (1 - ROUNDING))

    def bound(self, values: FloatArray, minorant: AffineMinorant) -> SecondsBound:
        """Return the bound that ``values`` of all requests prove."""
        total = sum(map(Fraction, values.tolist()), Fraction(0)) - self.integral
        return SecondsBound(total, "round-length prices", minorant, len(values))


def priced_bound(
    workload: Workload,
    minorant: AffineMinorant,
    prices: RoundLengthPrices,
    allowance: FloatArray | None = None,
    longest_decode: float | None = None,
) -> tuple[SecondsBound, FloatArray]:
    """Compute a certified lower bound on total latency in seconds, and its values V_i.

    The module docstring has the statement and its proof. Floats are rounded outward.

    Parameters
    ----------
    workload : Workload
        Workload with output lengths below 10^6.
    minorant : AffineMinorant
        Minorant of the batch time, for the workload's memory limit.
    prices : RoundLengthPrices
        Any prices: the better they are, the larger the bound.
    allowance : float64 array or None, default None
        Seconds after arrival that are examined closely, shape (n,). Any value is valid; above V_i
        nothing is lost. None uses all the time that has a price.
    longest_decode : float or None, default None
        Rounds up to this length in seconds are examined one by one. None uses 4 d0.

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
