r"""Bounds on total latency in seconds by prices of machine time that use a round's length.

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

With beta = 0 that prices the charges of `machine_bounds`. With alpha = 0 a fast round is dear: it
offers little work, and its seconds are shared by that work. That ties the speed of a request to the
length of the round that all of a full batch share.

**Tangents.** Let b steps on end begin at t or later and end at t + E, with share_j = d0 kv_j / M +
w_j. A round of length D makes 1 / D of a step a second. At a rate of x steps a second step j pays
alpha share_j x + beta w_j x / (1 - d0 x) a second. Let phi*(lambda) be the largest of lambda x less
what step 1 pays a second at rate x, over x between 0 and 1 / (d0 + w_1). Let alpha', beta' be the
least prices between t and t + E. For every lambda the steps pay at least

    lambda b + alpha' sum_j (share_j - share_1) + beta' sum_j (w_j - w_1) - integral of phi*(lambda)

from t to t + E. *Proof.* Step j at rate x pays at least lambda_j x less the largest of lambda_j y
less its payment at rate y, a second. Take lambda_j = lambda + alpha' (share_j - share_1) + beta'
(w_j - w_1). As x / (1 - d0 x) = x + d0 x^2 / (1 - d0 x), and w_j, share_j do not fall and prices
are at least alpha', beta', that largest is at most phi*(lambda). Rates integrate to 1 a step. Where
i pauses it pays 0 >= -phi*. [] It is the dual of a convex program, in which steps may take any
rates: the best lambda loses only what changes of w_j and share_j within a block are worth.

Also, if c is the least of alpha share_1 / w_1 + beta between t and t + E, they pay at least c times
the sum of the w_j, since share_j / w_j does not fall; with w = 0, the least alpha times the sum of
the share_j.

*Prompts.* A prompt of s >= 2 tokens is a step like that with w = (d1 + d2) s and kv = s in its
share, in one round or in chunks. *Proof.* A round of length D with a chunk of q tokens does x = q /
(s D) of it a second and pays alpha share x + beta w x D / (D - d0) or more, where D <= 1 / x, as
q <= s. And x is at most 1 / (d0 + w), which one round reaches. [] Chunks last longer in all, so its
own time is that of one round.

**Evaluation.** Let G_k(t) be the least completion time plus payments of the blocks after the k-th
where they begin at t or later; G(t) = t after the last. G_{k-1}(t) is the least, over t' >= t and
E, of the payment of block k in [t', t' + E) and G_k(t' + E). Time has a grid of step h; prices are
constant in cells of several steps. Kept are values at grid points whose interpolation g_k is
non-decreasing and nowhere above G_k.

*Step.* For E up to X, a multiple of h, and fixed lambda, let Phi be the integral of phi*. It is
linear between grid points, and so is g_k. Where m h <= t <= (m + 1) h, the payment and G_k at t + E
are at least the constants of the tangent, Phi(t), and the least of g_k - Phi at the grid points
that surround all t + E. This is linear in t: its values at m and m + 1 are a pair of ends. The
lengths E up to X are cut into ranges, each with a lambda of its own, and the ends are the least of
all ranges. A grid point has an end of the step before it and one of the step after it, and takes
the lower one. Then the chord is below, and so after a minimum over all later points.

*Long blocks.* A block of more than X has a moment of least c. If it is in [t, t + X], the block
pays at least the least c of that time, and then G_k at t + X. A later moment is in [t', t' + X] for
a later t', which the minimum over all later points takes. Prices are the least for all t within h
of a grid point, and g_k(t + X) is linear between grid points.

*Window.* Beyond ``allowance`` after a_i only two facts are used: G_k(t) >= t + own remaining
seconds, and G_k does not fall. Their maximum has a kink, and its chord there would be above it:
grid points up to and including the kink's cell get the last computed value. A start after the last
computed grid point m may be in the cell after m, so its own time counts from m, and its end is at m
+ 1 or later if the block lasts h or more.

*Service levels.* Let being late cost 1 and time nothing. Then V_i is the least of 1 and all that i
pays over such sequences that keep its limits. The number of late requests is at least sum_i V_i
less the integral, K times that with K machines: whoever is on time pays V_i at least, whoever is
late counts 1, and payments are bounded as above. The evaluation is the same with G(t) = 1 after the
deadline (see `Deadlines`) and 0 up to it. Block 0 ends with the first token: after its deadline G_1
is 1 too. The first grid point at a deadline or after it keeps the lower value, so that no chord is
above the jump. *Window*: a start at t with t + own remaining seconds at the deadline or later, or
later than that, is late. Nothing else was used of G_k but that it does not fall.

*Rounding.* h and the length of cells are powers of two, so the grid is exact. Sums of numbers >= 0
are within 10^-8 of exact for o < 10^6, relatively, and values are lowered by that; that covers
alpha + beta, which is the price within 2^-51. A tangent adds up lambda b, seconds, and phi* times
seconds, phi* being at most lambda / d0. Each of its operations, fewer than four for a grid point,
is exact within 2^-52 of the largest of them: `_ERROR` of that is taken off for every grid point.
The rest of g_k and the payments of alpha' and beta' are at most the value, so that 10^-8 of it
covers their roundings. An x that is off by 2^-50 / d0 misses the largest lambda x less a payment by
no more than 2^-50 lambda / d0. Whether the compiler reorders sums does not matter for it. Where
being late costs 1, G is at most 1 and takes the place of seconds in that sum. An arrival's place
moves by 2^-27 of a step, and such a value by that or less, which with the roundings of its own sums
is below 10^-8: (1 + value) 10^-8 is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.runtime.clock import never, run_parts
from hindsight.runtime.compilation import inner, njit, step
from hindsight.runtime.requests import Requests
from instances import InvalidValueError, Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed
from instances.validation import as_integer, as_number

from .deadlines import Deadlines
from .machine_bounds import SecondsBound
from .minorants import AffineMinorant, own_seconds

ROUNDING = 1e-8
"""Relative deflation of a value, beyond (4 o + 100) 2^-53 for o < 10^6."""

LONGEST_OUTPUT = 10**6
"""Outputs are shorter, for `ROUNDING` and because schedules in seconds list every round."""

LATEST = 2**26
"""Most steps of the grid before an arrival, which is a decimal rounded to a float: with that many
its place moves by 2^-27 of a step, and a value by less than `ROUNDING` of it."""

SHRINK = 1 - 1e-12
"""Factor on shortest lengths before they are truncated to whole steps of the grid."""

SLOWEST, UNHURRIED, LONGEST = 8.0, 6.0, 40.0
"""X of a block: in its own time at least; in the time that is best where beta is largest at least,
but then no more than LONGEST own times."""

WIDENING = 0.01
"""Growth of the spread of lengths with a common tangent, by seconds beyond d0 in own times."""

ALIKE = 1.05
"""Ratio of the best lambdas at both ends of a group up to which one between them serves all."""

HALVINGS = 7
"""Steps of the search for a tangent."""

SLACKEST = 0.02
"""Least share of a round beyond d0 for which a tangent is sought."""

TOUCH = 0.93
"""Where it touches, as a share of the longest time beyond d0: further down it is too steep."""

GROUP = 40.0
"""Least seconds that have their tangents in common, in d0, where lengths spread to their double."""

DRIFT = 2
"""Tokens held by a request for every step of a block, at least: within a block they hardly grow."""

NOTHING = -1e300
"""Ends before the first tangent; finite, as the loop may assume that numbers are."""

_ERROR = 2.0**-49
"""Bound on the relative errors of an operation on tangents, see *Rounding*."""

_SUMS = {"nnan", "ninf", "nsz", "contract", "reassoc"}


@dataclass(frozen=True, eq=False)
class RoundLengthPrices:
    """Prices of machine time, constant in cells.

    Attributes
    ----------
    cell : float
        Length of a cell in seconds, a power of two.
    price : float64 array
        Of a second, pi = alpha + beta >= 0; 0 after the last cell. Shape (cells,).
    gamma : float64 array
        alpha / pi of each cell, in [0, 1], shape (cells,).

    Raises
    ------
    InvalidValueError
        The arrays do not have this form.
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
                raise InvalidValueError("prices", field, getattr(self, field), "is not as declared")

    @property
    def integral(self) -> Fraction:
        """Return the integral of the price over time, exactly."""
        return Fraction(self.cell) * sum(map(Fraction, self.price.tolist()), Fraction(0))


class Machine(NamedTuple):
    """M and the minorant d0 + d1 tok + d2 kv of a round's length, as floats."""

    memory: float
    d0: float
    d1: float
    d2: float


class _Grid(NamedTuple):
    """The grid of time and the prices on it.

    Attributes
    ----------
    step : float
        h, seconds.
    width : int
        Steps of a cell.
    alpha, beta : float64 array, shape (cells + 1,)
        Prices of a second in each cell, 0 in the last, which has no end.
    dearest : float
        The largest beta.
    """

    step: float
    width: int
    alpha: FloatArray
    beta: FloatArray
    dearest: float


class _Tables(NamedTuple):
    """Tables from which the values of all requests are computed, and a flag that ends that."""

    machine: Machine
    grid: _Grid
    size: int
    spread: float
    stop: IntArray


class _Block(NamedTuple):
    """Steps of a request, see *Tangents*.

    Attributes
    ----------
    steps : int
        b.
    share, work : float
        share_1 and w_1.
    more_share, more_work : float
        Sums of share_j - share_1 and of w_j - w_1.
    own : float
        Least seconds of the block.
    """

    steps: int
    share: float
    work: float
    more_share: float
    more_work: float
    own: float


class _Span(NamedTuple):
    """Grid points ``low`` .. ``high`` at which G_{k-1} is computed, and lengths of the block.

    Attributes
    ----------
    shortest, longest : int
        Own time and X in steps of the grid.
    remaining : float
        Own seconds of this block and those after it.
    """

    low: int
    high: int
    shortest: int
    longest: int
    remaining: float


class _Room(NamedTuple):
    """Arrays to work in.

    Attributes
    ----------
    phi, least : float64 array
        Phi, and the least of g_k - Phi; for a group of grid points.
    left, right : float64 array
        Ends of each step of the grid in a group.
    fixed : float64 array
        Constants of a tangent, by grid point of a group.
    paid : float64 array, shape (cells + 1,)
        Payment of a block at a moment of a cell.
    """

    phi: FloatArray
    least: FloatArray
    left: FloatArray
    right: FloatArray
    fixed: FloatArray
    paid: FloatArray


class _Values(NamedTuple):
    """G_k at grid points ``low``, ``low`` + 1, ...: ``computed`` of them, then `_tail`.

    Attributes
    ----------
    at : float64 array
        The values.
    remaining : float
        Own seconds of the blocks after k.
    ceiling : float
        The last computed value.
    deadline : float
        Seconds on the clock after which G is 1, where it counts who is late; else infinite.
    """

    at: FloatArray
    low: int
    computed: int
    remaining: float
    ceiling: float
    deadline: float


class _Goals(NamedTuple):
    """Aims of requests, shape (k,): see *Window* and *Service levels*.

    Attributes
    ----------
    allowance : float64 array
        Seconds after arrival that are examined closely.
    end, first_token : float64 array
        Deadlines on the clock; infinite where latency counts.
    """

    allowance: FloatArray
    end: FloatArray
    first_token: FloatArray


@partial(njit, fastmath=_SUMS)
def _window_minima(values: FloatArray, count: int, width: int) -> None:
    """Replace values[x] by the least of values[x] .. values[x + width - 1], for x < count."""
    covered = 1
    while 2 * covered <= width:
        for x in range(count + width - 2 * covered):
            values[x] = min(values[x], values[x + covered])
        covered *= 2
    rest = width - covered
    for x in range(count):
        values[x] = min(values[x], values[x + rest])


@partial(njit, fastmath=_SUMS)
def _take_better(room: _Room, count: int) -> None:
    """Take the ends of a tangent for each step of the grid where their sum is larger."""
    left, right, phi, least, fixed = room.left, room.right, room.phi, room.least, room.fixed
    for x in range(count):
        begin = fixed[x] + phi[x] + least[x]
        end = fixed[x] + phi[x + 1] + least[x]
        if begin + end > left[x] + right[x]:
            left[x] = begin
            right[x] = end


@step
def _tail(point: int, step: float, following: _Values) -> float:
    """Return G at a grid point beyond the window: own time or the last value, safe for chords."""
    remaining, ceiling, deadline = following.remaining, following.ceiling, following.deadline
    if deadline < math.inf:
        return 1.0 if (point - 1) * step + remaining >= deadline else ceiling
    if (point - 1) * step + remaining >= ceiling:
        return point * step + remaining
    return ceiling


@step
def _next_block(done: int, prompt: int, output: int, tables: _Tables) -> _Block:
    """Return the block after ``done`` steps of a request; the prompt is one of its own."""
    M, d0, d1, d2 = tables.machine
    if done == 0 and prompt > 1:
        work = (d1 + d2) * prompt
        own = d0 + d1 * prompt + d2 * (prompt + 1.0)
        return _Block(1, d0 * prompt / M + work, work, 0.0, 0.0, own * SHRINK)
    steps = 1
    if done > 0:
        steps = min(max(1, (prompt + done) // DRIFT), tables.size, output - done)
    kv = prompt + done + 1.0
    work = d1 * (prompt if done == 0 else 1.0) + d2 * kv
    more = 0.5 * steps * (steps - 1)
    own = steps * (d0 + work) + d2 * more
    return _Block(steps, d0 * kv / M + work, work, (d0 / M + d2) * more, d2 * more, own * SHRINK)


@step
def _conjugate(
    block: _Block, rate: float, alpha: float, beta: float, d0: float
) -> tuple[float, float]:
    """Return phi*(rate) at given prices, and the steps a second for which it is reached."""
    rest = rate - alpha * block.share
    priced = beta * block.work
    if rest <= priced:
        return 0.0, 0.0
    # The best x has derivative rest - priced / (1 - d0 x)^2 = 0, or is the largest.
    slack = max(math.sqrt(priced / rest), block.work / (d0 + block.work))
    x = (1.0 - slack) / d0
    return x * (rest - priced / slack if slack > 0.0 else rest), x


@inner
def _tangent(block: _Block, begin: int, lasts: float, grid: _Grid, d0: float) -> float:
    """Return the lambda that is best for a block that ``lasts`` seconds from a grid point on.

    With it the steps whose payments phi* stands for are those of the block.
    """
    cells, width = grid.alpha.size - 1, grid.width
    ends = begin + lasts / grid.step
    first, last = min(begin // width, cells), min(int(ends) // width, cells)
    slack = max(block.work / (d0 + block.work), SLACKEST)
    low, high = math.inf, 0.0
    for c in range(first, last + 1):
        paid, worked = grid.alpha[c] * block.share, grid.beta[c] * block.work
        low = min(low, paid + worked)
        high = max(high, paid + worked / (slack * slack))
    best, most = low, low * block.steps
    for _ in range(HALVINGS):
        rate = math.sqrt(low * high) if low > 0.0 else 0.5 * high
        made, paid = 0.0, rate * block.steps
        for c in range(first, last + 1):
            until = ends if c == cells else min(ends, (c + 1.0) * width)
            seconds = grid.step * (until - max(begin, c * width))
            phi, x = _conjugate(block, rate, grid.alpha[c], grid.beta[c], d0)
            made += seconds * x
            paid -= seconds * phi
        if paid > most:
            best, most = rate, paid
        if made < block.steps:
            low = rate
        else:
            high = rate
    return best


@step
def _window(
    block: _Block, low: int, cut: float, following: _Values, grid: _Grid, d0: float
) -> _Span:
    """Choose the grid points at which G_{k-1} is computed, from ``low`` on, and the lengths."""
    step = grid.step
    remaining = following.remaining + block.own
    # Both are whole steps of the shortest block, and no more than its own time as that is shrunk;
    # rounding may make them differ by one.
    shortest = max(int(block.own / step), following.low - low)
    # At a constant beta the best D - d0 is the root of beta w d0.
    best = block.steps * (d0 + math.sqrt(grid.dearest * block.work * d0))
    slowest = min(max(SLOWEST * block.own, UNHURRIED * best), LONGEST * block.own)
    longest = max(int(slowest / step), shortest) + 1
    high = max(int((cut - remaining) / step) + 1, low + 1)
    # Values above the allowance need not be distinguished, or those that say "late".
    most = cut if following.deadline == math.inf else 1.0 - ROUNDING
    while (
        high > low + 1
        and 0 <= high - 1 - following.low < following.computed
        and following.at[high - 1 - following.low] > most
    ):
        high -= 1
    return _Span(low, high, shortest, longest, remaining)


@inner
def _fill_paid(block: _Block, span: _Span, grid: _Grid, room: _Room) -> None:
    """Fill the payments of a block at a moment of each cell, see *Long blocks*."""
    cells, width = grid.alpha.size - 1, grid.width
    per_work = block.share / block.work if block.work > 0.0 else 0.0
    work = block.steps * block.work + block.more_work
    share = block.steps * block.share + block.more_share
    first, last = (span.low - 1) // width, (span.high + 1 + span.longest) // width
    for c in range(min(max(first, 0), cells), min(last, cells) + 1):
        room.paid[c] = grid.alpha[c] * share
        if block.work > 0.0:
            room.paid[c] = (grid.alpha[c] * per_work + grid.beta[c]) * work


@inner
def _follow(
    block: _Block, rate: float, begin: int, count: int, late: int, tables: _Tables, room: _Room
) -> None:
    """Fill Phi and the constants of the tangent of a lambda, for blocks of up to ``late`` steps."""
    grid, d0 = tables.grid, tables.machine.d0
    cells, width = grid.alpha.size - 1, grid.width
    points = count + late + 2
    x, phi = 0, 0.0
    while x < points:
        c = min((begin + x) // width, cells)
        end = points if c == cells else min(points, (c + 1) * width - begin)
        density, _ = _conjugate(block, rate, grid.alpha[c], grid.beta[c], d0)
        growth = grid.step * density
        for y in range(x, end):
            room.phi[y] = phi + growth * (y - x)
        phi += growth * (end - x)
        if x < count:
            alpha, beta = grid.alpha[c], grid.beta[c]
            for z in range(c, min((begin + end + late + 1) // width, cells) + 1):
                alpha, beta = min(alpha, grid.alpha[z]), min(beta, grid.beta[z])
            constant = rate * block.steps + alpha * block.more_share + beta * block.more_work
            for y in range(x, min(end, count)):
                room.fixed[y] = constant
        x = end


@inner
def _group(
    block: _Block,
    span: _Span,
    following: _Values,
    tables: _Tables,
    room: _Room,
    begin: int,
    count: int,
    values: FloatArray,
) -> float:
    """Lower values[x] by the ends of the ``count`` steps of the grid from ``begin`` on.

    The largest lambda is returned, for the bound on rounding errors.
    """
    grid, d0 = tables.grid, tables.machine.d0
    largest, least = 0.0, block.steps * d0
    early = span.shortest
    while early < span.longest and not tables.stop[0]:
        # Lengths from ``early`` to ``late`` have tangents in common.
        free = max(grid.step * early - least, block.steps * block.work)
        longer = free * (tables.spread + WIDENING * free / block.own)
        late = min(max(early + 1, int((least + longer) / grid.step)), span.longest)
        touch = least + TOUCH * (grid.step * (late + 1) - least)
        first = _tangent(block, begin, touch, grid, d0)
        last = _tangent(block, begin + count, touch, grid, d0)
        is_alike = max(first, last) <= ALIKE * min(first, last)
        for x in range(count):
            room.left[x] = room.right[x] = NOTHING
        for end in range(1 if is_alike else 3):
            rate = math.sqrt(first * last) if is_alike or end == 2 else (first, last)[end]
            largest = max(largest, rate)
            _follow(block, rate, begin, count, late, tables, room)
            shift = begin - following.low
            for y in range(early, count + late + 2):
                room.least[y - early] = following.at[shift + y] - room.phi[y]
            _window_minima(room.least, count, late + 2 - early)
            _take_better(room, count)
        for x in range(count):
            values[x] = min(values[x], room.left[x])
            values[x + 1] = min(values[x + 1], room.right[x])
        early = late
    return largest


@inner
def _step_back(
    block: _Block,
    span: _Span,
    following: _Values,
    tables: _Tables,
    room: _Room,
    values: FloatArray,
) -> None:
    """Compute G_{k-1} from G_k into ``values``; ``following`` reaches as far as any block."""
    grid, longest = tables.grid, span.longest
    cells, width = grid.alpha.size - 1, grid.width
    for x in range(following.computed, span.high + 2 * longest + 8 - following.low):
        following.at[x] = _tail(x + following.low, grid.step, following)
    _fill_paid(block, span, grid, room)
    for x in range(span.high - span.low + 2):
        values[x] = math.inf
    # Step: groups of grid points have their tangents in common.
    group = int(GROUP * (tables.spread - 1.0) * tables.machine.d0 / grid.step) + 1
    begin, largest = span.low, 0.0
    while begin <= span.high and not tables.stop[0]:
        # A prompt may be shorter than a cell, and its best lambda changes within it.
        most = width if block.steps > 1 else span.shortest // 4
        count = min(max(min(width - begin % width, most), group), span.high + 1 - begin)
        rate = _group(
            block, span, following, tables, room, begin, count, values[begin - span.low :]
        )
        largest = max(largest, rate)
        begin += count
    points = max(width, group) + longest + 8
    counts_late = following.deadline < math.inf
    seconds = 1.0 if counts_late else grid.step * (span.high + 2 * points) + span.remaining
    lasts = block.steps + grid.step * points / tables.machine.d0
    error = _ERROR * points * (largest * lasts + seconds)
    # Window: a start after the last computed grid point counts own time from that point.
    best = span.high * grid.step + span.remaining
    if counts_late:
        best = 1.0 if best >= following.deadline else 0.0
    after = span.high + min(span.shortest, 1)
    if after >= following.low:
        best = max(best, following.at[after - following.low])
    # Long blocks, and the minimum over all later points.
    first, last, paid = 0, -1, math.inf
    for m in range(span.high, span.low - 1, -1):
        # Cells of a long block that begins within a step of m.
        since, until = max(m - 1, 0) // width, min((m + 1 + longest) // width, cells)
        if (min(since, cells) != first or until != last) and not tables.stop[0]:
            first, last, paid = min(since, cells), until, math.inf
            for c in range(first, last + 1):
                paid = min(paid, room.paid[c])
        best = min(best, paid + following.at[m + longest - following.low])
        best = min(best, values[m - span.low] - error)
        values[m - span.low] = best


@partial(njit, makes_arrays=True)
def _request_values(
    requests: Requests, goals: _Goals, tables: _Tables, size: int, values: FloatArray
) -> None:
    """Write values[i], the least of C_i - a_i and the payments of request i, up to rounding.

    Where there are deadlines, being late is worth 1 instead of seconds. Once ``tables.stop`` is set
    the values are 0.
    """
    step, cells = tables.grid.step, tables.grid.alpha.size
    by_point = np.empty((7, size))
    room = _Room(
        by_point[0],
        by_point[1],
        by_point[2],
        by_point[3],
        by_point[4],
        np.empty(cells),
    )
    at, spare = by_point[5], by_point[6]
    begins = np.empty(max(requests.output) + 1, np.int64)
    for i in range(values.size):
        a, s, o = requests.arrival[i], requests.prompt[i], requests.output[i]
        # Blocks, by the number of steps before each.
        count = done = 0
        low = begin = int(a / step)
        while done < o:
            block = _next_block(done, s, o, tables)
            begins[count] = done
            low += int(block.own / step)
            done += block.steps
            count += 1
        # G(t) = t: nothing computed and nothing remaining, so that all of it is `_tail`.
        end, cut = goals.end[i], a + goals.allowance[i]
        following = _Values(at, low, 0, 0.0, 0.0, end)
        for k in range(count - 1, -1, -1):
            if tables.stop[0]:
                break
            block = _next_block(begins[k], s, o, tables)
            low -= int(block.own / step)
            span = _window(block, low, cut, following, tables.grid, tables.machine.d0)
            _step_back(block, span, following, tables, room, spare)
            computed = span.high - span.low + 1
            if k == 1 and goals.first_token[i] < math.inf:
                # G_1 is where the first token is out.
                for x in range(computed):
                    if (low + x - 1) * step >= goals.first_token[i]:
                        spare[x] = 1.0
            free = following.at
            following = _Values(spare, low, computed, span.remaining, spare[computed - 1], end)
            spare = free
        part = a / step - begin
        if tables.stop[0]:
            values[i] = 0.0
            continue
        values[i] = (1 - part) * following.at[0] + part * following.at[1]
        if end == math.inf:
            values[i] -= a
        at, spare = following.at, spare


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


def longest_block(
    workload: Workload, minorant: AffineMinorant, size: int, dearest: float = 1e300
) -> float:
    """Return the largest X of a block of up to ``size`` steps, or of a prompt, seconds."""
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

    Parameters
    ----------
    workload : Workload
        Workload with output lengths below 10^6.
    minorant : AffineMinorant
        Minorant of the batch time, for the workload's memory limit.
    prices : RoundLengthPrices
        Any prices.
    step : float
        Step of the grid of time in seconds, a power of two, at most a cell.
    size : int, default 32
        Most steps of a request in a block.
    spread : float, default 1.2
        Ratio of the longest to the shortest time beyond d0 of rounds with a common tangent, > 1.
    deadlines : Deadlines or None, default None
        With deadlines V_i is that of *Service levels*, in [0, 1].

    Raises
    ------
    InvalidValueError
        An output has 10^6 tokens or more, an arrival is too late for the step, or the step, size
        or spread is not as declared.
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
            reason = "is not a power of two that is at most a cell"
            raise InvalidValueError("grid", "step", step, reason)
        as_integer(size, "grid", "size", minimum=1)
        as_number(spread, "grid", "spread", above=1)
        latest = float(workload.arrival_times.max())
        if latest > LATEST * step:
            reason = f"is more than {LATEST} steps of the grid"
            raise InvalidValueError("workload", "arrival_times", latest, reason)
        s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
        alpha, beta = np.zeros((2, prices.price.size + 1))
        alpha[:-1] = prices.gamma * prices.price
        beta[:-1] = (1 - prices.gamma) * prices.price
        matter = o if deadlines is None else deadlines.output
        self._requests, self._deadlines = Requests(workload.arrival_times, s, matter), deadlines
        self._tables = _Tables(
            Machine(float(workload.memory_limit), d0, d1, d2),
            _Grid(step, round(prices.cell / step), alpha, beta, float(beta.max())),
            size,
            spread,
            np.zeros(1, dtype=np.int64),
        )
        longest = longest_block(workload, minorant, size, float(beta.max()))
        self._longest = math.ceil(longest / step) + 2
        self.own = own_seconds(s, o, d0, d1, d2)
        self.integral = workload.replicas * prices.integral

    def of(self, chosen: IntArray, allowance: FloatArray) -> FloatArray:
        """Compute lower bounds on V_i of the requests ``chosen``, rounded down.

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
        end = first_token = np.full(len(chosen), math.inf)
        if self._deadlines is not None:
            end, first_token = self._deadlines.end[chosen], self._deadlines.first_token[chosen]
        goals = _Goals(allowance, end, first_token)
        _request_values(requests, goals, self._tables, self.points(allowance), values)
        if self._deadlines is None:
            return np.maximum(values - ROUNDING * (values + a), self.own[chosen] * (1 - ROUNDING))
        known = self._deadlines.known[chosen]
        found: FloatArray = np.where(np.isnan(known), values - ROUNDING * (1 + values), known)
        return np.maximum(found, 0.0)

    def points(self, allowance: FloatArray) -> int:
        """Return the number of grid points at which a request is evaluated, at most."""
        return int(float(allowance.max()) / self._tables.grid.step) + 4 * self._longest + 32

    def raise_values(
        self,
        values: FloatArray,
        allowance: FloatArray,
        order: IntArray,
        pool: Executor,
        must_stop: Callable[[], bool] = never,
    ) -> bool:
        """Raise ``values`` request by request in an order; return False if stopped.

        The value of a request stays as it was if there is no time for it.
        """

        def evaluate(part: IntArray) -> None:
            for request in part:
                one = np.array([request])
                values[one] = np.maximum(values[one], self.of(one, allowance[one]))

        parts = np.array_split(order, min(len(order), 64))
        return run_parts(pool, evaluate, parts, must_stop, self._tables.stop) is not None

    def total(self, values: FloatArray) -> Fraction:
        """Return the sum of ``values`` of all requests less the machines' integrals, exactly."""
        return sum(map(Fraction, values.tolist()), Fraction(0)) - self.integral

    def bound(self, values: FloatArray, minorant: AffineMinorant) -> SecondsBound:
        """Return the bound that ``values`` of all requests prove."""
        return SecondsBound(self.total(values), "round-length prices", minorant, len(values))


def priced_bound(
    workload: Workload,
    minorant: AffineMinorant,
    prices: RoundLengthPrices,
    step: float,
    allowance: FloatArray | None = None,
    size: int = 32,
    spread: float = 1.2,
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
    step : float
        Step of the grid of time in seconds, a power of two, at most a cell.
    allowance : float64 array or None, default None
        Seconds after arrival that are examined closely, >= 0, shape (n,). Any are valid; above V_i
        nothing is lost. None uses all the time that has a price.
    size : int, default 32
        Most steps of a request in a block.
    spread : float, default 1.2
        Ratio of the longest to the shortest time beyond d0 of rounds with a common tangent, > 1.

    Returns
    -------
    bound : SecondsBound
        Named "round-length prices".
    values : float64 array
        Seconds, shape (n,).
    """
    priced = PricedValues(workload, minorant, prices, step, size, spread)
    if allowance is None:
        horizon = prices.price.size * prices.cell
        allowance = np.maximum(0.0, horizon - workload.arrival_times) + priced.own + step
    values = priced.of(np.arange(len(workload)), allowance)
    return priced.bound(values, minorant), values
