"""The optimum of an instance, or a certified interval around it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from instances import Instance, Schedule
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import as_integer

from .highs import (
    CompiledModel,
    LinearResult,
    SolverError,
    SolverEvent,
    Termination,
    compile_model,
    solve_linear,
)
from .horizon import HorizonProof, proved_horizon
from .interruption import interruption
from .models import BUILDERS, Formulation, column_values, schedule_from_values
from .prices import PriceBound, price_bound, useful_starts
from .relaxation import relax
from .results import Progress, SolveResult, StopReason
from .starts import StartSets, start_sets

LARGEST_RELAXATION = 400_000
"""Starts beyond which the row-by-row relaxation is not attempted."""

BUILD_SECONDS_PER_ENTRY = 4e-6
"""Rough cost of building and compiling a non-zero: a model that would eat the time is skipped."""

BOUND_TOLERANCE = 1e-6
"""HiGHS's bounds are rounded up to integers after subtracting this relative error."""


class ScheduleCheckError(RuntimeError):
    """A schedule from a solver failed the checker: a bug of this package or of the solver."""


def solve(
    instance: Instance,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    *,
    formulation: Formulation = "dense",
    start: Schedule | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> SolveResult:
    """Minimise total latency with full knowledge of the future ([J25] Section 3).

    List schedules give the first upper bound, exact memory prices the first lower bound, the
    linear relaxation better prices; starts whose reduced cost exceeds the gap are dropped, which
    also proves the horizon; HiGHS searches over the rest, warm-started. Ctrl-C or the time limit
    end the search with the interval found so far.

    Parameters
    ----------
    time_limit : seconds for everything, or None.
    threads : threads of HiGHS, or None for its choice.
    seed : of HiGHS.
    formulation : the model searched.
    start : a feasible schedule to start from, besides the list schedules.
    callback : told of every improvement.

    Raises
    ------
    InvalidValueError, InvalidTypeError: a bad parameter, or an infeasible ``start``.
    SolverError: HiGHS failed.
    """
    limit = _checked_time_limit(time_limit)
    if threads is not None:
        threads = as_integer(threads, None, "threads", minimum=1)
    seed = as_integer(seed, None, "seed", minimum=0)
    if formulation not in BUILDERS:
        raise InvalidValueError(
            None, "formulation", formulation, f"is not one of {', '.join(BUILDERS)}"
        )
    with interruption() as interrupted:
        search = _Search(instance, limit, threads, seed, formulation, callback, interrupted)
        search.run(start)
    return search.result()


class _Search:
    """The state of one solve: the interval only ever shrinks."""

    def __init__(
        self,
        instance: Instance,
        time_limit: float | None,
        threads: int | None,
        seed: int,
        formulation: Formulation,
        callback: Callable[[Progress], None] | None,
        interrupted: Callable[[], bool],
    ) -> None:
        self.instance = instance
        self.time_limit = time_limit
        self.threads = threads
        self.seed = seed
        self.formulation = formulation
        self.callback = callback
        self.interrupted = interrupted
        self.begun = time.perf_counter()
        self.schedule: Schedule | None = None
        self.lower_bound = 0
        self.certified = 0
        self.relaxation_bound: int | None = None
        self.nodes = 0
        self.phase = "heuristics"
        self.log: list[Progress] = []
        self.stop_reason: StopReason = "proof"
        self.starts: StartSets | None = None
        self._callback_error: BaseException | None = None

    @property
    def upper_bound(self) -> int:
        assert self.schedule is not None
        return self.schedule.total_latency

    def seconds(self) -> float:
        return time.perf_counter() - self.begun

    def seconds_left(self) -> float:
        return math.inf if self.time_limit is None else self.time_limit - self.seconds()

    def should_stop(self) -> bool:
        return self.interrupted() or self._callback_error is not None or self.seconds_left() <= 0

    def run(self, start: Schedule | None) -> None:
        if start is not None:
            self._check_start(start)
        proof = proved_horizon(self.instance)
        if start is not None and start.total_latency < proof.schedule.total_latency:
            proof = proved_horizon(self.instance, start)
        self.starts = proof.starts
        self._offer(proof.schedule)
        self._raise_lower(proof.lower_bound, certified=True)
        if not self._done():
            self._relax(proof)
        if not self._done():
            self._branch()
        if self.upper_bound == self.lower_bound:
            self.stop_reason = "proof"
        if self._callback_error is not None:
            raise self._callback_error

    def result(self) -> SolveResult:
        assert self.schedule is not None
        assert self.starts is not None
        return SolveResult(
            instance=self.instance,
            schedule=self.schedule,
            lower_bound=self.lower_bound,
            certified_lower_bound=self.certified,
            stop_reason=self.stop_reason,
            runtime=self.seconds(),
            nodes=self.nodes,
            horizon=self.starts.horizon,
            relaxation_bound=self.relaxation_bound,
            log=tuple(self.log),
        )

    def _done(self) -> bool:
        if self.upper_bound == self.lower_bound:
            return True
        if self.interrupted():
            self.stop_reason = "interrupted"
            return True
        if self.seconds_left() <= 0:
            self.stop_reason = "time-limit"
            return True
        return self._callback_error is not None

    def _relax(self, proof: HorizonProof) -> None:
        self.phase = "relaxation"
        entries = proof.starts.count * 8
        if proof.starts.count > LARGEST_RELAXATION or self._too_slow(entries):
            self.stop_reason = "size"
            return
        try:
            relaxed = relax(
                self.instance,
                time_limit=None if self.time_limit is None else self.seconds_left(),
                threads=self.threads,
                should_stop=self.should_stop,
            )
        except SolverError:
            # Out of time or interrupted inside HiGHS: the bounds so far stand.
            self._note_stop()
            return
        bound = price_bound(self.instance, relaxed.memory_prices)
        self.relaxation_bound = bound.bound
        self._raise_lower(bound.bound, certified=True)
        self._tighten(bound)

    def _tighten(self, bound: PriceBound) -> None:
        """Keep the starts that survive the new prices as well: each list is complete."""
        assert self.starts is not None
        useful = useful_starts(self.instance, bound, self.upper_bound)
        self.starts = start_sets(
            self.instance,
            [
                np.intersect1d(old, new, assume_unique=True)
                for old, new in zip(self.starts.starts, useful, strict=True)
            ],
        )

    def _branch(self) -> None:
        self.phase = "search"
        starts = self.starts
        assert starts is not None
        dense = self.formulation == "dense"
        if self._too_slow(starts.memory_entries if dense else starts.count * 8):
            self.stop_reason = "size"
            return
        compiled = compile_model(BUILDERS[self.formulation](starts))
        if self._done():
            return
        assert self.schedule is not None
        result = solve_linear(
            compiled.linear,
            time_limit=None if self.time_limit is None else max(0.0, self.seconds_left()),
            threads=self.threads,
            seed=self.seed,
            start=column_values(starts, compiled, self.schedule),
            callback=lambda event: self._hear(starts, compiled, event),
            should_stop=self.should_stop,
        )
        self._conclude(starts, compiled, result)

    def _conclude(self, starts: StartSets, compiled: CompiledModel, result: LinearResult) -> None:
        self.nodes = max(self.nodes, result.nodes)
        if result.termination is Termination.INFEASIBLE:
            raise SolverError("HiGHS calls a model infeasible that holds the incumbent")
        if result.values is not None:
            self._offer(schedule_from_values(starts, compiled, result.values))
        if result.bound is not None:
            self._hear_bound(result.bound)
        if result.termination is not Termination.OPTIMAL:
            self._note_stop()

    def _note_stop(self) -> None:
        if self.interrupted():
            self.stop_reason = "interrupted"
        elif self.seconds_left() <= 0.05:
            self.stop_reason = "time-limit"
        else:
            self.stop_reason = "stalled"

    def _hear(self, starts: StartSets, compiled: CompiledModel, event: SolverEvent) -> None:
        # An exception must not travel through HiGHS: it is kept, the search is stopped.
        try:
            self.nodes = max(self.nodes, event.nodes)
            if event.values is not None:
                self._offer(schedule_from_values(starts, compiled, event.values))
            if event.bound is not None:
                self._hear_bound(event.bound)
        except BaseException as error:  # noqa: BLE001 (re-raised by run)
            self._callback_error = error

    def _hear_bound(self, bound: float) -> None:
        # The model holds every schedule at least as good as the incumbent it was built from, so
        # its bound, capped by the incumbent's value, is a bound on the optimum.
        rounded = math.ceil(bound - BOUND_TOLERANCE * max(1.0, abs(bound)))
        self._raise_lower(min(rounded, self.upper_bound), certified=False)

    def _offer(self, schedule: Schedule) -> None:
        violations = schedule.violations()
        if violations:
            raise ScheduleCheckError(f"a solver's schedule is infeasible: {violations[0]}")
        if self.schedule is None or schedule.total_latency < self.upper_bound:
            self.schedule = schedule
            self._report()

    def _raise_lower(self, bound: int, *, certified: bool) -> None:
        if bound > self.upper_bound:
            raise ScheduleCheckError(
                f"a lower bound of {bound} contradicts a schedule of {self.upper_bound}"
            )
        if certified:
            self.certified = max(self.certified, bound)
        if bound > self.lower_bound:
            self.lower_bound = bound
            self._report()

    def _report(self) -> None:
        progress = Progress(
            self.seconds(), self.phase, self.upper_bound, self.lower_bound, self.nodes
        )
        self.log.append(progress)
        if self.callback is not None:
            self.callback(progress)

    def _too_slow(self, entries: int) -> bool:
        return BUILD_SECONDS_PER_ENTRY * entries > 0.5 * self.seconds_left()

    def _check_start(self, start: Schedule) -> None:
        if start.instance.digest != self.instance.digest:
            raise InvalidValueError(None, "start", start, "belongs to another instance")
        violations = start.violations()
        if violations:
            raise InvalidValueError(None, "start", start, f"is infeasible: {violations[0]}")


def _checked_time_limit(time_limit: float | None) -> float | None:
    if time_limit is None:
        return None
    if isinstance(time_limit, bool) or not isinstance(time_limit, (int, float)):
        raise InvalidTypeError(None, "time_limit", time_limit, "is not a number of seconds")
    if not math.isfinite(time_limit) or time_limit < 0:
        raise InvalidValueError(None, "time_limit", time_limit, "is not a finite time >= 0")
    return float(time_limit)
