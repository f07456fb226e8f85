"""The optimum of an instance, or a certified interval around it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Literal

import numpy as np

from instances import Instance, Schedule
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import as_integer, as_time_limit

from .certificate import Proof, StatePrices, moved_proof
from .horizon import THOROUGH_UP_TO, proved_horizon
from .idle_gaps import CompressedInstance, compress
from .interruption import interruption
from .interval import Interval
from .large_search import FIRST_ROUNDS, LargeSearch
from .list_schedules import one_after_another
from .makespan import (
    last_block,
    makespan_lower_bound,
    makespan_schedules,
    search_makespan,
)
from .mip_search import search_with_highs
from .models import BUILDERS, Formulation
from .prices import PriceBound, price_bound, useful_starts
from .relaxation import LARGEST_RELAXATION, relax, relax_within
from .results import OBJECTIVES, Objective, Progress, SolveResult
from .starts import StartSets, start_sets
from .table_search import TableSearch, suits
from .volume_bounds import mean_busy_time_bound

Method = Literal["auto", "tables", "mip", "beams"]
METHODS = ("auto", "tables", "mip", "beams")

RELAXATION_SHARE = 0.3
"""Share of the time left that the relaxation may take before the beams go on."""

RELAXATION_TOLERANCE = 1e-3
"""Relative gap at which it ends."""


def solve(
    instance: Instance,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    *,
    objective: Objective = "total_latency",
    method: Method = "auto",
    formulation: Formulation = "dense",
    start: Schedule | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> SolveResult:
    """Minimise total latency, or the makespan, knowing the future ([J25] Section 3; [W25] EC.1).

    List schedules give the first upper bound, exact memory prices the first lower bound and a
    horizon. Then one of three searches goes on until the bounds meet:

    * ``"tables"``: annealed schedules, prices of state tables and an exact search pruned by them,
      all bounds in integers (`hindsight.table_search`); needs numba and a small M.
    * ``"mip"``: the integer program itself in HiGHS, warm-started, over the starts that the
      reduced costs of its relaxation leave (`hindsight.mip_search`).
    * ``"beams"``: schedules alone, by beam searches around the best order so far
      (`hindsight.large_search`), at any size; the lower bound comes from prices.

    The makespan, the last completion round, is found by bisection instead: HiGHS decides whether
    everything can complete by a given round (`hindsight.makespan`).

    Ctrl-C or the time limit end each of them with the interval found so far.

    Parameters
    ----------
    time_limit : seconds for everything, or None.
    threads : of HiGHS and of the price ascent, whose result does not depend on their number; None
        is HiGHS's choice, and every core for the ascent.
    seed : of every random choice.
    objective : ``"total_latency"`` or ``"makespan"``; all bounds of the result are of it.
    method : ``"tables"``, ``"mip"``, ``"beams"``, or ``"auto"``: the tables where they can be
        used, else the integer program where its relaxation fits, else the beams. Only the
        integer program minimises the makespan.
    formulation : the model of ``"mip"``.
    start : a feasible schedule to start from, besides the list schedules.
    callback : told of every improvement.

    Raises
    ------
    InvalidValueError, InvalidTypeError: a bad parameter, an infeasible ``start``, or
        a method that cannot be used here.
    SolverError: HiGHS failed.
    """
    limit = as_time_limit(time_limit)
    if threads is not None:
        threads = as_integer(threads, None, "threads", minimum=1)
    seed = as_integer(seed, None, "seed", minimum=0)
    if formulation not in BUILDERS:
        raise InvalidValueError(
            None, "formulation", formulation, f"is not one of {', '.join(BUILDERS)}"
        )
    if method not in METHODS:
        raise InvalidValueError(None, "method", method, f"is not one of {', '.join(METHODS)}")
    if objective not in OBJECTIVES:
        known = ", ".join(OBJECTIVES)
        raise InvalidValueError(None, "objective", objective, f"is not one of {known}")
    if start is not None:
        _check_start(instance, start)
    if objective == "makespan":
        if method in ("tables", "beams"):
            raise InvalidValueError(None, "method", method, "does not minimise the makespan")
        return _solve_makespan(instance, limit, threads, seed, formulation, start, callback)
    # Idle gaps cost rounds, not latency: everything below happens without them.
    compressed = compress(instance)
    with interruption() as interrupted:
        interval = Interval(compressed.instance, limit, callback, interrupted)
        search = _Search(interval, threads, seed, method, formulation)
        search.run(_moved(compressed, start))
    interval.raise_kept_error()
    arrivals = compressed.instance.arrival_times
    proof = search.proof and moved_proof(search.proof, arrivals, compressed.shifts)
    return SolveResult(
        instance=instance,
        schedule=compressed.restore(interval.schedule),
        lower_bound=interval.lower_bound,
        certified_lower_bound=interval.certified_lower_bound,
        stop_reason=interval.stop_reason,
        runtime=interval.seconds(),
        nodes=interval.nodes,
        horizon=search.horizon + int(compressed.shifts.max()),
        root_bound=search.root_bound,
        log=tuple(interval.log),
        proof=proof,
    )


def _solve_makespan(
    instance: Instance,
    time_limit: float | None,
    threads: int | None,
    seed: int,
    formulation: Formulation,
    start: Schedule | None,
    callback: Callable[[Progress], None] | None,
) -> SolveResult:
    block = last_block(instance)
    told = None if callback is None else lambda line: callback(block.moved(line))
    with interruption() as interrupted:
        interval = Interval(block.instance, time_limit, told, interrupted, "makespan")
        thorough = len(block.instance) <= THOROUGH_UP_TO
        bound = makespan_lower_bound(block.instance)
        if start is not None:
            interval.offer(block.move(start))
        for schedule in makespan_schedules(block.instance, thorough=thorough):
            interval.offer(schedule)
            if interval.must_stop() or interval.upper_bound == bound:
                break
        interval.raise_lower(bound, certified=True)
        search_makespan(interval, formulation, threads, seed)
    interval.raise_kept_error()
    return SolveResult(
        instance=instance,
        schedule=block.restore(interval.schedule),
        lower_bound=interval.lower_bound + block.offset,
        certified_lower_bound=interval.certified_lower_bound + block.offset,
        stop_reason=interval.stop_reason,
        runtime=interval.seconds(),
        nodes=interval.nodes,
        horizon=interval.upper_bound + block.offset,
        root_bound=bound + block.offset,
        log=tuple(block.moved(line) for line in interval.log),
        objective="makespan",
    )


class _Search:
    """The phases of one solve."""

    def __init__(
        self,
        interval: Interval,
        threads: int | None,
        seed: int,
        method: Method,
        formulation: Formulation,
    ) -> None:
        self.interval = interval
        self.threads = threads
        self.seed = seed
        self.method = method
        self.formulation = formulation
        self.root_bound: int | None = None
        self.proof: Proof | None = None
        self.starts: StartSets | None = None
        self.horizon = 0

    def run(self, start: Schedule | None) -> None:
        interval = self.interval
        stop = interval.must_stop
        found = None
        if len(interval.instance) > THOROUGH_UP_TO:
            self._begin_at_once(start)
            found = interval.offer
        proof = proved_horizon(interval.instance, None, stop, found)
        if start is not None and start.total_latency < proof.schedule.total_latency:
            proof = proved_horizon(interval.instance, start, stop)
        self.starts, self.horizon = proof.starts, proof.horizon
        interval.offer(proof.schedule)
        interval.raise_lower(proof.lower_bound, certified=True)
        if self._uses_tables(proof.schedule):
            tables = TableSearch(interval, self.seed, self.threads or _cores())
            tables.run()
            self.root_bound = tables.root_bound
            if tables.root_prices is not None:
                self.proof = StatePrices(tables.root_prices)
            return
        if self._uses_beams():
            self.root_bound = proof.price_bound.bound
            self.proof = proof.price_bound.prices
            self._search_by_beams()
            return
        if self.starts is None:
            interval.stop_reason = "size"
            return
        if not interval.is_done():
            self._relax(self.starts)
        if not interval.is_done():
            search_with_highs(interval, self.starts, self.formulation, self.threads, self.seed)
        interval.is_done()

    def _begin_at_once(self, start: Schedule | None) -> None:
        """An interval before anything that takes time: lists and prices may take seconds."""
        interval, instance = self.interval, self.interval.instance
        interval.offer(one_after_another(instance) if start is None else start)
        interval.raise_lower(int(instance.output_lengths.sum()), certified=True)
        interval.raise_lower(mean_busy_time_bound(instance), certified=True)

    def _search_by_beams(self) -> None:
        """Beams, with the relaxation for a bound and a further order after the first of them."""
        interval = self.interval
        search = LargeSearch(interval, self.seed)
        search.run(len(FIRST_ROUNDS))
        if not interval.is_done():
            interval.phase = "relaxation"
            left = interval.seconds_left()
            relaxed = relax(
                interval.instance,
                method="scale",
                tolerance=RELAXATION_TOLERANCE,
                time_limit=None if math.isinf(left) else max(0.0, RELAXATION_SHARE * left),
                threads=self.threads,
                progress=lambda line: interval.raise_lower(line.lower_bound, certified=True),
                should_stop=interval.must_stop,
            )
            interval.raise_lower(relaxed.certified_bound, certified=True)
            if self.root_bound is None or relaxed.certified_bound > self.root_bound:
                self.root_bound, self.proof = relaxed.certified_bound, relaxed.memory_prices
            search.rank_by(relaxed.expected_start_times)
        search.run_whole()
        search.run()
        interval.is_done()

    def _uses_beams(self) -> bool:
        if self.method == "auto":
            return self.starts is None or self.starts.count > LARGEST_RELAXATION
        return self.method == "beams"

    def _uses_tables(self, schedule: Schedule) -> bool:
        if self.method in ("mip", "beams"):
            return False
        suited = suits(self.interval.instance, schedule.makespan)
        if self.method == "tables" and not suited:
            raise InvalidValueError(
                None, "method", self.method, "needs numba, a small memory_limit and few rounds"
            )
        return suited

    def _relax(self, starts: StartSets) -> None:
        interval = self.interval
        interval.phase = "relaxation"
        if starts.count > LARGEST_RELAXATION:
            interval.stop_reason = "size"
            return
        left = interval.seconds_left()
        relaxed = relax_within(
            interval.instance,
            interval.schedule.makespan,
            time_limit=None if math.isinf(left) else left,
            threads=self.threads,
            should_stop=interval.must_stop,
        )
        if relaxed is None:
            # Out of time or interrupted inside HiGHS: the bounds so far stand.
            interval.note_stop()
            return
        bound = price_bound(interval.instance, relaxed.memory_prices)
        self.root_bound, self.proof = bound.bound, bound.prices
        interval.raise_lower(bound.bound, certified=True)
        self.starts = self._tightened(starts, bound)
        self.horizon = self.starts.horizon

    def _tightened(self, starts: StartSets, bound: PriceBound) -> StartSets:
        """Keep the starts that survive the new prices as well: each list is complete."""
        interval = self.interval
        useful = useful_starts(interval.instance, bound, interval.upper_bound, starts.horizon)
        return start_sets(
            interval.instance,
            [
                np.intersect1d(old, new, assume_unique=True)
                for old, new in zip(starts.starts, useful, strict=True)
            ],
        )


def _cores() -> int:
    """Cores this process may use; all of them where the system does not say."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _moved(compressed: CompressedInstance, start: Schedule | None) -> Schedule | None:
    """A start given by the caller, without idle gaps; None where it does not survive that."""
    if start is None or not compressed.fits(start):
        return None
    return compressed.move(start)


def _check_start(instance: Instance, start: Schedule) -> None:
    if not isinstance(start, Schedule):
        raise InvalidTypeError(None, "start", start, "is not a Schedule")
    if start.instance.digest != instance.digest:
        raise InvalidValueError(None, "start", start, "belongs to another instance")
    violations = start.violations()
    if violations:
        raise InvalidValueError(None, "start", start, f"is infeasible: {violations[0]}")
