"""Solve a problem in seconds: the least total latency, or the most requests on time.

Both goals share the code below. With total latency as the goal, deadlines are None.

*Upper bounds on the cost* are feasible schedules: list schedules in seconds, improved by annealing
their sort keys (`hindsight.schedules.keys`). The cost is total latency, or the number of late
requests. For total latency, annealing runs in a second thread while lower bounds are computed. For
requests on time, where lower bounds gain more, annealing runs after them.

*Lower bounds on the cost* are first computed without prices. For total latency these are the bounds
of `hindsight.prices.machines`. For late requests it is the number of requests that are late even if
a machine serves only them. Then dual ascent finds prices of machine time that use a round's length,
for the best minorant (affine lower bound) of the batch time. They are evaluated with outward
rounding on finer and finer grids (`hindsight.prices.round_lengths`). With deadlines, a late request
costs 1 there (*Service levels*).

If a batch time has no known minorant, the only lower bound is 0. If memory is not counted in
tokens, schedules are found for a stricter workload in tokens, then timed and checked by the given
memory rule. Lower bounds are computed for a relaxed workload in tokens
(`instances.problem.memory_translation`).

Late requests that are served after all others delay no request on time. So the optimum is the same
whether late requests are served or dropped: see `with_late`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from hindsight.outcomes.flow import Background, Part, run_turns
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.result import NO_BOUND, rounded_down
from hindsight.prices.deadlines import Deadlines, own_times
from hindsight.prices.machines import machine_bounds
from hindsight.prices.minorants import AffineMinorant, affine_minorants, is_known
from hindsight.prices.round_length_ascent import RoundLengthAscent
from hindsight.prices.round_length_rounding import LATEST, SAFE
from hindsight.prices.round_lengths import PricedValues, RoundLengthPrices, SecondsProof
from hindsight.runtime.search import Search
from hindsight.schedules.keys import KeySearch
from instances import FleetSchedule, SecondsSchedule, Workload
from instances.arrays import IntArray
from instances.batch_time.seconds_schedule import COLUMNS
from instances.problem.fleet_schedule import by_replica

OWN_TIME, PRICES = "own time", "round-length prices"
"""Names of two lower bounds. `OWN_TIME`: number of requests that are late even if they are served
alone. `PRICES`: bound proved by prices of machine time, which a dual ascent finds."""

OPENING_SHARE, EVALUATION_SHARE = 0.15, (1.0, 0.5)
"""Shares of the time left. `OPENING_SHARE`: for first schedules. `EVALUATION_SHARE`: for the lower
bound, without and with deadlines."""

MANY, VALUE_SECONDS, ASCENT_SHARES = 3_000, 0.028, ((0.3, 0.7), (0.33, 0.33))
"""`ASCENT_SHARES`: least and largest share of the time left that price ascents get, without and
with deadlines. With more than `MANY` requests, they leave `VALUE_SECONDS` * (number of requests) /
(number of threads) to the lower bound, about what it takes on the first time grid."""

MARGIN = 1.1
"""Prices of machine time are 0 after about this factor times the makespan of the best schedule."""

CELLS, LEVEL_CELLS, MOST_CELLS = 3, 12, 1 << 16
"""A price cell is an interval of constant price. The first cells of a price ascent have a length of
about (mean latency) / `CELLS` or, with deadlines, (median time from arrival to deadline) /
`LEVEL_CELLS`. `MOST_CELLS`: largest number of price cells from time 0 to the last price."""

TURNS = 120
"""A price ascent ends at the latest after this many passes over all requests without halving its
price cells (intervals of constant price). With a time limit, 4 times as many passes are allowed."""

PROBE_TURNS = 12
"""Number of steps of price ascent that are tried with each minorant (affine lower bound on batch
time). The ascent continues only with the minorant whose lower bound on the cost is then largest."""

OFFER_PAUSE = 4
"""After annealing has built a schedule from its sort keys, it builds the next one only after this
many times the seconds that this took. For 20,000 requests this takes 2 s."""

CYCLES = 2
"""Number of simulated annealings that improve the schedule if there is no time limit."""

FINER_TURNS, FINEST_CELL, STALL_GAINS = 40, 4.0, (2e-4, 5e-5)
"""After every `FINER_TURNS` passes over all requests, a price ascent halves its price cells
(intervals of constant price) if there is time for as many passes with halved ones. A cell lasts at
least `FINEST_CELL` times d0, the seconds of a round without tokens. With shorter cells, prices that
fall and rise from cell to cell prove less. If cells are not halved, the ascent ends once
`FINER_TURNS` passes raise its lower bound by at most the first of `STALL_GAINS` times that bound.
If time is left when the search for schedules has ended, it goes on with the second one."""

GRIDS: tuple[tuple[float, int], ...] = ((0.4, 256), (1.6, 128), (6.4, 32), (12.8, 16), (25.6, 16))
GRID_TURNS = slice(4), slice(3, 5)
"""`GRIDS`: time grids for the lower bound by prices (`PricedValues`), coarsest first. Each row: (1)
least number of grid steps in d0, the seconds of a round without tokens, (2) largest number of
consecutive rounds of a request that are evaluated together. `GRID_TURNS`: the grids used first, and
the grids used if time is left when the search for schedules has ended."""

LARGEST_WINDOW = 1 << 22
"""Largest number of grid points of one request. A time grid that needs more is not used."""


def close_in_seconds(interval: Interval, search: Search, *, anneal: bool = True) -> None:
    """Improve the lower and the upper bound of a problem whose times are in seconds.

    Return once the bounds meet, the time is up, or no method is left that could improve them.

    Parameters
    ----------
    interval : Interval
        Receives the bounds and schedules. Its problem is a Workload. Its goal is total latency or
        `OnTime`.
    search : Search
        Search options, already checked, with the interval's clock. Without ``threads``, every core
        is used.
    anneal : bool, default True
        Whether annealing improves the first schedules. `hindsight.relax` turns it off.
    """
    interval.phase = "schedules"
    interval.prove(0, NO_BOUND)
    if search.start is not None:
        interval.offer(search.start.without_waiting())
    _Search(interval, search, anneal=anneal).run()


def grids(
    minorant: AffineMinorant, prices: RoundLengthPrices, turn: slice = slice(None)
) -> Iterator[tuple[float, int]]:
    """Yield the parameters of the time grids for the lower bound by prices, the coarsest first.

    For each grid, they are the parameters ``step`` and ``size`` of `PricedValues`: the seconds
    between two grid points, and the last entry of a row of `GRIDS`. The prices were computed for
    ``minorant``, an affine lower bound on the batch time. ``turn`` selects the grids.
    """
    for overhead_steps, size in GRIDS[turn]:
        step = 2.0 ** math.floor(math.log2(float(minorant.d0) / overhead_steps))
        yield min(step, prices.cell), size


class _Search:
    """Solver for one problem whose times are in seconds.

    It finds first schedules, computes lower bounds without and with prices, and improves the
    schedules by annealing.
    """

    def __init__(self, interval: Interval, search: Search, *, anneal: bool) -> None:
        self._interval, self._anneal = interval, anneal
        self._workload = workload = interval.source
        batch_time = workload.require_batch_time()
        bounded, memory = is_known(batch_time), workload.memory_limit
        self._minorants = affine_minorants(batch_time, memory) if bounded else ()
        self._limits = interval.problem.limits
        self._threads = search.cores
        recomputes = interval.problem.preemption == "recompute"
        self._keys = KeySearch(workload, search.seed, recomputes=recomputes, limits=self._limits)
        # The argument 2 is a number of threads: if the goal is total latency, the search for
        # schedules runs in a second thread, even on a single core.
        self._schedules = Background(interval, 2, self._find)
        # There is a price ascent for each minorant, an affine lower bound on the batch time.
        # ``_best_ascent`` is the one with the highest estimate of the lower bound on the cost.
        self._best_ascent: RoundLengthAscent | None = None
        self._turn = 0

    def run(self) -> None:
        """Find schedules and lower bounds until the bounds meet or the solve must stop."""
        interval, clock = self._interval, self._interval.clock
        with clock.within(OPENING_SHARE * clock.seconds_left()):
            self._keys.open(interval.is_done)
        began = clock.seconds()
        self._offer_best(interval)
        # After the limit, a schedule may still be built, and the exact cost of the best one is
        # computed. Keep time for both: each takes about as long as this first schedule.
        spare = 2 * (clock.seconds() - began)
        # Compute lower bounds without prices even if the time is up: otherwise there would be none.
        interval.phase = "bounds"
        self._prove_without_prices()
        with_deadlines = self._limits is not None
        work = VALUE_SECONDS * len(self._workload) * (len(self._workload) > MANY) / self._threads
        shares = *ASCENT_SHARES[with_deadlines], 1 - work / max(clock.seconds_left(), 1e-9)
        with (
            clock.within(clock.seconds_left() - spare),
            ThreadPoolExecutor(self._threads) as pool,
            self._schedules.running(wanted=not with_deadlines),
        ):
            parts = [
                Part(partial(self._ascend, pool), "prices", sorted(shares)[1]),
                Part(partial(self._evaluate, pool), "evaluation", EVALUATION_SHARE[with_deadlines]),
                Part(lambda: self._find(interval), "schedules", fits=with_deadlines),
                Part(self._schedules.wait, "schedules", fits=not with_deadlines),
            ]
            run_turns(interval, parts, self._again)

    def _again(self) -> bool:
        """Return whether the time that is left can raise the lower bound further; count the turns.

        In a second turn, the best ascent goes on, and its prices are evaluated on finer grids.
        """
        self._turn += 1
        limited = self._interval.clock.limit_left() is not None
        return limited and self._limits is None and self._turn < len(GRID_TURNS)

    def _find(self, interval: Interval) -> bool:
        """Search for schedules, and offer each better one to ``interval``.

        End when the solve is done, when several annealings in a row have found no better schedule
        or, without a time limit, after `CYCLES` annealings. If the goal is total latency, this
        method runs in a second thread. It returns False, so that `Background` does not repeat it.
        """
        clock, keys, stop = self._interval.clock, self._keys, interval.is_done
        limited, due = clock.limit_left() is not None, 0.0
        keys.open(stop)
        self._offer_best(interval)
        if self._anneal:
            for _ in keys.anneal(lambda: stop() or (not limited and keys.cycle >= CYCLES)):
                begun = clock.seconds()
                if begun >= due:
                    self._offer_best(interval)
                    due = clock.seconds() + OFFER_PAUSE * (clock.seconds() - begun)
            if not stop():
                self._offer_best(interval)
        return False

    def _offer_best(self, interval: Interval) -> None:
        """Offer the best schedule so far to ``interval``.

        With deadlines, it has only the requests on time. If there are none, nothing is offered.
        """
        best = self._keys.on_time()
        if best is not None:
            interval.offer(best[0], None if self._limits is None else best[1])

    def _prove_without_prices(self) -> None:
        """Compute all lower bounds on the cost that need no prices of machine time."""
        interval, workload, limits = self._interval, self._workload, self._limits
        if limits is not None:
            for minorant in self._minorants:
                late = int((Deadlines.of(workload, minorant, limits, math.inf).known == 1).sum())
                interval.prove(late, OWN_TIME)
        elif self._minorants:
            # If every output were one token, each latency would be a time to first token. So lower
            # bounds on the total latency with outputs of one token are lower bounds on the sum of
            # times to first token.
            one_token = workload.replaced(output_lengths=[1] * len(workload))
            first = machine_bounds(one_token, workload.batch_time)
            interval.first_token_bound = rounded_down(max(first.values()) / len(workload))
            for name, bound in machine_bounds(workload, workload.batch_time).items():
                interval.prove(bound, name)

    def _ascend(self, pool: Executor) -> None:
        """Run the best price ascent until its lower bound stalls or its time is up."""
        ascent, clock = self._best_ascent or self._first_ascent(pool), self._interval.clock
        if ascent is None:
            return
        limited, d0 = clock.limit_left() is not None, ascent.minorant.d0
        most = (4 if limited else 1) * TURNS * ascent.subsets
        # ``parts``: largest number of pieces into which repeated halving may cut a price cell
        # (interval of constant price). With deadlines, price cells are never halved: shorter cells
        # would give weaker bounds.
        parts = 1 if ascent.deadlines else 64 if limited else 8
        finest = max(FINEST_CELL * d0, ascent.horizon / MOST_CELLS, ascent.cell / parts)
        reached, began, first = -math.inf, clock.seconds(), ascent.turns
        while True:
            ascent.climb(1, self._schedules.must_stop, pool)
            self._best_ascent = ascent if ascent.turns else None
            if self._schedules.must_stop() or ascent.turns - first >= most:
                return
            if (ascent.turns - first) % (FINER_TURNS * ascent.subsets):
                continue
            # ``lasts``: expected seconds of the next `FINER_TURNS` passes with halved price cells
            # (intervals of constant price). They take about three times as long as the last
            # `FINER_TURNS` passes.
            lasts = 3 * (clock.seconds() - began)
            gain = STALL_GAINS[self._turn] * abs(ascent.estimate)
            stalls = ascent.estimate - reached <= gain
            reached, began = ascent.estimate, clock.seconds()
            if ascent.cell / 2 >= finest and lasts <= clock.seconds_left():
                ascent.refine()
                reached, first = -math.inf, ascent.turns
            elif stalls:
                return

    def _first_ascent(self, pool: Executor) -> RoundLengthAscent | None:
        """Begin a price ascent for each minorant of the batch time, and return the best one.

        A minorant is an affine lower bound on the batch time. Return None if no ascent is possible.
        """
        interval, workload, stop = self._interval, self._workload, self._schedules.must_stop
        whole = interval.schedule if self._limits is None else _opened(workload, stop)
        ascents = [one for by in self._minorants if (one := self._begin_ascent(by, whole))]
        # Try all minorants (affine lower bounds on the batch time). The one with the best lower
        # bound on the cost without prices may not be the best one with prices.
        for one in ascents:
            one.climb(PROBE_TURNS, stop, pool)
        return max(ascents, key=lambda one: one.estimate, default=None)

    def _begin_ascent(self, minorant: AffineMinorant, schedule: Any) -> RoundLengthAscent | None:
        """Return a price ascent whose first prices come from a schedule of all requests.

        ``minorant`` is the affine lower bound on the batch time that the ascent uses. Return None
        if prices cannot improve the lower bound, because `Deadlines.known` has the least cost of
        every request: 1 for one that is always late, 0 for one that is on time without payments.
        """
        workload, d0, deadlines = self._workload, float(minorant.d0), None
        horizon, wide = schedule.makespan * MARGIN + 4 * d0, schedule.mean_latency / CELLS
        if self._limits is not None:
            deadlines = Deadlines.of(workload, minorant, self._limits, horizon)
            is_open = np.isnan(deadlines.known)
            if not is_open.any():
                return None
            # After the last deadline, no prices are needed.
            horizon = min(horizon, float(deadlines.end[is_open].max()) + 2 * d0)
            allowed = (deadlines.end - workload.arrival_times)[is_open]
            wide = float(np.median(allowed)) / LEVEL_CELLS
        # Price cells (intervals of constant price) are at least 2 d0 long, where d0 is the seconds
        # of a round without tokens. The work of a request is the seconds that its tokens add to a
        # round. A share gamma of the price of a cell is charged for memory and work. The share 1 -
        # gamma has two parts: one is charged for work alone, the other for work and for taking part
        # in rounds. If a round extends over cells of different gamma, the lower bound counts only
        # the least payment that these gammas allow for the round. So shorter cells would give
        # weaker bounds.
        shortest = math.ceil(math.log2(2 * minorant.d0))
        cell = 2.0 ** max(round(math.log2(max(wide, horizon / MOST_CELLS))), shortest)
        return RoundLengthAscent(schedule, minorant, horizon, cell, deadlines)

    def _evaluate(self, pool: Executor) -> None:
        """Compute the lower bound that the prices of the best ascent prove.

        Do so on finer and finer time grids, which give better bounds, while time lasts.
        """
        ascent = self._best_ascent
        if ascent is None:
            return
        minorant, deadlines = ascent.minorant, ascent.deadlines
        interval, workload, prices = self._interval, self._workload, ascent.prices()
        margin, a = 4 * float(minorant.d0), workload.arrival_times
        if deadlines is None:
            allowance = ascent.values * 1.02 + margin
            values = own_times(workload, minorant)[1] * (1 - SAFE)
            proof = SecondsProof(prices, minorant, allowance)
        else:
            proof = None
            # The least cost of a request from time t on is computed for each grid point t from its
            # arrival until ``allowance`` seconds later, which is shortly after its deadline.
            allowance, values = deadlines.end - a + margin, np.nan_to_num(deadlines.known)
        # For each request, compute a lower bound on its least latency plus payments (or on its
        # least cost with deadlines). Requests with much to gain come first: those whose bound is
        # far below the value of the ascent. The time that a bound takes grows with the output
        # length and with the allowance.
        for step, size in grids(minorant, prices, GRID_TURNS[self._turn]):
            priced = PricedValues(workload, minorant, prices, step, size, deadlines)
            if a.max() >= LATEST * step or priced.points(allowance) > LARGEST_WINDOW:
                return
            gains = (ascent.values - values) / (workload.output_lengths * allowance)
            order = np.argsort(-gains, kind="stable")
            whole = priced.raise_values(values, allowance, order, pool, self._schedules.must_stop)
            interval.prove(priced.total(values), PRICES, proof=proof)
            if not whole or self._schedules.must_stop():
                return


def with_late(schedule: Any, served: IntArray, workload: Workload) -> Any:
    """Return a schedule of all requests: ``schedule`` with the late requests added.

    On each machine, the late requests run after the requests of ``schedule``. With several
    replicas, the late requests are assigned to them in turn.

    Parameters
    ----------
    schedule : SecondsSchedule or FleetSchedule or None
        Schedule of ``workload.of(served)`` whose rounds start as early as possible, or None if no
        request is served.
    served : int64 array
        Positions of the requests in ``schedule``.
    workload : Workload
        All requests.
    """
    positions = np.arange(len(workload))
    if workload.replicas > 1:
        assignment, parts = positions % workload.replicas, [None] * workload.replicas
        if schedule is not None:
            assignment[served], parts = schedule.assignment, list(schedule.parts)
        for replica, own in enumerate(by_replica(assignment, workload.replicas)):
            if len(own):
                there = np.flatnonzero(np.isin(own, served))
                parts[replica] = with_late(parts[replica], there, workload.alone(own))
        return FleetSchedule(workload, assignment, parts)
    rest = np.setdiff1d(positions, served)
    late = _opened(workload.of(rest), lambda: True) if len(rest) else None
    tables, rounds = [], 0
    for part, own in ((schedule, served), (late, rest)):
        if part is not None:
            table = np.stack([getattr(part, name) for name in COLUMNS], axis=1)
            table[:, 0] = own[table[:, 0]]
            table[:, 1] += rounds
            rounds = int((table[:, 1] + table[:, 2]).max()) - 1
            tables.append(table)
    return SecondsSchedule(workload, np.concatenate(tables))


def _opened(workload: Workload, should_stop: Callable[[], bool]) -> Any:
    """Return the best schedule that `KeySearch.open` finds for all requests.

    Schedules are compared by total latency. Deadlines are ignored.
    """
    keys = KeySearch(workload, 0)
    keys.open(should_stop)
    return keys.schedule()
