"""The interval around the least total latency in seconds.

*Upper bounds*: checked schedules, from list schedules in seconds and their annealing
(`hindsight.schedules.keys`). *Lower bounds*: those of `hindsight.prices.machines`, and
prices that know a round's length, found by an ascent and evaluated with outward rounding
(`hindsight.prices.round_lengths`).

If a batch time has no known minorant, the only bound is that no latency is negative. Under a memory
rule other than tokens, schedules are found in a stricter workload in tokens, then timed and checked
by the rule; bounds are those of a relaxed one (`instances.problem.memory_translation`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np

from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import NO_BOUND, Result, rounded_down
from hindsight.prices.deadlines import Deadlines
from hindsight.prices.machines import first_token_bounds, machine_bounds
from hindsight.prices.minorants import AffineMinorant, affine_minorants, has_minorants, is_known
from hindsight.prices.round_length_ascent import RoundLengthAscent
from hindsight.prices.round_length_rounding import LATEST, ROUNDING, refuse_long_outputs
from hindsight.prices.round_lengths import PricedValues, RoundLengthPrices
from hindsight.runtime.beside import Beside
from hindsight.runtime.clock import SLICE_SECONDS, Clock
from hindsight.runtime.search import Search
from hindsight.schedules.keys import KeySearch
from instances import (
    Workload,
)
from instances.arrays import FloatArray

from .proof import SecondsProof

MARGIN = 1.1
"""End of the priced time, as a multiple of the end of the best schedule."""

CELLS, MOST_CELLS = 25, 1 << 16
"""Approximate number of cells with one price in a mean latency, and most in all."""

TURNS = 150
"""Iterations of the ascent without a time limit."""

PROBE_TURNS = 3
"""Iterations with each of several minorants, after which the best continues."""

STALL_TURNS, STALL_GAIN = 20, 2e-4
"""An ascent that gains less than this share in so many evaluations ends."""

CYCLES = 2
"""Cycles of annealing without a time limit."""

FINER_TURNS, FINEST_CELL = 40, 4.0
"""Evaluations after which cells of prices are halved, if there is time for as many more, and the
shortest cell in d0."""

ASCENT_SHARE = 0.33
"""Share of the time left after the first schedules; the rest evaluates the prices."""

GRIDS = (
    (0.4, 64, 1.3),
    (1.6, 64, 1.3),
    (3.2, 32, 1.2),
    (6.4, 16, 1.15),
    (12.8, 16, 1.1),
    (25.6, 8, 1.07),
)
"""Grids of an evaluation: their steps in the overhead d0 of a round, at most, the most steps of a
request in a block, and the spread of lengths with a common tangent."""

LARGEST_WINDOW = 1 << 22
"""Most grid points at which a request is evaluated."""


def solve_seconds(problem: Problem, search: Search, *, anneal: bool = True) -> Result:
    """Solve where each round lasts as long as its batch takes.

    Parameters
    ----------
    problem : Problem
        The workload, with preemption ``"keep"`` or ``"recompute"``.
    search : Search
        Search options, checked; ``threads`` None uses every core.
    anneal : bool, default True
        Whether to look for schedules beyond list schedules; `hindsight.relax` does not.

    Raises
    ------
    InvalidValueError
        An output has 10^6 tokens or more.
    """
    refuse_long_outputs(problem.source)
    with search.clock.listening():
        interval = Interval(problem, search)
        interval.phase = "schedules"
        interval.prove(0, NO_BOUND)
        with interval.kept_when_interrupted():
            if search.start is not None:
                interval.offer(search.start.without_waiting())
            _Search(interval, search.seed, search.cores, anneal=anneal).run()
            interval.note_stop()
        return interval.result()


def grids(
    minorant: AffineMinorant, prices: RoundLengthPrices
) -> Iterator[tuple[float, int, float]]:
    """Yield step, block size and spread of the grids of an evaluation, coarse first."""
    for overhead_steps, size, spread in GRIDS:
        step = 2.0 ** math.floor(math.log2(float(minorant.d0) / overhead_steps))
        yield min(step, prices.cell), size, spread


def on_grids(
    workload: Workload,
    minorant: AffineMinorant,
    prices: RoundLengthPrices,
    allowance: FloatArray,
    deadlines: Deadlines | None = None,
) -> Iterator[PricedValues]:
    """Yield evaluations on finer and finer grids, as long as a request has room on them."""
    latest = float(workload.arrival_times.max())
    for step, size, spread in grids(minorant, prices):
        if latest > LATEST * step:
            return
        priced = PricedValues(workload, minorant, prices, step, size, spread, deadlines)
        if priced.points(allowance) > LARGEST_WINDOW:
            return
        yield priced


class _Search:
    """The phases of one solve in seconds."""

    def __init__(self, interval: Interval, seed: int, threads: int, *, anneal: bool) -> None:
        self._interval = interval
        self._batch_time = interval.source.require_batch_time()
        self._threads = threads
        self._anneal = anneal
        recomputes = interval.problem.preemption == "recompute"
        self._keys = KeySearch(interval.source, seed, recomputes=recomputes)
        self._beside: Beside[Any] = Beside(self._anneal_keys, interval.offer)

    def run(self) -> None:
        """Run all phases until proof, time limit or interruption."""
        interval = self._interval
        self._keys.open(interval.clock.must_stop)
        interval.offer(self._keys.schedule())
        # These run even if there is little time: without them nothing is proved.
        interval.phase = "bounds"
        workload, batch_time = interval.source, self._batch_time
        if has_minorants(batch_time):
            first = max(one.total for one in first_token_bounds(workload, batch_time).values())
            interval.first_token_bound = rounded_down(first / len(workload))
            for bound in machine_bounds(workload, batch_time).values():
                interval.prove(bound.total, bound.name, certified=bound.certified)
        if self._is_over():
            return
        with self._beside.running() if self._anneal else nullcontext():
            workers = max(1, self._threads - self._anneal)
            with ThreadPoolExecutor(workers) as pool:
                prices = self._ascend(pool)
            self._beside.take()
            if prices is not None:
                with ThreadPoolExecutor(self._threads) as pool:
                    self._evaluate(*prices, pool)
            while self._anneal and not (self._beside.ends_within(SLICE_SECONDS) or self._is_over()):
                self._beside.take()

    def _is_over(self) -> bool:
        return self._interval.clock.must_stop() or self._interval.is_proved

    def _anneal_keys(self, found: Callable[[Any], object], must_stop: Callable[[], bool]) -> None:
        """Anneal in a separate thread, which hands schedules over instead of offering them."""
        limited = self._interval.clock.limit_left() is not None
        for _ in self._keys.anneal(
            lambda: must_stop() or (not limited and self._keys.cycle >= CYCLES)
        ):
            found(self._keys.schedule())

    def _ascend(self, pool: Executor) -> tuple[RoundLengthAscent, AffineMinorant] | None:
        """Run price ascents; return the best and its minorant, or None if there are no prices."""
        interval = self._interval
        interval.phase = "prices"
        if not has_minorants(self._batch_time):
            return None
        minorants = affine_minorants(self._batch_time, interval.source.memory_limit)
        ascents = [self._begin_ascent(one) for one in minorants]
        if len(ascents) > 1:
            # The minorant of the best bound so far need not be the best one for prices.
            for one in ascents:
                one.climb(PROBE_TURNS, interval.clock.must_stop, pool)
        ascent = max(ascents, key=lambda one: one.estimate)
        minorant = minorants[ascents.index(ascent)]
        share = Clock(ASCENT_SHARE * interval.clock.seconds_left())
        most = TURNS if interval.clock.limit_left() is None else 4 * TURNS
        reached, begun, first = -math.inf, share.seconds(), ascent.turns
        while not interval.clock.must_stop():
            ascent.climb(1, interval.clock.must_stop, pool)
            self._beside.take()
            if share.must_stop() or ascent.turns >= most:
                return (ascent, minorant) if ascent.turns else None
            if ascent.turns % STALL_TURNS:
                continue
            stalls = ascent.estimate - reached < STALL_GAIN * abs(ascent.estimate)
            reached = ascent.estimate
            turns, enough = ascent.turns - first, FINER_TURNS * ascent.subsets
            lasts = 2 * enough * (share.seconds() - begun) / turns
            if (stalls or turns >= enough) and self._may_refine(ascent, minorant, share, lasts):
                ascent.refine()
                reached, begun, first = -math.inf, share.seconds(), ascent.turns
            elif stalls:
                return ascent, minorant
        return None

    def _may_refine(
        self, ascent: RoundLengthAscent, minorant: AffineMinorant, share: Clock, lasts: float
    ) -> bool:
        """Tell whether cells may be halved, where ``lasts`` seconds make that worth while."""
        return (
            self._interval.clock.limit_left() is not None
            and ascent.cell / 2 >= FINEST_CELL * minorant.d0
            and ascent.horizon / ascent.cell <= MOST_CELLS / 2
            and share.seconds_left() >= lasts
        )

    def _begin_ascent(self, minorant: AffineMinorant) -> RoundLengthAscent:
        schedule = self._interval.schedule
        horizon = schedule.makespan * MARGIN + 4 * float(minorant.d0)
        # If gamma changes within a round, the evaluation must take the least of several rates.
        shortest = math.ceil(math.log2(2 * minorant.d0))
        wide = max(schedule.mean_latency / CELLS, horizon / MOST_CELLS)
        cell = 2.0 ** max(round(math.log2(wide)), shortest)
        return RoundLengthAscent(schedule, minorant, horizon=horizon, cell=cell, iterations=TURNS)

    def _evaluate(
        self, ascent: RoundLengthAscent, minorant: AffineMinorant, pool: Executor
    ) -> None:
        """Evaluate all requests on finer and finer grids, the finest perhaps only in part."""
        interval = self._interval
        interval.phase = "evaluation"
        d0 = float(minorant.d0)
        allowance = ascent.values * 1.02 + 4 * d0
        prices, values = ascent.prices(), None
        interval.proof = SecondsProof(prices, minorant, allowance)
        for priced in on_grids(interval.source, minorant, prices, allowance):
            if values is None:
                values = priced.own * (1 - ROUNDING)
            # A finer grid gains in proportion to the value, and costs by value and output length.
            order = np.argsort(interval.source.output_lengths, kind="stable")
            clock = interval.clock
            whole = priced.raise_values(values, allowance, order, pool, clock.must_stop)
            bound = priced.bound(values, minorant)
            interval.prove(bound.total, bound.name, certified=is_known(self._batch_time))
            self._beside.take()
            if not whole or clock.must_stop():
                return
