"""Prices for `hindsight.prices.round_lengths`, by ascent on an approximation of the bound.

Prices prove nothing by themselves: only `PricedValues` computes their bound. So the ascent may
approximate the values V_i (`hindsight.prices.round_length_kernels`).

Time beyond the horizon T has no price, here as in the bound: a last cell without an end would
charge late requests and add nothing to the integral.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
import numpy.typing as npt

from hindsight.runtime.clock import run_parts
from instances import FleetSchedule, SecondsSchedule, Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed

from .ascent import Adam, Settings
from .deadlines import Deadlines
from .machines import mean_busy_prices
from .minorants import AffineMinorant, own_seconds
from .round_length_kernels import Answer, Model, approximate_values
from .round_length_tangents import Machine
from .round_length_values import Goals, Requests
from .round_lengths import RoundLengthPrices, sums_of_weights

SLICES = 8
"""Number of parts into which a subset of requests is split for the thread pool. It is fixed, so
that floating-point sums over requests do not depend on the number of threads."""

SUBSET = 2_500
"""Approximate number of requests whose values are computed in one step of the price ascent."""

FIRST_WINDOW = 4.0
"""Factor of a request's latency in the given schedule. The first evaluation of the request covers
this many latencies after its arrival, and three times its least latency more."""

ROW_CELLS = 8
"""Number of consecutive cells (intervals with one price) that share one gamma. Gamma is the share
of the price that is charged for memory."""

BUSY_SHARE, PRESENT_SHARE = 0.6, 0.35
"""Factors in the initial price of a second of machine time, the larger of two products: of
BUSY_SHARE and `mean_busy_prices`, and of PRESENT_SHARE and the requests present per replica."""

FULL = 0.8
"""Memory utilisation in the first schedule above which half of the initial price of a second of
machine time is charged for memory, and half for work. Below, about 5 % is charged for memory."""

STEPS = 8
"""Number of time-grid steps per cell (interval with one price) if requests have deadlines. The
ascent moves a deadline by up to about one grid step."""

FIRST_ATTENDANCE = 1.5
"""Initial logit of u, the share of pi - alpha that those who take part in a round pay."""

PAYING = 0.8
"""Time in which a request has a share, in multiples of the time from its start to its completion in
the schedule. Towards the end some of its mass in the relaxation has completed."""

WEIGHT_UNITS = 1 << 10
"""Units of the weight of a share: proofs have whole numbers."""

RATE, FAST_RATE = 0.12, 0.25
"""Initial step of the logarithm of a price: without deadlines, and with deadlines. The second is
larger, because with deadlines initial prices may be many times too high or too low."""

CLASSES = np.concatenate([np.geomspace(0.04, 2, 17), [2.6, 3.6, 6, 12]])
"""Values of (D - d0) / d0 for the round lengths D that the ascent considers, where d0 is a round's
overhead. The length of the longest possible round is considered too."""


def _load(
    arrival: FloatArray, end: FloatArray, charges: FloatArray, moments: npt.NDArray[Any]
) -> FloatArray:
    """Return the utilisation of a machine at each moment, between 0 and 1.

    Each request occupies the machine evenly from its arrival until its deadline.

    Parameters
    ----------
    arrival, end : float64 array, shape (n,)
        Arrival times, ascending, and deadlines, in seconds on the clock.
    charges : float64 array, shape (n,)
        Machine time that each request takes, in seconds.
    moments : float64 array, shape (k,)
        Times at which the utilisation is wanted, in seconds.
    """
    rate = charges / np.maximum(end - arrival, 1e-9)
    begun = np.append(0.0, np.cumsum(rate))[np.searchsorted(arrival, moments)]
    order = np.argsort(end)
    over = np.append(0.0, np.cumsum(rate[order]))[np.searchsorted(end[order], moments)]
    load: FloatArray = np.clip(begun - over, 0.0, 1.0)
    return load


def _held(schedule: SecondsSchedule, moments: npt.NDArray[Any]) -> IntArray:
    """Return the tokens in memory during the last round that begins before each of ``moments``."""
    running = np.searchsorted(schedule.round_starts, moments) - 1
    return schedule.memory_profile()[np.maximum(running, 0)]


def _first_prices(
    schedule: SecondsSchedule | FleetSchedule,
    workload: Workload,
    minorant: AffineMinorant,
    begins: FloatArray,
    deadlines: Deadlines | None,
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the initial price of each cell, and whether memory is nearly full in each row.

    A cell is a time interval with one price. A row is `ROW_CELLS` consecutive cells. Memory is
    nearly full if ``schedule`` uses more than the share `FULL` of it at the middle of the first
    cell of the row. ``begins`` are the start times of the cells, in seconds.
    """
    d0, d1, d2 = map(float, minorant)
    a, M, replicas = workload.arrival_times, float(workload.memory_limit), workload.replicas
    s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
    middles = begins + 0.5 * (begins[1] - begins[0])
    if deadlines is None:
        times, worth = mean_busy_prices(workload, minorant)
        ends = np.sort(schedule.completion_times)
        present = np.searchsorted(a, middles) - np.searchsorted(ends, middles)
        busy = BUSY_SHARE * np.interp(middles, times, worth)
        # If one replica stops for a second, its share of the requests present becomes a second
        # later. So this share is a price of its machine time.
        price = np.maximum(busy, PRESENT_SHARE * present / replicas) + 0.1
    else:
        charges = own_seconds(s, o, 0.0, d1, d2 + d0 / M)
        load = _load(a, deadlines.end, charges / replicas, middles)
        price = load**3 / float(np.median(charges)) + 0.01
    held = sum(_held(one, middles[::ROW_CELLS]) for one in schedule.machines)
    return price, np.asarray(held > FULL * M * replicas)


class RoundLengthAscent:
    """Ascent of the estimated lower bound in the prices of machine time, by Adam.

    Its variables are the logarithm of the price pi of each cell, and the logit of the share gamma
    of pi that is charged for memory, one for each row of `ROW_CELLS` cells. The rest of pi is
    charged for work (`RoundLengthPrices`). Prices start from `mean_busy_prices` or from the number
    of requests present in a schedule, because a delay of the machine delays all requests present.
    With deadlines they start from the utilisation of the machine.

    Parameters
    ----------
    schedule : SecondsSchedule or FleetSchedule
        A good schedule of the workload, from which prices start.
    minorant : AffineMinorant
        Affine lower bound on the length of a round, as in `PricedValues`.
    horizon : float
        Time until which prices are positive, in seconds. It must be after the end of the schedule
        unless there are deadlines.
    cell : float
        Length of a cell (an interval with one price) in seconds, a power of two.
    iterations : int, default 150
        Number of passes over all requests after which the steps of the prices stop shrinking.
    deadlines : Deadlines or None, default None
        With deadlines, a late request costs 1 and latency costs nothing: see *Service levels* in
        `hindsight.prices.round_lengths`.

    Attributes
    ----------
    cell : float
        Current length of a cell in seconds.
    subsets : int
        Number of subsets of the requests. Each step of the ascent computes the values of one
        subset, so this many steps make one pass over all requests.
    estimate : float
        Estimated lower bound at the best prices, not proved: on the mean latency in seconds, or
        with deadlines on the share of late requests.
    horizon : float
        Time until which prices are positive, in seconds.
    values : float64 array
        Approximate value V_i of each request, its least cost including payments, shape (n,). It is
        in seconds, or between 0 and 1 with deadlines. From it follows how long after its arrival
        `PricedValues` evaluates a request.
    turns : int
        Number of steps of the ascent so far.
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
        assert isinstance(schedule.problem, Workload)
        workload = relaxed(schedule.problem)
        n, a = len(workload), workload.arrival_times
        d0, d1, d2 = map(float, minorant)
        s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
        self._machine = Machine(float(workload.memory_limit), d0, d1, d2)
        self._replicas, self._deadlines = workload.replicas, deadlines
        self.cell, self.horizon, self._iterations = cell, horizon, iterations
        longest = d0 + (d1 + d2) * workload.memory_limit
        self._lengths = np.unique(np.minimum(d0 * (1 + np.append(CLASSES, np.inf)), longest))
        cells = math.ceil(horizon / cell) + 1
        self._row = np.arange(cells, dtype=np.int64) // ROW_CELLS
        begins = np.asarray(cell * np.arange(cells), dtype=np.float64)
        price, full = _first_prices(schedule, workload, minorant, begins, deadlines)
        first = schedule.first_token_times - own_seconds(s, np.ones_like(o), d0, d1, d2)
        first = np.maximum(first, a)
        ends = first, first + PAYING * (schedule.completion_times - first)
        self._ends = np.floor(np.divide(ends, cell))
        self._ends[1] += 1
        logits = np.where(full, 0.0, -3.0), np.full(len(full), FIRST_ATTENDANCE)
        self._begin(np.log(price), np.array(logits), np.zeros(n))
        self._own = o * d0 + d1 * (s + o) + d2 * o * (s + o)
        self._latest = np.maximum(horizon - a, 0.0) + 2 * self._own
        latency = schedule.completion_times - a
        self._window = np.minimum(self._latest, FIRST_WINDOW * latency + 3 * self._own)
        _, self._end, self._first_token, known = deadlines or Deadlines.none(o)
        self.values = np.nan_to_num(known)
        if deadlines is not None:
            o = deadlines.output
            self._window = self._latest = np.maximum(self._end - a, 0.0) + cell
        self._given = a, s, o
        # Assign requests to subsets in turn, and those of a subset to its parts in turn. So each
        # part has requests of all arrival times.
        self.subsets, unknown = max(1, round(n / SUBSET)), np.flatnonzero(np.isnan(known))
        self._slices = [
            [unknown[subset :: self.subsets][part::SLICES] for part in range(SLICES)]
            for subset in range(self.subsets)
        ]
        self.estimate, self.turns = -math.inf, 0

    def climb(self, turns: int, should_stop: Callable[[], bool], pool: Executor) -> None:
        """Run ``turns`` steps of the ascent, or fewer if ``should_stop`` returns True."""
        while turns > 0 and not should_stop() and self._turn(should_stop, pool):
            turns -= 1

    def refine(self) -> None:
        """Halve the cells (intervals with one price), and continue from the current prices."""
        self.cell /= 2
        cells = math.ceil(self.horizon / self.cell) + 1
        before = np.minimum(np.arange(cells) // 2, len(self._row) - 1)
        row_before = self._row[before[::ROW_CELLS]]
        self._row = np.arange(cells, dtype=np.int64) // ROW_CELLS
        self._ends *= 2
        log_price, logits, weights = (one.x for one in self._steps)
        self._begin(log_price[before], logits[:, row_before], weights)
        self.estimate = -math.inf

    def prices(self) -> RoundLengthPrices:
        """Return the prices of machine time with the best estimated bound so far."""
        price, parts, shares = self._best
        gamma, attendance = parts[:, self._row]
        shares = np.maximum(np.rint(shares * (WEIGHT_UNITS, 1, 1)), (1, 0, 0))
        return RoundLengthPrices(self.cell, price, gamma, (attendance, shares))

    def _prices_now(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the price of each cell, gamma and attendance of each row, and all shares."""
        log_price, logits, weights = (one.x for one in self._steps)
        price, parts = np.exp(log_price), 1 / (1 + np.exp(-logits))
        price[-1] = 0.0
        if self._deadlines is not None:
            parts[1] = 0.0
        return price, parts, np.column_stack([np.exp(weights), *self._ends])

    def _begin(self, log_price: FloatArray, logits: FloatArray, weights: FloatArray) -> None:
        """Restart Adam from logarithms of prices, logits of parts and logarithms of weights."""
        settings = Settings((0.2, 0.02), 1e-9, -7.0)
        finite = settings._replace(highest=7.0)
        self._steps = Adam(log_price, settings), Adam(logits, finite), Adam(weights, finite)
        self._best = self._prices_now()

    def _turn(self, should_stop: Callable[[], bool], pool: Executor) -> bool:
        """Compute the values of one subset of the requests and take a step of the ascent.

        Return False if ``should_stop`` returned True before the step.
        """
        cell = self.cell
        found = price, parts, shares = self._prices_now()
        (gamma, attendance), n = parts, len(self.values)
        slices = [one for one in self._slices[self.turns % self.subsets] if len(one)]
        weight = sum(len(one) for subset in self._slices for one in subset) / sum(map(len, slices))
        sums = by_price, by_part, steps = [np.zeros_like(one) for one in (price, parts, price)]
        levied, total = np.zeros(n), np.maximum(sums_of_weights(shares, len(price)), 1e-9)
        levy = self._machine.d0 / total
        penalty, step = (math.inf, cell) if self._deadlines is None else (1.0, cell / STEPS)
        stop = np.zeros(1, dtype=np.int64)
        given = self._machine, cell, self._lengths, price, parts, self._row, levy
        part = gamma[self._row]
        until = [np.append(0.0, np.cumsum(one * price * cell)) for one in (part, 1 - part)]
        model = Model(*given, penalty, step, until[0], until[1], stop)

        def evaluate(chosen: IntArray) -> Answer:
            own = Answer(*np.zeros((2, len(chosen))), *map(np.zeros_like, sums))
            requests = Requests._make(column[chosen] for column in (*self._given, shares))
            goals = Goals(self._window[chosen], self._end[chosen], self._first_token[chosen])
            approximate_values(requests, goals, model, own)
            return own

        answers = run_parts(pool, evaluate, slices, should_stop, stop)
        if answers is None:
            return False
        for chosen, own in zip(slices, answers, strict=True):
            self.values[chosen] = own.values
            levied[chosen] = weight * own.levied
            for whole, one in zip(sums, own[2:], strict=True):
                whole += weight * one
            if self._deadlines is None:
                latest = self._latest[chosen]
                self._window[chosen] = np.minimum(latest, own.values * 1.2 + 3 * self._own[chosen])
        capacity = cell * self._replicas
        estimate = float(self.values.sum() - capacity * price.sum()) / n
        # With several subsets, the values of the other subsets were computed at earlier prices, so
        # estimates cannot be compared. Then the latest prices are kept.
        if estimate > self.estimate or self.subsets > 1:
            self.estimate, self._best = estimate, found
        # A request pays by its own weight, and less by the weights of all who pay in a cell.
        mean = price * ((1 - gamma) * attendance)[self._row] * levy * steps / total
        ends = np.minimum(self._ends, len(mean)).astype(np.int64)
        before, until = np.append(0.0, np.cumsum(mean))[ends]
        beyond = levied - shares[:, 0] * (until - before)
        gradients = (by_price - capacity) * price, by_part * (parts * (1 - parts)), beyond
        done = min(1.0, self.turns / (self._iterations * self.subsets))
        rate = (RATE if self._deadlines is None else FAST_RATE) / (1 + 3 * done) ** 2
        self.turns += 1
        # With deadlines, take smaller steps in the logits. If gamma jumps between 0 and 1 from one
        # row to the next, the prices prove a weak bound.
        turning = 3 if self._deadlines is None else 1
        rates = rate, turning * rate, rate
        for adam, gradient, own_rate in zip(self._steps, gradients, rates, strict=True):
            adam.step(gradient / n, own_rate)
        return True
