"""Prices for `round_length_prices`, by ascent on an approximation of the bound.

Prices prove nothing by themselves: whatever comes out here is a bound only by `priced_bound`. So
the values V_i are approximated freely: steps of a request run in blocks of about fifteen alike,
lengths of rounds are those of a few classes, time has a coarse grid. The recursion's adjoint is a
subgradient: seconds of each cell a request pays for, by memory and by work.

Time beyond the horizon T has no price, here as in the bound: a last cell that went on for ever
would make late requests look dear at no cost to the integral.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.adam import Adam
from hindsight.runtime.clock import run_parts
from hindsight.runtime.compilation import njit, step
from hindsight.runtime.requests import Requests
from instances import FleetSchedule, SecondsSchedule, Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed

from .deadlines import Deadlines
from .machine_bounds import mean_busy_prices
from .minorants import AffineMinorant, own_seconds
from .round_length_prices import Machine, RoundLengthPrices

BLOCK = 15
"""Steps of a request that run alike; with many more, long requests seem too expensive."""

BLOCKS = 40
"""Most blocks of a request."""

SLICES = 8
"""Number of parts of a hand, fixed so that sums do not depend on the number of threads."""

HAND = 2_500
"""About the number of requests that a turn of the ascent evaluates, instead of all."""

FIRST_WINDOW = 4.0
"""Seconds after arrival in which a request is first evaluated, in its latency in the schedule."""

ROW_CELLS = 8
"""Number of cells with one gamma."""

BUSY_SHARE, PRESENT_SHARE = 0.6, 0.35
"""Initial prices, as shares of the machine's value and of the number of requests present."""

FULL = 0.8
"""Share of the memory above which a round's price is at first partly shared by memory."""

STEPS = 8
"""Moments of a cell with a value, where deadlines count: a deadline blurs by about one of them."""

RATE, FAST_RATE = 0.12, 0.25
"""Changes of the logarithm of a price in the first turns; the latter where deadlines count, with
prices that are many times too high or low at first."""

CLASSES = np.concatenate([np.geomspace(0.04, 2, 17), [2.6, 3.6, 6, 12]])
"""Work that a round offers, in units of d0; the longest possible round is added."""


class _Model(NamedTuple):
    """Machine, prices and lengths of rounds for the values of requests.

    Attributes
    ----------
    machine : Machine
        M and the minorant.
    cell : float
        Lengths of rounds, seconds, ascending.
    lengths : float64 array, shape (classes,)
        Of rounds, seconds, ascending.
    price : float64 array, shape (cells,)
        Price of a second in each cell.
    gamma : float64 array, shape (rows,)
        Share of a price that is paid by memory.
    row : int64 array, shape (cells,)
        Entry of ``gamma`` that holds in each cell.
    late : float
        What being late costs, 1; infinite where latency counts.
    step : float
        Seconds between two moments with a value: a cell, or less where deadlines count.
    by_memory, by_work : float64 array, shape (cells + 1,)
        Integrals of both prices up to each cell.
    stop : int64 array, shape (1,)
        Not 0 if the answer is not needed any more.
    """

    machine: Machine
    cell: float
    lengths: FloatArray
    price: FloatArray
    gamma: FloatArray
    row: IntArray
    late: float
    step: float
    by_memory: FloatArray
    by_work: FloatArray
    stop: IntArray


class _Goals(NamedTuple):
    """Windows of requests, seconds after arrival, and deadlines on the clock, shape (k,) each."""

    window: FloatArray
    end: FloatArray
    first_token: FloatArray


class _Answer(NamedTuple):
    """Values of requests, and the derivatives of their sum in prices and shares."""

    values: FloatArray
    by_price: FloatArray
    by_gamma: FloatArray


class _Blocks(NamedTuple):
    """Blocks of steps of one request, in order.

    Attributes
    ----------
    size : float64 array
        Number of steps of a block.
    work, shared : float64 array
        Charges shared by work and by memory, seconds per step.
    own : float64 array
        Least own seconds from the block on.
    """

    size: FloatArray
    work: FloatArray
    shared: FloatArray
    own: FloatArray


class _Block(NamedTuple):
    """A block, and the own seconds ``rest`` of the blocks after it."""

    size: float
    work: float
    shared: float
    rest: float


class _Window(NamedTuple):
    """Grid points ``begin`` .. ``begin`` + ``width`` at which values of a request are stored."""

    begin: int
    width: int


@step
def _split(prompt: int, output: int, machine: Machine, blocks: _Blocks) -> int:
    """Cut the steps of a request into blocks, the first step alone; return their number."""
    M, d0, d1, d2 = machine.memory, machine.d0, machine.d1, machine.d2
    blocks.size[0] = 1.0
    blocks.work[0] = d1 * prompt + d2 * (prompt + 1.0)
    blocks.shared[0] = blocks.work[0] + d0 * (prompt + 1.0) / M
    left = output - 1
    parts = min(left, max(6, min(BLOCKS, left // BLOCK)))
    done = 1
    for g in range(parts):
        steps = left * (g + 1) // parts - left * g // parts
        kv = prompt + done + (steps + 1) * 0.5
        blocks.size[g + 1] = steps
        blocks.work[g + 1] = d1 + d2 * kv
        blocks.shared[g + 1] = blocks.work[g + 1] + d0 * kv / M
        done += steps
    count = parts + 1
    blocks.own[count] = 0.0
    for g in range(count - 1, -1, -1):
        blocks.own[g] = blocks.own[g + 1] + blocks.size[g] * (d0 + blocks.work[g])
    return count


@step
def _rounds(block: _Block, j: int, now: float, model: _Model) -> tuple[float, float, int, float]:
    """Return the length of class j's rounds, their total seconds, cell, and work's share."""
    d0 = model.machine.d0
    length = max(model.lengths[j], d0 + block.work)
    lasts = length * block.size
    # The least of floats first: no integer holds a very long time.
    cell = int(min((now + 0.5 * lasts) / model.cell, model.price.size - 1.0))
    free = block.work / (length - d0) if block.work > 0.0 else 0.0
    return length, lasts, cell, free


@step
def _between(until: FloatArray, begin: float, end: float) -> float:
    """Return the integral of a price from one moment to another, counted in cells."""
    last = until.size - 2.0
    first, final = int(min(begin, last)), int(min(end, last))
    below = until[first] + min(begin - first, 1.0) * (until[first + 1] - until[first])
    above = until[final] + min(end - final, 1.0) * (until[final + 1] - until[final])
    return float(above - below)


@step
def _cheapest(
    block: _Block, best: float, m: int, window: _Window, after: FloatArray, model: _Model
) -> tuple[float, int]:
    """Return the least value for a block beginning at m, and its class; ``best``, -1 if none."""
    choice = -1
    now = (window.begin + m) * model.step
    lengths, shortest = model.lengths, model.machine.d0 + block.work
    for j in range(lengths.size):
        if j + 1 < lengths.size and lengths[j + 1] <= shortest:
            continue
        length, lasts, cell, free = _rounds(block, j, now, model)
        part = model.gamma[model.row[cell]]
        cost = model.price[cell] * lasts * (part * block.shared / length + (1.0 - part) * free)
        if model.late < math.inf:
            begins, ends = now / model.cell, (now + lasts) / model.cell
            cost = _between(model.by_memory, begins, ends) * block.shared / length
            cost += _between(model.by_work, begins, ends) * free
        if cost >= best:
            continue
        # The value after the block is interpolated; beyond the window it is own time alone.
        place = min(m + lasts / model.step, float(window.width))
        k = int(place)
        if k >= window.width:
            cost += now + lasts + block.rest if model.late == math.inf else model.late
        else:
            f = place - k
            cost += (1.0 - f) * after[k] + f * after[k + 1]
        if cost < best:
            best = cost
            choice = j
    return best, choice


@step
def _pay(
    block: _Block,
    j: int,
    share: float,
    m: int,
    window: _Window,
    after: FloatArray,
    model: _Model,
    answer: _Answer,
) -> None:
    """Let a share of the request run the block from m on in class j; add it to ``after``."""
    now = (window.begin + m) * model.step
    length, lasts, cell, free = _rounds(block, j, now, model)
    first = last = cell
    if model.late < math.inf:
        first = int(now / model.cell)
        last = int(min((now + lasts) / model.cell, model.price.size - 1.0))
    for c in range(first, last + 1):
        seconds, row = lasts, model.row[c]
        if model.late < math.inf:
            seconds = min(now + lasts, (c + 1) * model.cell) - max(now, c * model.cell)
        part = model.gamma[row]
        paid = part * block.shared / length + (1.0 - part) * free
        answer.by_price[c] += share * seconds * paid
        answer.by_gamma[row] += share * seconds * model.price[c] * (block.shared / length - free)
    place = min(m + lasts / model.step, float(window.width))
    k = int(place)
    if k < window.width:
        after[k] += share * (1.0 - (place - k))
        after[k + 1] += share * (place - k)


@step
def _at_last(now: float, deadline: float, model: _Model) -> float:
    """Return what it is worth to be complete now."""
    if model.late == math.inf:
        return now
    return model.late if now > deadline else 0.0


@partial(njit, makes_arrays=True)
def _approximate(requests: Requests, goals: _Goals, model: _Model, answer: _Answer) -> None:
    """Fill the values; add the derivatives of their sum."""
    h = model.step
    counts_late = model.late < math.inf
    widest = int(goals.window.max() / h) + 3
    least = np.empty((BLOCKS + 2, widest + 1))
    choice = np.empty((BLOCKS + 1, widest + 1), np.int64)
    flow = np.empty((BLOCKS + 2, widest + 1))
    size, work, shared = np.empty(BLOCKS + 1), np.empty(BLOCKS + 1), np.empty(BLOCKS + 1)
    own = np.empty(BLOCKS + 2)
    blocks = _Blocks(size, work, shared, own)
    for i in range(requests.arrival.size):
        arrival = requests.arrival[i]
        window = _Window(int(arrival / h), int(goals.window[i] / h) + 2)
        begin, width = window.begin, window.width
        count = _split(requests.prompt[i], requests.output[i], model.machine, blocks)
        # Values, from the last block to the first: G_o(t) = t, and none falls with time.
        for m in range(width + 1):
            least[count, m] = _at_last((begin + m) * h, goals.end[i] + h, model)
        for g in range(count - 1, -1, -1):
            block = _Block(size[g], work[g], shared[g], own[g + 1])
            after = least[g + 1]
            if model.stop[0]:
                return
            best = model.late if counts_late else 1e300
            for m in range(width, -1, -1):
                best, choice[g, m] = _cheapest(block, best, m, window, after, model)
                least[g, m] = best
                if g == 1 and (begin + m) * h > goals.first_token[i]:
                    least[g, m] = model.late
        f = arrival / h - begin
        answer.values[i] = (1.0 - f) * least[0, 0] + f * least[0, 1]
        answer.values[i] -= 0.0 if counts_late else arrival
        # Derivatives: the request flows through the choices, from the first block to the last.
        flow[: count + 1, : width + 1].fill(0.0)
        flow[0, 0] = 1.0 - f
        flow[0, 1] = f
        for g in range(count):
            block = _Block(size[g], work[g], shared[g], own[g + 1])
            after = flow[g + 1]
            for m in range(width + 1):
                share = flow[g, m]
                if share < 1e-9:
                    continue
                if choice[g, m] >= 0:
                    _pay(block, choice[g, m], share, m, window, after, model, answer)
                if choice[g, m] < 0 and m < width:
                    # A later start is cheaper: the request waits.
                    flow[g, m + 1] += share


def _load(
    arrival: FloatArray, end: FloatArray, charges: FloatArray, moments: npt.NDArray[Any]
) -> FloatArray:
    """Return the share of the machine, at most 1, that charges evenly spread to their ends take."""
    rate = charges / np.maximum(end - arrival, 1e-9)
    begun = np.append(0.0, np.cumsum(rate))[np.searchsorted(arrival, moments)]
    order = np.argsort(end)
    over = np.append(0.0, np.cumsum(rate[order]))[np.searchsorted(end[order], moments)]
    load: FloatArray = np.clip(begun - over, 0.0, 1.0)
    return load


def _held(schedule: SecondsSchedule, moments: npt.NDArray[Any]) -> IntArray:
    """Return the tokens held in the last round that begins before each moment."""
    running = np.searchsorted(schedule.round_starts, moments) - 1
    return schedule.memory_profile()[np.maximum(running, 0)]


class PriceAscent:
    """Price ascent by Adam on log pi and logit gamma.

    Prices start from `mean_busy_prices` or from the number of requests present in a schedule, since
    a delay at any moment delays all of those.

    Parameters
    ----------
    schedule : SecondsSchedule or FleetSchedule
        A good schedule of the workload.
    minorant : AffineMinorant
        Minorant for `priced_bound`.
    horizon : float
        Seconds from 0 on that have prices, beyond the end of the schedule.
    cell : float
        Seconds with one price, a power of two.
    iterations : int, default 150
        Number of iterations over which steps become smallest.
    deadlines : Deadlines or None, default None
        With deadlines the values are those of *Service levels*, and being late costs 1.

    Attributes
    ----------
    cell : float
        Seconds with one price now.
    hands : int
        Turns that evaluate every request once.
    estimate : float
        Bound on the mean latency that the best prices would give, not certified.
    horizon : float
        See the parameter.
    values : float64 array
        Approximations of V_i, seconds, shape (n,): for the allowance of `priced_bound`.
    turns : int
        Evaluations so far.
    """

    def __init__(
        self,
        schedule: SecondsSchedule | FleetSchedule,
        minorant: AffineMinorant,
        *,
        horizon: float,
        cell: float,
        iterations: int = 150,
        deadlines: Deadlines | None = None,
    ) -> None:
        d0, d1, d2 = map(float, minorant)
        assert isinstance(schedule.problem, Workload)
        workload = relaxed(schedule.problem)
        self._replicas = workload.replicas
        M = float(workload.memory_limit)
        n = len(workload)
        a = workload.arrival_times
        s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
        cells = math.ceil(horizon / cell) + 1
        self._row = np.arange(cells, dtype=np.int64) // ROW_CELLS
        longest = d0 + (d1 + d2) * M
        self._lengths = np.unique(np.minimum(d0 * (1 + np.append(CLASSES, np.inf)), longest))
        middles: npt.NDArray[Any] = (np.arange(cells) + 0.5) * cell
        charges = own_seconds(s, o, 0.0, d1, d2 + d0 / M)
        if deadlines is None:
            times, worth = mean_busy_prices(workload, minorant)
            ends = np.sort(schedule.completion_times)
            present = np.searchsorted(a, middles) - np.searchsorted(ends, middles)
            busy = BUSY_SHARE * np.interp(middles, times, worth)
            # A delay of one replica delays its share of them.
            start = np.maximum(busy, PRESENT_SHARE * present / self._replicas)
        else:
            load = _load(a, deadlines.end, charges / self._replicas, middles)
            start = load**3 / float(np.median(charges))
        rows = int(self._row[-1]) + 1
        held = sum(_held(one, middles[::ROW_CELLS][:rows]) for one in schedule.machines)
        full = held > FULL * M * self._replicas
        least = 0.1 if deadlines is None else 0.01
        self._begin(np.log(start + least), np.where(full, 0.0, -3.0))
        self._machine = Machine(M, d0, d1, d2)
        self._own = o * d0 + d1 * (s + o) + d2 * o * (s + o)
        self._latest = np.maximum(horizon - a, 0.0) + 2 * self._own
        latency = schedule.completion_times - a
        self._window = np.minimum(self._latest, FIRST_WINDOW * latency + 3 * self._own)
        self._deadlines = deadlines
        self._end = self._first_token = np.full(n, math.inf)
        if deadlines is not None:
            o, self._end, self._first_token = deadlines.output, deadlines.end, deadlines.first_token
            self._window = self._latest = np.maximum(self._end - a, 0.0) + cell
        # Deal requests out, so that hands and their parts are alike.
        self.hands = max(1, round(n / HAND))
        self.values = np.zeros(n) if deadlines is None else np.nan_to_num(deadlines.known)
        open_ = np.arange(n) if deadlines is None else np.flatnonzero(np.isnan(deadlines.known))
        self._slices = [
            [open_[hand :: self.hands][part::SLICES] for part in range(SLICES)]
            for hand in range(self.hands)
        ]
        self._given = Requests(a, s, o)
        self.cell = cell
        self.horizon = horizon
        self._iterations = iterations
        self._best: tuple[FloatArray, FloatArray] = (np.exp(self._log_price), np.ones(rows))
        self.estimate = -math.inf
        self.turns = 0

    def climb(self, turns: int, should_stop: Callable[[], bool], pool: Executor) -> None:
        """Run ``turns`` evaluations, or fewer if stopped."""
        while turns > 0 and not should_stop() and self._turn(should_stop, pool):
            turns -= 1

    def refine(self) -> None:
        """Halve the cells, and go on from the present prices."""
        self.cell /= 2
        cells = math.ceil(self.horizon / self.cell) + 1
        before = np.minimum(np.arange(cells) // 2, len(self._row) - 1)
        row_before = self._row[before[::ROW_CELLS]]
        density, gamma = self._best
        self._best = density[before], gamma[row_before]
        self._row = np.arange(cells, dtype=np.int64) // ROW_CELLS
        self._begin(self._log_price[before], self._logit[row_before])
        self.estimate = -math.inf

    def prices(self) -> RoundLengthPrices:
        """Return the best prices so far."""
        density, gamma = self._best
        return RoundLengthPrices(self.cell, density, gamma[self._row])

    def _begin(self, log_price: FloatArray, logit: FloatArray) -> None:
        """Take steps from here."""
        self._log_price, self._logit = log_price, logit
        settings: dict[str, Any] = {"gains": (0.2, 0.02), "damping": 1e-9, "lowest": -7.0}
        self._price_steps = Adam(log_price, **settings)
        self._logit_steps = Adam(logit, **settings, highest=7.0)

    def _turn(self, should_stop: Callable[[], bool], pool: Executor) -> bool:
        """Evaluate once, and take a step; return False if stopped."""
        cell = self.cell
        price = np.exp(self._log_price)
        price[-1] = 0.0
        gamma = 1 / (1 + np.exp(-self._logit))
        n = len(self.values)
        slices = [one for one in self._slices[self.turns % self.hands] if len(one)]
        weight = sum(len(one) for hand in self._slices for one in hand) / sum(map(len, slices))
        by_price, by_gamma = np.zeros_like(price), np.zeros_like(gamma)
        late, step = (math.inf, cell) if self._deadlines is None else (1.0, cell / STEPS)
        part = gamma[self._row]
        memory, work = (np.append(0.0, np.cumsum(one * price * cell)) for one in (part, 1 - part))
        machine, row, stop = self._machine, self._row, np.zeros(1, dtype=np.int64)
        model = _Model(
            machine, cell, self._lengths, price, gamma, row, late, step, memory, work, stop
        )

        def evaluate(chosen: IntArray) -> _Answer:
            own = _Answer(np.empty(len(chosen)), np.zeros_like(price), np.zeros_like(gamma))
            a, s, o = self._given
            requests = Requests(a[chosen], s[chosen], o[chosen])
            goals = _Goals(self._window[chosen], self._end[chosen], self._first_token[chosen])
            _approximate(requests, goals, model, own)
            return own

        answers = run_parts(pool, evaluate, slices, should_stop, stop)
        if answers is None:
            return False
        for chosen, own in zip(slices, answers, strict=True):
            self.values[chosen] = own.values
            by_price += weight * own.by_price
            by_gamma += weight * own.by_gamma
            if self._deadlines is None:
                latest = self._latest[chosen]
                self._window[chosen] = np.minimum(latest, own.values * 1.2 + 3 * self._own[chosen])
        capacity = cell * self._replicas
        estimate = float(self.values.sum() - capacity * price.sum()) / n
        # Of several hands some values are of earlier prices: then the last prices count.
        if estimate > self.estimate or self.hands > 1:
            self.estimate, self._best = estimate, (price, gamma)
        done = min(1.0, self.turns / (self._iterations * self.hands))
        rate = (RATE if self._deadlines is None else FAST_RATE) / (1 + 3 * done) ** 2
        self.turns += 1
        # Shares that change fast from 0 to 1 make prices that the evaluation bounds badly.
        turning = 3 if self._deadlines is None else 1
        self._price_steps.step((by_price - capacity) * price / n, rate)
        self._logit_steps.step(by_gamma * gamma * (1 - gamma) / n, turning * rate)
        return True
