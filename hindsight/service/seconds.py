"""The most requests on time where rounds last as long as their batch takes.

*Schedules*: `hindsight.schedules.keys`, where the cost is the number of late requests. *Upper
bounds*: prices of machine time by `hindsight.prices.round_lengths`, where being late costs 1
(*Service levels*), and before them the requests that no machine serves on time even alone.

Late requests served after all others delay nobody, so that as many are on time at best as where
nobody serves them: see `with_late`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np

from hindsight.outcomes.interval import Interval
from hindsight.prices.deadlines import Deadlines
from hindsight.prices.minorants import AffineMinorant, affine_minorants, has_minorants, is_known
from hindsight.prices.round_length_ascent import RoundLengthAscent
from hindsight.prices.round_length_rounding import LONGEST_OUTPUT
from hindsight.runtime.clock import Clock, never
from hindsight.schedules.keys import KeySearch
from hindsight.seconds.solving import MARGIN, MOST_CELLS, on_grids
from instances import FleetSchedule, SecondsSchedule, Workload
from instances.arrays import IntArray
from instances.batch_time.seconds_schedule import COLUMNS
from instances.problem.fleet_schedule import by_replica
from instances.service_level import Limits

AnySeconds = SecondsSchedule | FleetSchedule

OWN_TIME = "own time"
"""Name of the bound by requests that no machine serves on time."""

PRICES = "round-length prices"
"""Name of the bound by prices."""

LEVEL_CELLS = 12
"""Approximate number of cells with one price in a median deadline."""

TURNS = 120
"""Iterations of the ascent."""

OPENING_SHARE, ASCENT_SHARE, EVALUATION_SHARE = 0.15, 0.35, 0.5
"""Shares of the time left for the first schedules, then the ascent, then its evaluation."""

STALL, FRUITLESS = 1e-3, 20
"""The ascent ends if it gains less, in requests, in so many turns."""

CYCLES = 2
"""Cycles of annealing without a time limit."""


def attain_in_seconds(state: Interval, threads: int, seed: int) -> None:
    """Improve both ends until ``state`` is over or nothing more can be gained.

    Parameters
    ----------
    state : OnTime
        The interval; its problem is a Workload.
    threads : int
        Cores to use for bounds.
    seed : int
        Seed of the search for schedules.
    """
    assert isinstance(state.source, Workload)
    limits = state.problem.limits
    keys = KeySearch(state.source, seed, limits=limits)
    with state.clock.within(OPENING_SHARE * state.clock.seconds_left()):
        _open(state, keys)
    longest = int(state.source.output_lengths.max())
    if has_minorants(state.source.batch_time) and longest < LONGEST_OUTPUT and not state.is_done():
        _bound(state, limits, threads)
    state.phase = "schedules"
    _open(state, keys)
    limited = state.clock.limit_left() is not None
    for _ in keys.anneal(lambda: state.is_done() or (not limited and keys.cycle >= CYCLES)):
        _take(state, keys)


def with_late(schedule: Any, served: IntArray, workload: Workload) -> AnySeconds:
    """Return a schedule of all requests: the others come after those ``served``.

    Parameters
    ----------
    schedule : SecondsSchedule or FleetSchedule or None
        Schedule of ``workload.of(served)`` whose rounds start as early as they can, or None.
    served : int64 array
        Positions in the workload.
    workload : Workload
        All requests.
    """
    if workload.replicas > 1:
        return _fleet_with_late(schedule, served, workload)
    rest = np.setdiff1d(np.arange(len(workload)), served)
    tables, rounds = [], 0
    late = None if not len(rest) else _opened(workload.of(rest), never)
    for part, positions in ((schedule, served), (late, rest)):
        if part is None:
            continue
        table = np.stack([getattr(part, name) for name in COLUMNS], axis=1)
        table[:, 0] = positions[table[:, 0]]
        table[:, 1] += rounds
        rounds = int((table[:, 1] + table[:, 2]).max()) - 1
        tables.append(table)
    return SecondsSchedule(workload, np.concatenate(tables))


def _fleet_with_late(schedule: Any, served: IntArray, workload: Workload) -> FleetSchedule:
    """Do the same on every replica; late requests are dealt out in turn."""
    assignment = np.arange(len(workload)) % workload.replicas
    known: tuple[Any, ...] = (None,) * workload.replicas
    if isinstance(schedule, FleetSchedule):
        assignment[served], known = schedule.assignment, schedule.parts
    parts: list[AnySeconds | None] = []
    for own, part in zip(by_replica(assignment, workload.replicas), known, strict=True):
        there = np.searchsorted(own, np.intersect1d(own, served))
        is_used = len(own) > 0
        parts.append(with_late(part, there, workload.alone(own)) if is_used else None)
    return FleetSchedule(workload, assignment, parts)


def _opened(workload: Workload, should_stop: Callable[[], bool]) -> AnySeconds:
    """Return a good schedule of all requests, whether on time or not."""
    keys = KeySearch(workload, 0)
    keys.open(should_stop)
    return keys.schedule()


def _open(state: Interval, keys: KeySearch) -> None:
    """Try the rules that are left, as long as there is time; the next one always."""
    keys.open(state.is_done)
    _take(state, keys)


def _take(state: Interval, keys: KeySearch) -> None:
    found = keys.on_time()
    if found is not None:
        state.offer(*found)


def _bound(state: Interval, limits: Limits, threads: int) -> None:
    """Limit the number on time by each minorant's own times, then by prices with the best one."""
    workload = state.source
    assert isinstance(workload, Workload)
    batch_time = workload.require_batch_time()
    certified = is_known(batch_time)
    state.phase = "bounds"
    best: tuple[float, RoundLengthAscent, AffineMinorant, Deadlines] | None = None
    schedule = _opened(workload, state.clock.must_stop)
    minorants = affine_minorants(batch_time, workload.memory_limit)
    with ThreadPoolExecutor(threads) as pool:
        for minorant in minorants:
            end = float(schedule.makespan) * MARGIN + 4 * float(minorant.d0)
            deadlines = Deadlines.of(workload, minorant, limits, end)
            late = int((deadlines.known == 1).sum())
            state.prove(late, OWN_TIME, certified=certified)
            is_open = np.isnan(deadlines.known)
            if state.is_done() or not is_open.any():
                continue
            # Prices end with the last deadline.
            horizon = min(end, float(deadlines.end[is_open].max()) + 2 * float(minorant.d0))
            deadlines = Deadlines.of(workload, minorant, limits, horizon)
            ascent = _ascent(schedule, minorant, horizon, deadlines)
            if ascent is None:
                continue
            share = Clock(ASCENT_SHARE / len(minorants) * state.clock.seconds_left())
            _climb(ascent, share, state, pool)
            if ascent.turns and (best is None or ascent.estimate > best[0]):
                best = ascent.estimate, ascent, minorant, deadlines
        if best is not None and not state.is_done():
            with state.clock.within(EVALUATION_SHARE * state.clock.seconds_left()):
                _evaluate(state, *best[1:], pool, certified)


def _ascent(
    schedule: AnySeconds, minorant: AffineMinorant, horizon: float, deadlines: Deadlines
) -> RoundLengthAscent | None:
    """Return an ascent with cells in proportion to the deadlines, None if no request is open."""
    is_open = np.isnan(deadlines.known)
    if not is_open.any():
        return None
    allowed = deadlines.end[is_open] - schedule.problem.arrival_times[is_open]
    shortest = math.ceil(math.log2(2 * minorant.d0))
    wide = max(float(np.median(allowed)) / LEVEL_CELLS, horizon / MOST_CELLS)
    cell = 2.0 ** max(round(math.log2(wide)), shortest)
    return RoundLengthAscent(
        schedule, minorant, horizon=horizon, cell=cell, iterations=TURNS, deadlines=deadlines
    )


def _climb(
    ascent: RoundLengthAscent, share: Clock, state: Interval, pool: ThreadPoolExecutor
) -> None:
    def should_stop() -> bool:
        return share.must_stop() or state.is_done()

    reached = -math.inf
    requests = len(ascent.values)
    for turn in range(1, TURNS * ascent.subsets + 1):
        ascent.climb(1, should_stop, pool)
        if should_stop():
            return
        if turn % (FRUITLESS * ascent.subsets) == 0:
            if (ascent.estimate - reached) * requests < STALL:
                return
            reached = ascent.estimate


def _evaluate(
    state: Interval,
    ascent: RoundLengthAscent,
    minorant: AffineMinorant,
    deadlines: Deadlines,
    pool: ThreadPoolExecutor,
    certified: bool,
) -> None:
    """Evaluate all requests on finer and finer grids, the finest perhaps only in part."""
    workload = state.source
    assert isinstance(workload, Workload)
    state.phase = "evaluation"
    prices, values = ascent.prices(), np.nan_to_num(deadlines.known)
    # The deadline is in the window.
    allowance = deadlines.end - workload.arrival_times + 4 * float(minorant.d0)
    order = np.argsort(deadlines.output, kind="stable")
    for priced in on_grids(workload, minorant, prices, allowance, deadlines):
        whole = priced.raise_values(values, allowance, order, pool, state.clock.must_stop)
        late = max(Fraction(0), priced.total(values))
        state.prove(late, PRICES, certified=certified)
        if not whole or state.is_done():
            return
