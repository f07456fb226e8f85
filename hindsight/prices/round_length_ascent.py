"""Prices of machine time (`hindsight.prices.round_lengths`), by ascent on an approximate bound.

Prices prove nothing by themselves: only `PricedValues` computes their bound. So the ascent may
approximate V_i, the least latency plus payments of each request i
(`hindsight.prices.round_length_kernels`).

After the horizon T the price is 0, here as in the bound. The bound is the sum of the V_i minus the
integral of the price, and the integral ends at T. With a price after T, requests that run then
would pay more, while the integral would not grow: the ascent would raise this price without end.
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
from .round_lengths import RoundLengthPrices, Shares

SLICES = 8
"""An ascent step evaluates a subset of the requests, in this many parts in parallel. The number is
fixed, so that floating-point sums over requests do not depend on the number of threads."""

SUBSET = 2_500
"""Approximate number of requests for which a price ascent step computes least costs."""

ROW_CELLS = 8
"""Cells (intervals with one price pi) in a row with equal gamma and attendance. The share gamma of
pi is charged for memory and work (seconds that tokens add to a round), (1 - gamma) * attendance for
work and taking part in rounds, and (1 - gamma) * (1 - attendance) for work alone."""

STEPS, DEADLINE_STEPS = 2, 8
"""Number of time-grid steps per cell (interval with one price), without and with deadlines. The
grid is finer with deadlines, because they take effect up to about one grid step late."""

STEP_SIZES = (0.09, 200, 10), (0.25, 100, 1)
"""Step sizes of Adam, without and with deadlines: (1) the first one for the logarithms of prices,
(2) passes over all requests after which step sizes are a quarter of the first ones, (3) step size
for logits and levels / step size for prices. With deadlines the first steps are larger, as initial
prices may be many times too high or too low. Halving cells resets nothing: large steps would undo
the progress."""

CLASSES = np.concatenate([np.geomspace(0.04, 2, 17), [2.6, 3.6, 6, 12]])
"""Values of (D - d0) / d0 for the round lengths D that the ascent lets requests choose, where d0 is
the overhead of a round. The length of the longest possible round is one more choice."""


def _load(
    arrival: FloatArray, end: FloatArray, charges: FloatArray, moments: npt.NDArray[Any]
) -> FloatArray:
    """Return the utilisation of a machine at each of some moments, between 0 and 1.

    The machine time of each request is spread evenly from its arrival to its deadline.

    Parameters
    ----------
    arrival, end : float64 array, shape (n,)
        Arrival times, ascending, and deadlines, in seconds since time 0.
    charges : float64 array, shape (n,)
        Machine time that each request needs, in seconds.
    moments : float64 array, shape (k,)
        Times at which the utilisation is wanted, in seconds.
    """
    rate = charges / np.maximum(end - arrival, 1e-9)
    begun = np.append(0.0, np.cumsum(rate))[np.searchsorted(arrival, moments)]
    order = np.argsort(end)
    over = np.append(0.0, np.cumsum(rate[order]))[np.searchsorted(end[order], moments)]
    load: FloatArray = np.clip(begun - over, 0.0, 1.0)
    return load


def _first_prices(
    schedule: SecondsSchedule | FleetSchedule,
    workload: Workload,
    minorant: AffineMinorant,
    begins: FloatArray,
    charges: FloatArray,
    deadlines: Deadlines | None,
) -> FloatArray:
    """Return the initial price of a second of machine time in each cell, shape (cells,).

    A cell is a time interval with one price. ``begins`` has the start time of each cell in seconds.
    ``charges`` has the least machine time of each request in seconds.
    """
    a, replicas = workload.arrival_times, workload.replicas
    middles = begins + 0.5 * (begins[1] - begins[0])
    if deadlines is None:
        times, worth = mean_busy_prices(workload, minorant)
        ends = np.sort(schedule.completion_times)
        present = np.searchsorted(a, middles) - np.searchsorted(ends, middles)
        # If one machine stops for a second, the requests present on it complete a second later.
        # Their mean number, ``present / replicas``, is a price of a second of machine time. At a
        # high load the price of `mean_busy_prices` may be larger.
        busy = np.interp(middles, times, worth)
        return np.asarray(np.maximum(busy, present / replicas) + 0.1)
    load = _load(a, deadlines.end, charges / replicas, middles)
    return load**3 / float(np.median(charges)) + 0.01


class RoundLengthAscent:
    """Price ascent by Adam that seeks prices of machine time for which the lower bound is large.

    A *cell* is a time interval with one price pi of a second of machine time. The share *gamma* of
    pi is charged for memory and work (the seconds that tokens add to a round). Of the other part of
    pi, the share *attendance* is charged for work and for taking part in rounds, and the rest for
    work alone. The *levels* of the requests in a cell determine how much each of them pays for
    taking part in a round (`Shares`). A request has a level in each cell from its start to its
    completion in the given schedule.

    The variables are the logarithm of pi in each cell, the logits of gamma and of the attendance in
    each row of `ROW_CELLS` cells, and the logarithms of the levels.

    The initial price of a cell is the larger of two numbers, plus 0.1. One is the price of
    `mean_busy_prices`. The other is the number of requests present per machine in the schedule:
    if a machine stops for a second, each of them completes a second later.

    With deadlines, initial prices follow from the utilisation of the machine. No request has a
    level, and the attendance is 0.

    Parameters
    ----------
    schedule : SecondsSchedule or FleetSchedule
        A good schedule of the workload, from which initial prices are computed.
    minorant : AffineMinorant
        Affine lower bound on the length of a round, as in `PricedValues`.
    horizon : float
        Time until which prices are positive, in seconds. It must be after the end of the schedule
        unless there are deadlines.
    cell : float
        Length of a cell (an interval with one price) in seconds, a power of two.
    deadlines : Deadlines or None, default None
        With deadlines, a late request costs 1 and latency costs nothing: see *Service levels* in
        `hindsight.prices.round_lengths`.

    Attributes
    ----------
    minorant : AffineMinorant
        The affine lower bound on the length of a round.
    deadlines : Deadlines or None
        The deadlines of the requests. None if the goal is total latency.
    cell : float
        Current length of a cell in seconds.
    subsets : int
        Number of subsets of the requests. Each step of the ascent computes the values of one
        subset, so this many steps make one pass over all requests.
    estimate : float
        Estimated lower bound at the latest prices: on the mean latency in seconds, or with
        deadlines on the share of late requests. It is not proved.
    horizon : float
        Time until which prices are positive, in seconds.
    values : float64 array
        Approximate value V_i of each request, its least latency plus payments, shape (n,). It is in
        seconds, or between 0 and 1 with deadlines. Without deadlines, it determines the allowance
        given to `PricedValues`: the time after a request's arrival up to which its costs are
        computed.
    turns : int
        Number of steps of the ascent so far.
    """

    def __init__(
        self,
        schedule: SecondsSchedule | FleetSchedule,
        minorant: AffineMinorant,
        horizon: float,
        cell: float,
        deadlines: Deadlines | None = None,
    ) -> None:
        assert isinstance(schedule.problem, Workload)
        workload = relaxed(schedule.problem)
        n, a = len(workload), workload.arrival_times
        machine = d0, d1, d2, least, square = tuple(map(float, minorant))
        s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
        self._machine = Machine(float(workload.memory_limit), *machine)
        self.minorant, self.deadlines, self._replicas = minorant, deadlines, workload.replicas
        self._fine = STEPS if deadlines is None else DEADLINE_STEPS
        self.cell, self.horizon = cell, horizon
        longest = d0 + (d1 + d2) * workload.memory_limit
        self._lengths = np.unique(np.minimum(d0 * (1 + np.append(CLASSES, np.inf)), longest))
        cells = math.ceil(horizon / cell) + 1
        self._row = np.arange(cells, dtype=np.int64) // ROW_CELLS
        begins = np.asarray(cell * np.arange(cells), dtype=np.float64)
        charges = own_seconds(s, o, 0.0, d1, d2 + d0 / workload.memory_limit, 0.0, square)
        price = _first_prices(schedule, workload, minorant, begins, charges, deadlines)
        first = schedule.first_token_times - own_seconds(s, np.ones_like(o), *machine)
        times = np.array([np.maximum(first, a), schedule.completion_times + cell])
        ends = np.minimum((times / cell).astype(np.int64), cells - 1) * (deadlines is None)
        # Logits 0 and 1.5: at first, half of a price is charged for memory and work (gamma). Of the
        # other half, a share of 0.82 is charged for work and taking part in rounds (attendance).
        logits = np.outer([0.0, 1.5], np.ones(self._row[-1] + 1))
        levels = np.zeros((ends[1] - ends[0]).sum())
        self._shares = Shares(ends[0], ends[1], levels.copy())
        self._begin(np.log(price), logits, levels)
        self._own = o * max(d0, least) + d1 * (s + o) + d2 * o * (s + o) + square * s**2
        self._latest = np.maximum(horizon - a, 0.0) + 2 * self._own
        # The least cost of a request is at most about that of serving it at once. So it is computed
        # until that long after its arrival.
        wide = self._own + charges * np.interp(a, begins, price)
        self._window = np.minimum(self._latest, wide + 3 * cell)
        _, self._end, self._first_token, known = deadlines or Deadlines.none(o)
        self.values = np.nan_to_num(known)
        if deadlines is not None:
            o = deadlines.output
            self._window = self._latest = np.maximum(self._end - a, 0.0) + cell
        self._given = a, s, o
        # ``unknown`` has the requests whose least cost must be computed from prices. Request number
        # j of them is in subset j mod ``subsets``. Each subset is divided into `SLICES` parts in
        # the same way. So the requests of each part are spread over all arrival times.
        self.subsets, unknown = max(1, round(n / SUBSET)), np.flatnonzero(np.isnan(known))
        self._slices = [
            [unknown[subset :: self.subsets][part::SLICES] for part in range(SLICES)]
            for subset in range(self.subsets)
        ]
        self.estimate, self.turns = -math.inf, 0
        self._mean: tuple[Any, Any] = (0.0, 0.0)

    def climb(self, turns: int, should_stop: Callable[[], bool], pool: Executor) -> None:
        """Run ``turns`` steps of the ascent, or fewer if ``should_stop`` returns True."""
        while turns > 0 and not should_stop() and self._turn(should_stop, pool):
            turns -= 1

    def refine(self) -> None:
        """Halve the cells (intervals with one price), and continue from the current prices."""
        self.cell /= 2
        cells = 2 * len(self._row) - 1
        before = np.arange(cells) // 2
        row_before = self._row[before[::ROW_CELLS]]
        self._row = np.arange(cells, dtype=np.int64) // ROW_CELLS
        self._shares = self._shares.split(2)
        log_price, logits, levels = (one.x for one in self._steps)
        self._begin(log_price[before], logits[:, row_before], np.repeat(levels, 2))
        self._mean = self._mean[0][:, before], np.repeat(self._mean[1], 2)

    def prices(self) -> RoundLengthPrices:
        """Return weighted means over all ascent steps of the prices of machine time.

        Later steps have larger weights. The bound is concave in the prices alpha (for memory and
        work), beta (for work), eta (for work and taking part in rounds), and in the payments mu_i
        of requests for taking part. So the means over steps prove a larger bound than the prices of
        most single steps.
        """
        (alpha, beta, eta), levy = self._mean
        rest, cell = beta + eta, self._cell
        parts = [one / np.maximum(of, 1e-300) for one, of in ((alpha, alpha + rest), (eta, rest))]
        # The levels of requests determine how much each pays for taking part in rounds. Proofs need
        # levels that are whole numbers. In each cell (time interval with one price), scale the
        # levels so that their sum over all requests is 4096, then round them.
        levels = np.rint(4096 * levy / np.maximum(eta[cell], 1e-300))
        shares = self._shares._replace(levels=levels)
        return RoundLengthPrices(self.cell, alpha + rest, parts[0], (parts[1], shares))

    def _begin(self, log_price: FloatArray, logits: FloatArray, levels: FloatArray) -> None:
        """Restart Adam, with running means of 0, at the given variables.

        ``log_price`` has the logarithm of the price of each cell (time interval with one price).
        ``logits`` has two rows: gamma and the attendance, the shares that divide prices into parts.
        ``levels`` has the logarithms of the levels that divide payments among requests.
        """
        settings = Settings((0.2, 0.02), 1e-9, -7.0)
        finite = settings._replace(highest=7.0)
        self._steps = Adam(log_price, settings), Adam(logits, finite), Adam(levels, finite)
        self._cell = self._shares.places()[1]
        self._fine_shares = self._shares.split(self._fine)

    def _now(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return price, gamma and attendance of each cell, and the normalised levels of requests.

        A cell is a time interval with one price. Gamma is the share of this price that is charged
        for memory and work. Of the other part of the price, the share called attendance is charged
        for work and for taking part in rounds. The levels of requests in a cell determine how much
        each pays for taking part. A normalised level is the level of a request divided by the sum
        of the levels of all requests in the same cell.
        """
        log_price, logits, levels = (one.x for one in self._steps)
        price, parts, raw = np.exp(log_price), 1 / (1 + np.exp(-logits)), np.exp(levels)
        price[-1] = 0.0
        parts[1] *= self.deadlines is None
        cell = self._cell
        return price, *parts[:, self._row], raw / np.bincount(cell, raw)[cell]

    def _turn(self, should_stop: Callable[[], bool], pool: Executor) -> bool:
        """Compute the least costs V_i of one subset of the requests, and take a step of the ascent.

        V_i is the least latency plus payments of request i. Return False if ``should_stop``
        returned True before the step.
        """
        now = price, gamma, attendance, part = self._now()
        eta = price * (1 - gamma) * attendance
        rates = np.array([price * gamma, price * (1 - gamma) - eta, eta])
        found = rates, eta[self._cell] * part
        model, share = self._model(*found)
        slices = [one for one in self._slices[self.turns % self.subsets] if len(one)]
        weight = sum(len(one) for subset in self._slices for one in subset) / sum(map(len, slices))

        def evaluate(chosen: IntArray) -> Answer:
            empty = map(np.zeros_like, (model.until, model.levies))
            own = Answer(np.zeros(len(chosen)), *empty)
            requests = Requests._make(column[chosen] for column in (*self._given, share))
            goals = Goals(self._window[chosen], self._end[chosen], self._first_token[chosen])
            approximate_values(requests, goals, model, own)
            return own

        answers = run_parts(pool, evaluate, slices, should_stop, model.stop)
        if answers is None:
            return False
        for chosen, own in zip(slices, answers, strict=True):
            self.values[chosen] = own.values
            if self.deadlines is None:
                wide = np.maximum(own.values * 1.05, self._own[chosen]) + 3 * self.cell
                self._window[chosen] = np.minimum(self._latest[chosen], wide)
        estimate = self.values.sum() - self.cell * self._replicas * price.sum()
        self.estimate = float(estimate) / len(self.values)
        # In the mean over steps, prices of step k have a weight of about k^5, because the first
        # prices are far from the best ones.
        newest, old = 6 / (self.turns + 6), self._mean
        self._mean = tuple(old[k] + newest * (found[k] - old[k]) for k in range(2))
        # The integral of a price up to a grid point is a sum over all cells (intervals with one
        # price) before that point. So the derivative by the price of a cell is the sum of the
        # derivatives by the integrals at all later points: a cumulative sum from the end.
        by_until = sum(own.by_until for own in answers)[::-1].cumsum(axis=0)[::-1]
        fine, step = self._fine, model.step
        charges = by_until[1 : len(price) * fine + 1].reshape(-1, fine, 3).sum(axis=1).T
        by_levies = np.append(sum(own.by_levies for own in answers)[::-1].cumsum()[::-1], 0.0)
        many, every, _ = self._fine_shares.places()
        place, last = share[:, 2], share[:, 1:].sum(axis=1)
        rounds = step * (by_levies[place[many] + every + 1] - by_levies[last[many] + 1])
        is_new = np.isin(many[::fine], np.concatenate(slices))
        np.copyto(self._shares.levels, rounds.reshape(-1, fine).sum(axis=1), where=is_new)
        self._step(now, weight * step * charges)
        self.turns += 1
        return True

    def _model(self, rates: FloatArray, levy: FloatArray) -> tuple[Model, IntArray]:
        """Return a `Model` of present prices, on a time grid of several steps per cell.

        A cell is a time interval with one price. Also return the array `Requests.share`, with grid
        steps as its cells. ``rates`` are the prices alpha (for memory and work), beta (for work)
        and eta (for work and taking part in rounds) of each cell, shape (3, cells). ``levy`` has,
        for each level, what its request pays for taking part in a round, divided by the overhead d0
        of a round.
        """
        fine, d0 = self._fine, self._machine.d0
        step = self.cell / fine
        until = np.cumsum(np.repeat(rates, fine, axis=1) * step, axis=1)
        beyond = max(int((self._given[0] + self._window).max() / step) + 5 - until.shape[1], 0)
        until = np.pad(np.pad(until, ((0, 0), (1, 0))), ((0, 0), (0, beyond)), "edge")
        # ``levies`` lists the entries of request 0, then those of request 1, and so on: one at each
        # end of each grid step in which the request pays for taking part. So a request with k such
        # steps has k + 1 entries. ``place[i]`` + x is the position of the entry of request i at
        # grid point x. `Shares.places` returns this array for k entries per request. The additional
        # entry of each request before i adds i in all.
        request, cell, place = self._fine_shares.places()
        place += np.arange(len(place))
        levies = np.zeros(len(request) + len(place))
        levies[place[request] + cell + 1] = d0 * step * np.repeat(levy, fine)
        penalty = math.inf if self.deadlines is None else 1.0
        given = self._machine, self._lengths, penalty, step, np.ascontiguousarray(until.T)
        share = np.column_stack([*self._fine_shares[:2], place])
        return Model(*given, np.cumsum(levies), np.zeros(1, dtype=np.int64)), share

    def _step(self, now: tuple[FloatArray, ...], charges: FloatArray) -> None:
        """Take a step of the ascent from the present prices.

        ``now`` is the result of `_now`: prices, the shares gamma and attendance that divide them
        into parts, and the levels of requests, which divide the payments for taking part in rounds
        among them. ``charges``, of shape (3, cells), are derivatives of the sum of the least costs
        V_i of all requests i by the prices alpha (memory and work), beta (work) and eta (work and
        taking part) of each cell, a time interval with one price. They are computed as if the
        payments mu_i for taking part in rounds were constant. In fact mu_i is proportional to eta.
        This method adds the derivatives that follow from this.
        """
        price, gamma, attendance, part = now
        cell, d0, rounds = self._cell, self._machine.d0, self._shares.levels
        mean = np.bincount(cell, part * rounds, len(price))
        memory, work, both = charges[0], charges[1], charges[2] + d0 * mean
        rest = work + attendance * (both - work)
        by_price = gamma * memory + (1 - gamma) * rest - self.cell * self._replicas
        by_gamma = price * (memory - rest) * gamma * (1 - gamma)
        by_attendance = price * (1 - gamma) * (both - work) * attendance * (1 - attendance)
        by_logit = [np.bincount(self._row, one) for one in (by_gamma, by_attendance)]
        by_level = d0 * (price * (1 - gamma) * attendance)[cell] * part * (rounds - mean[cell])
        # Gamma and attendance are the shares that divide a price into its parts. With deadlines
        # ``turning`` is smaller. Otherwise large steps of their logits would move gamma to 0 in
        # some time intervals and to 1 in the next, and such prices prove a weak bound.
        first, slowing, turning = STEP_SIZES[self.deadlines is not None]
        rate = first / (1 + self.turns / (slowing * self.subsets)) ** 2
        gradients = by_price * price, np.array(by_logit), by_level
        rates = rate, turning * rate, turning * rate
        for adam, gradient, own in zip(self._steps, gradients, rates, strict=True):
            adam.step(gradient / len(self.values), own)
