"""The interval around the least total latency in seconds.

*Upper bounds*: checked schedules, from list schedules in seconds and their annealing
(`hindsight.seconds.order_search`). *Lower bounds*: those of `hindsight.seconds.machine_bounds`, and
prices that know a round's length, found by an ascent and evaluated with outward rounding
(`hindsight.seconds.round_length_prices`).

Where a batch time has no known minorant, what is left is that no latency is negative. By another
memory rule than tokens schedules are found in a workload in tokens above, timed and checked by the
rule, and bounds are those of one below (`instances.problem.memory_translation`).
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from hindsight.outcomes.errors import ScheduleCheckError
from hindsight.runtime.clock import Clock
from hindsight.runtime.cores import available_cores
from hindsight.runtime.search import Search
from instances import Instance, InvalidTypeError, InvalidValueError, SecondsSchedule, Workload
from instances.arrays import FloatArray
from instances.batch_time import BatchTime
from instances.batch_time.models import check_batch_time
from instances.problem.workload import refuse_seconds

from .machine_bounds import SecondsBound, first_token_bounds, machine_bounds
from .minorants import AffineMinorant, affine_minorants, has_minorants
from .order_search import SecondsOrders
from .price_ascent import PriceAscent
from .results import (
    SecondsProgress,
    SecondsResult,
    SecondsStop,
    exact_total_latency,
    rounded_down,
)
from .round_length_prices import PricedValues, refuse_long_outputs

NO_BOUND = "no latency is negative"
"""Name of the bound that holds for every batch time."""

MARGIN = 1.1
"""Prices reach this far beyond the end of the best schedule."""

CELLS = 250
"""Cells of time with one price, roughly."""

TURNS = 150
"""Of the ascent, where there is no time limit."""

PROBE_TURNS = 3
"""Of an ascent with each minorant of several, after which the best goes on."""

STALL_TURNS, STALL_GAIN = 20, 2e-4
"""An ascent that gains less than this share in so many evaluations has ended."""

CYCLES = 2
"""Of the annealing, where there is no time limit."""

ASCENT_SHARE = 0.45
"""Of the time left after the first schedules; the rest evaluates the prices."""

POLL_SECONDS = 0.002
"""Between two looks at the clock while others work."""

NEAR = 1e-6
"""Relative distance at which totals in floats are told apart from totals in fractions."""

SPARE_SECONDS = 0.05
"""With so little time left a solve ended because of it."""

FINEST = 48
"""Steps of the finest grid to the overhead d0 of a round; coarser ones have half as many."""

COARSEST = 1.5
"""Steps of the coarsest one, at least."""

LARGEST_GRID, LONGEST_ROUND, LARGEST_WINDOW = 1 << 22, 1 << 14, 1 << 28
"""Steps of a grid up to the horizon, of a round, and pairs of start and length for a request."""


def solve_seconds(
    requests: Workload | Instance,
    batch_time: BatchTime,
    search: Search | None = None,
    *,
    anneal: bool = True,
) -> SecondsResult:
    """Solve where rounds last as long as their batches take.

    Parameters
    ----------
    requests : Workload or Instance
        The arrival times of an instance count as seconds.
    batch_time : BatchTime
        Seconds of a round.
    search : Search or None, default None
        Checked; ``threads`` None takes every core.
    anneal : bool, default True
        Whether schedules beyond list schedules are looked for. `hindsight.relax` looks for none.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        An infeasible ``start``, or an output of 10^6 tokens or more.
    """
    search = Search() if search is None else search
    workload = as_workload(requests)
    refuse_long_outputs(workload)
    check_batch_time(batch_time)
    search.check_start(
        (SecondsSchedule,),
        lambda one: one.workload.digest == workload.digest and one.batch_time == batch_time,
        "another workload or batch time",
    )
    threads = search.threads or available_cores()
    with search.clock.listening():
        interval = SecondsInterval(workload, batch_time, search.clock, search.progress, search.gap)
        try:
            if search.start is not None:
                interval.offer(search.start.without_waiting())
            _Search(interval, search.seed, threads, anneal=anneal).run()
        except KeyboardInterrupt:
            interval.note_interruption()
        return interval.result()


def refuse_beside_batch_time(**given: bool) -> None:
    """Refuse parameters that mean nothing in seconds, by name.

    Raises
    ------
    InvalidValueError
        One of them was given.
    """
    for name, is_given in given.items():
        if is_given:
            raise InvalidValueError(None, "parameter", name, "cannot be given beside batch_time")


def require_instance(requests: Workload | Instance) -> Instance:
    """An instance as it is.

    Raises
    ------
    InvalidTypeError
        Not one; a workload needs a batch time.
    """
    refuse_seconds(requests)
    if not isinstance(requests, Instance):
        raise InvalidTypeError(None, "instance", requests, "is not an Instance")
    return requests


def as_workload(requests: Workload | Instance) -> Workload:
    """A workload as it is; an instance's requests in order of arrival, rounds counted as seconds.

    Raises
    ------
    InvalidTypeError
        Neither.
    """
    if isinstance(requests, Workload):
        return requests
    if not isinstance(requests, Instance):
        raise InvalidTypeError(None, "instance", requests, "is neither a Workload nor an Instance")
    order = np.argsort(requests.arrival_times, kind="stable")
    return Workload(
        requests.arrival_times[order].tolist(),
        requests.prompt_lengths[order].tolist(),
        requests.output_lengths[order].tolist(),
        memory_limit=requests.memory_limit,
        ids=[requests.ids[position] for position in order.tolist()],
        name=requests.name,
        metadata=requests.metadata,
        memory_rule=requests.memory_rule,
    )


@dataclass(eq=False, repr=False)
class SecondsInterval:
    """Best schedule, lower bounds, clock and log of one solve in seconds."""

    workload: Workload
    batch_time: BatchTime
    clock: Clock
    callback: Callable[[SecondsProgress], None] | None = None
    gap: float = 0.0
    phase: str = "schedules"
    first_token_bound: float = 0.0
    log: list[SecondsProgress] = field(default_factory=list)
    _schedule: SecondsSchedule | None = None
    _exact: Fraction | None = None

    def __post_init__(self) -> None:
        none = SecondsBound(Fraction(0), NO_BOUND, None, len(self.workload))
        self.bounds = {NO_BOUND: none}

    @property
    def schedule(self) -> SecondsSchedule:
        """The best schedule so far."""
        assert self._schedule is not None
        return self._schedule

    @property
    def best(self) -> SecondsBound:
        """The largest lower bound so far."""
        return max(self.bounds.values(), key=lambda bound: bound.total)

    @property
    def upper(self) -> Fraction:
        """Total latency of the best schedule, in fractions where the batch time is known exactly.

        Computed when it is asked for: it takes seconds where there are many rounds.
        """
        if self._exact is None:
            exact = exact_total_latency(self.schedule)
            self._exact = Fraction(self.schedule.total_latency) if exact is None else exact
        return self._exact

    @property
    def is_proved(self) -> bool:
        """True where the bounds meet exactly."""
        return self._schedule is not None and self._is_near and self.best.total == self.upper

    @property
    def _is_close(self) -> bool:
        if self.gap == 0:
            return False
        upper = self.schedule.total_latency
        return upper - float(self.best.total) <= self.gap * upper

    @property
    def _is_near(self) -> bool:
        """True where floats cannot tell the best bound from the best schedule."""
        return float(self.best.total) >= self.schedule.total_latency * (1 - NEAR)

    def note_interruption(self) -> None:
        """Ctrl-C came as an exception: keep what there is, if there is a schedule."""
        if self._schedule is None:
            raise KeyboardInterrupt
        self.clock.interrupt()

    def offer(self, schedule: SecondsSchedule) -> None:
        """Take a schedule if it is better.

        Raises
        ------
        ScheduleCheckError
            It is infeasible, or it beats a lower bound.
        """
        if self._schedule is not None and schedule.total_latency >= self.schedule.total_latency:
            return
        violations = schedule.violations()
        if violations:
            raise ScheduleCheckError(f"a schedule in seconds is infeasible: {violations[0]}")
        self._schedule, self._exact = schedule, None
        self._check()

    def prove(self, bound: SecondsBound) -> None:
        """Take a lower bound if it is better than the one of its name.

        Raises
        ------
        ScheduleCheckError
            It exceeds the total latency of a feasible schedule.
        """
        known = self.bounds.get(bound.name)
        if known is not None and known.total >= bound.total:
            return
        improves = bound.total > self.best.total
        self.bounds[bound.name] = bound
        if improves:
            self._check()

    def result(self) -> SecondsResult:
        """Return what is known by now."""
        reason: SecondsStop
        if self.is_proved:
            reason = "proof"
        else:
            reason = "gap" if self._is_close else self.clock.stop_reason(SPARE_SECONDS)
        return SecondsResult(
            workload=self.workload,
            batch_time=self.batch_time,
            schedule=self.schedule,
            upper_bound=self.upper,
            lower_bounds=MappingProxyType(dict(self.bounds)),
            best_bound=self.best.name,
            mean_first_token_bound=self.first_token_bound,
            stop_reason=reason,
            runtime=self.clock.seconds(),
            log=tuple(self.log),
        )

    def _check(self) -> None:
        if self._schedule is None:
            return
        best, count = self.best, len(self.workload)
        if self._is_near and best.total > self.upper:
            raise ScheduleCheckError(
                f"the lower bound {best.name!r} of {float(best.total)} s contradicts a schedule of "
                f"{float(self.upper)} s"
            )
        upper, lower = self.schedule.mean_latency, float(best.total / count)
        line = SecondsProgress(self.clock.seconds(), self.phase, upper, lower)
        self.log.append(line)
        if self._is_close:
            self.clock.interrupt()
        if self.callback is not None:
            self.callback(line)


class _Search:
    """The phases of one solve in seconds."""

    def __init__(self, interval: SecondsInterval, seed: int, threads: int, *, anneal: bool) -> None:
        self._interval = interval
        self._threads = threads
        self._anneal = anneal
        self._orders = SecondsOrders(interval.workload, interval.batch_time, seed)
        self._found: deque[SecondsSchedule] = deque()
        self._over = threading.Event()
        self._failed: list[BaseException] = []

    def run(self) -> None:
        """All phases, until proof, time limit or interruption."""
        interval = self._interval
        interval.offer(self._orders.openings(interval.clock.must_stop))
        # However little time there is: without them nothing is proved.
        interval.phase = "bounds"
        workload, batch_time = interval.workload, interval.batch_time
        if has_minorants(batch_time):
            first = max(one.total for one in first_token_bounds(workload, batch_time).values())
            interval.first_token_bound = rounded_down(first / len(workload))
            for bound in machine_bounds(workload, batch_time).values():
                interval.prove(bound)
        if self._is_over():
            return
        background = threading.Thread(target=self._anneal_orders, daemon=True)
        if self._anneal:
            background.start()
        try:
            workers = max(1, self._threads - self._anneal)
            with ThreadPoolExecutor(workers) as pool:
                prices = self._ascend(pool)
            self._take_schedules()
            if prices is not None:
                with ThreadPoolExecutor(self._threads) as pool:
                    self._evaluate(*prices, pool)
            while self._anneal and background.is_alive() and not self._is_over():
                background.join(0.05)
                self._take_schedules()
        finally:
            self._over.set()
            if self._anneal:
                background.join()
        self._take_schedules()

    def _is_over(self) -> bool:
        return self._interval.clock.must_stop() or self._interval.is_proved

    def _anneal_orders(self) -> None:
        """Anneal in a thread of its own: schedules are handed over, not offered."""
        limited = self._interval.clock.limit_left() is not None
        try:
            for schedule in self._orders.anneal(
                lambda: self._over.is_set() or (not limited and self._orders.cycle >= CYCLES)
            ):
                self._found.append(schedule)
        except BaseException as error:  # noqa: BLE001 (raised again where it is taken)
            self._failed.append(error)

    def _take_schedules(self) -> None:
        if self._failed:
            raise self._failed[0]
        while self._found:
            schedule = self._found.popleft()
            if not self._found:
                self._interval.offer(schedule)

    def _ascend(self, pool: Executor) -> tuple[PriceAscent, AffineMinorant] | None:
        """Prices; None where there are none."""
        interval = self._interval
        interval.phase = "prices"
        if interval.best.minorant is None:
            return None
        minorants = affine_minorants(interval.batch_time, interval.workload.memory_limit)
        ascents = [self._begin_ascent(one) for one in minorants]
        if len(ascents) > 1:
            # That of the best bound so far need not be the one that prices are best with.
            for one in ascents:
                one.climb(PROBE_TURNS, interval.clock.must_stop, pool)
        ascent = max(ascents, key=lambda one: one.estimate)
        minorant = minorants[ascents.index(ascent)]
        share = Clock(ASCENT_SHARE * interval.clock.seconds_left())
        most = TURNS if interval.clock.limit_left() is None else 4 * TURNS
        reached = -math.inf
        while not interval.clock.must_stop():
            ascent.climb(1, interval.clock.must_stop, pool)
            self._take_schedules()
            if share.must_stop() or ascent.turns >= most:
                return ascent, minorant
            if ascent.turns % STALL_TURNS == 0:
                if ascent.estimate - reached < STALL_GAIN * abs(ascent.estimate):
                    return ascent, minorant
                reached = ascent.estimate
        return None

    def _begin_ascent(self, minorant: AffineMinorant) -> PriceAscent:
        schedule = self._interval.schedule
        horizon = schedule.makespan * MARGIN + 4 * float(minorant.d0)
        # Where gamma changes within a round the evaluation has to take the least of several.
        shortest = math.ceil(math.log2(2 * minorant.d0))
        cell = 2.0 ** max(round(math.log2(horizon / CELLS)), shortest)
        return PriceAscent(schedule, minorant, horizon=horizon, cell=cell, iterations=TURNS)

    def _evaluate(self, ascent: PriceAscent, minorant: AffineMinorant, pool: Executor) -> None:
        """Values of all requests on finer and finer grids; a part of them may be on the finest."""
        interval = self._interval
        interval.phase = "evaluation"
        d0 = float(minorant.d0)
        allowance = ascent.values * 1.02 + 4 * d0
        longest = d0 + float(minorant.d1 + minorant.d2) * interval.workload.memory_limit
        window = math.sqrt(float(allowance.max()) * longest / LARGEST_WINDOW)
        most = max(ascent.horizon / LARGEST_GRID, longest / LONGEST_ROUND, window)
        finest = 2.0 ** math.floor(math.log2(d0 / FINEST * 2))
        finest = min(max(finest, 2.0 ** math.ceil(math.log2(most))), ascent.cell)
        if finest < most:
            return
        step = finest
        while step * 2 <= min(d0 / COARSEST, ascent.cell):
            step *= 2
        values: FloatArray | None = None
        while step >= finest:
            priced = PricedValues(interval.workload, minorant, ascent.prices(step))
            if values is None:
                values = priced.own * (1 - 1e-9)
            spent = Clock()
            whole = self._improve(priced, values, allowance, pool)
            bound = priced.bound(values, minorant)
            interval.prove(bound._replace(certified=interval.best.certified))
            self._take_schedules()
            if not whole or interval.clock.must_stop():
                return
            # A grid twice as fine has four times as many pairs of time and length.
            ahead = 4 * spent.seconds()
            step /= 2
            while step > finest and 4 * ahead < interval.clock.seconds_left():
                step, ahead = step / 2, 4 * ahead

    def _improve(
        self, priced: PricedValues, values: FloatArray, allowance: FloatArray, pool: Executor
    ) -> bool:
        """Raise ``values`` request by request, short ones first; False if told to stop.

        A request's value stays what it was where there is no time for it.
        """
        interval = self._interval
        # What a finer grid gains grows with the value, what it takes with value and output length.
        order = np.argsort(interval.workload.output_lengths, kind="stable")
        parts = np.array_split(order, min(len(order), 64))
        stop = threading.Event()

        def evaluate(part: npt.NDArray[np.signedinteger[Any]]) -> None:
            for request in part:
                if stop.is_set():
                    return
                one = np.array([request])
                values[one] = np.maximum(values[one], priced.of(one, allowance[one]))

        waiting = [pool.submit(evaluate, part) for part in parts]
        for task in waiting:
            while not task.done():
                if interval.clock.must_stop():
                    stop.set()
                wait([task], POLL_SECONDS)
            task.result()
        return not stop.is_set()
