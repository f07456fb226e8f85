"""The optimum of an instance, or a certified interval around it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from itertools import chain
from typing import Literal

import numpy as np

from instances import Instance, Schedule
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import as_integer, as_time_limit

from .bounds.idle_gaps import CompressedInstance, compress
from .bounds.memory_prices import PriceBound, price_bound, useful_starts
from .bounds.volume import makespan_lower_bound, mean_busy_time_bound
from .heuristics.list_scheduling import one_after_another
from .integer_program.horizon import THOROUGH_UP_TO, proved_horizon
from .integer_program.models import BUILDERS, Formulation
from .integer_program.starts import StartSets, start_sets
from .outcomes.proofs import Proof, StatePrices, moved_proof
from .outcomes.results import OBJECTIVES, Objective, Progress, SolveResult
from .outcomes.solve_state import SolveState
from .relaxation.methods import LARGEST_RELAXATION, relax_within
from .relaxation.scale import ScaleRelaxation
from .runtime.interruption import stop_or_interruption
from .strategies.beams import FIRST_ROUNDS, LargeSearch
from .strategies.makespan import last_block, makespan_schedules, search_makespan
from .strategies.mip import search_with_highs
from .strategies.tables import TableSearch, suits

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
    should_stop: Callable[[], bool] | None = None,
) -> SolveResult:
    """Minimise total latency, or the makespan, knowing the future ([J25] Section 3; [W25] EC.1).

    List schedules give the first upper bound, exact memory prices the first lower bound and a
    horizon. Then one of three searches goes on until the bounds meet:

    * ``"tables"``: annealed schedules, prices of state tables and an exact search pruned by them,
      all bounds in integers (`hindsight.strategies.tables`); needs a small M.
    * ``"mip"``: the integer program itself in HiGHS, warm-started, over the starts that the
      reduced costs of its relaxation leave (`hindsight.strategies.mip`).
    * ``"beams"``: schedules alone, by beam searches around the best order so far
      (`hindsight.strategies.beams`), at any size; the lower bound comes from prices.

    The makespan, the last completion round, is found by bisection instead: HiGHS decides whether
    everything can complete by a given round (`hindsight.strategies.makespan`).

    Ctrl-C or the time limit end each of them with the interval found so far; so does a second
    Ctrl-C, at once.

    Parameters
    ----------
    time_limit : float or None, default None
        Seconds for everything, or None.
    threads : int or None, default None
        Of HiGHS and of the price ascent, whose result does not depend on their number; None is
        HiGHS's choice, and every core for the ascent.
    seed : int, default 0
        Of every random choice.
    objective : Objective, default "total_latency"
        ``"total_latency"`` or ``"makespan"``; all bounds of the result are of it.
    method : Method, default "auto"
        ``"tables"``, ``"mip"``, ``"beams"``, or ``"auto"``: the tables where they can be used, else
        the integer program where its relaxation fits, else the beams. Only the integer program
        minimises the makespan.
    formulation : Formulation, default "dense"
        The model of ``"mip"``.
    start : Schedule or None, default None
        A feasible schedule to start from, besides the list schedules.
    callback : Callable[[Progress], None] or None, default None
        Told of every improvement.
    should_stop : Callable[[], bool] or None, default None
        Polled; True interrupts. None listens to Ctrl-C.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A bad parameter, an infeasible ``start``, or a method that cannot be used here.
    SolverError
        HiGHS failed.
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
        return _solve_makespan(
            instance, limit, threads, seed, formulation, start, callback, should_stop
        )
    began = time.monotonic()
    # Idle gaps cost rounds, not latency: everything below happens without them.
    compressed = compress(instance)
    with stop_or_interruption(should_stop) as interrupted:
        interval = SolveState(compressed.instance, limit, callback, interrupted, began=began)
        search = _Search(interval, threads, seed, method, formulation)
        with interval.kept_when_interrupted():
            search.run(_moved(compressed, start))
        interval.raise_kept_error()
        arrivals = compressed.instance.arrival_times
        proof = search.proof and moved_proof(search.proof, arrivals, compressed.shifts)
        # No latency of an optimal schedule exceeds the total of another one.
        horizon = search.horizon or int(arrivals.max()) + interval.upper_bound
        return SolveResult(
            instance=instance,
            schedule=compressed.restore(interval.schedule),
            lower_bound=interval.lower_bound,
            certified_lower_bound=interval.certified_lower_bound,
            stop_reason=interval.stop_reason,
            runtime=interval.seconds(),
            nodes=interval.nodes,
            horizon=horizon + int(compressed.shifts.max()),
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
    should_stop: Callable[[], bool] | None,
) -> SolveResult:
    began = time.monotonic()
    block = last_block(instance)
    told = None if callback is None else lambda line: callback(block.moved(line))
    with stop_or_interruption(should_stop) as interrupted:
        interval = SolveState(block.instance, time_limit, told, interrupted, "makespan", began)
        with interval.kept_when_interrupted():
            thorough = len(block.instance) <= THOROUGH_UP_TO
            bound = makespan_lower_bound(block.instance)
            schedules = makespan_schedules(block.instance, interval.must_stop, thorough=thorough)
            if start is not None:
                schedules = chain([block.move(start)], schedules)
            for schedule in schedules:
                interval.offer(schedule)
                if interval.upper_bound == bound:
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
        interval: SolveState,
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
        if not interval.is_done() and self.method == "auto":
            # HiGHS gave up, or had no chance: beams take what is left of the time.
            self._search_by_beams()

    def _begin_at_once(self, start: Schedule | None) -> None:
        """An interval before anything that takes time: lists and prices may take seconds."""
        interval, instance = self.interval, self.interval.instance
        interval.offer(one_after_another(instance) if start is None else start)
        interval.raise_lower(int(instance.output_lengths.sum()), certified=True)
        interval.raise_lower(mean_busy_time_bound(instance), certified=True)

    def _search_by_beams(self) -> None:
        """Beams, with the relaxation for a bound and a further order after the first of them.

        They take turns for as long as the relaxation was broken off; then beams have what is left
        of the time limit. Without one the relaxation ends by itself, and so do the beams.
        """
        interval = self.interval
        search = LargeSearch(interval, self.seed)
        search.run(len(FIRST_ROUNDS))
        relaxation: ScaleRelaxation | None = None
        while not interval.is_done():
            interval.phase = "relaxation"
            relaxation = relaxation or ScaleRelaxation(
                interval.instance,
                horizon=None,
                tolerance=RELAXATION_TOLERANCE,
                threads=self.threads,
                progress=lambda line: interval.raise_lower(line.lower_bound, certified=True),
                should_stop=interval.must_stop,
            )
            left = interval.seconds_left()
            relaxation.go_on(None if math.isinf(left) else max(0.0, RELAXATION_SHARE * left))
            relaxed = relaxation.result()
            interval.raise_lower(relaxed.certified_bound, certified=True)
            if self.root_bound is None or relaxed.certified_bound > self.root_bound:
                self.root_bound, self.proof = relaxed.certified_bound, relaxed.memory_prices
            search.rank_by(relaxed.expected_start_times)
            search.run_whole()
            is_last = relaxed.stop_reason != "time-limit"
            search.run(patient=is_last and not math.isinf(left))
            if is_last:
                break
        interval.note_stop()

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
                None, "method", self.method, "needs a small memory_limit and few rounds"
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
