"""Minimise total latency at any size: memory prices, heuristics guided by them, and HiGHS.

The relaxation (`hindsight.rounds.token_relaxation`) gives an exact lower bound and memory prices
for one machine in tokens. The prices guide the search for schedules
(`hindsight.schedules.improving`). If reduced costs leave few starts, HiGHS solves the integer
program over these starts (`hindsight.rounds.program`). Meanwhile schedules are improved in HiGHS's
callbacks or in a second thread. If its share of the time ends before the relaxation converges, the
relaxation continues after some cycles of ruin and recreate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hindsight.exact.program import Program
from hindsight.exact.starts import StartSets, start_sets, useful_replicas
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.result import MEMORY_PRICES, Relaxation
from hindsight.runtime.beside import Beside
from hindsight.runtime.clock import Clock
from hindsight.runtime.search import Search
from hindsight.schedules.improving import Improvement
from hindsight.schedules.lists import best_list_schedule
from instances.arrays import FloatArray

from .program import search_program, starts_left
from .token_relaxation import TokenRelaxation

RELAXATION_TOLERANCE, RELAXATION_SHARE = 1e-5, 0.25
"""Relative accuracy of the relaxation, and the share of the time left for each run of it."""

LARGE, LARGE_TOLERANCE = 500, 1e-3
"""Requests above which the relaxation uses the second value as its accuracy. It also uses that
accuracy if it only guides heuristics."""

LARGEST_BESIDE = 500_000
"""Most non-zeros in the memory rows of a program that is solved during a search for schedules."""

MOST_PAIRS = 20_000
"""Most starts, summed over the replicas of a fleet, for which the program is solved."""

SEARCH_SHARE, UNDISTURBED = 0.7, 10.0
"""Share of the time for HiGHS if it shares one thread with the search for schedules, and the first
seconds, which HiGHS has for itself: most programs that it solves at all are solved quickly."""

BELOW_SHARE = 0.15
"""Share of the time left for beam search on the single-machine relaxation. The order of its starts
guides the search for schedules of the problem itself."""

POOLED_SHARE, OWN_SHARE = 0.1, 0.3
"""Shares of the time left for the program of the single-machine relaxation, and then for that of
the problem itself, in blocks or on replicas."""

FIRST_CYCLES, FIRST_SHARE, CYCLES = 16, 0.1, 7
"""Cycles of a first search without beams, the largest share of the time left for these cycles, and
the cycles of each phase that runs while the program is solved."""


class LargeMemory:
    """Solver by relaxation, heuristics and the integer program.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    search : Search
        Options of the solve.
    method : {"auto", "mip", "beams"}
        With ``"mip"`` only HiGHS looks for schedules. ``"beams"`` does not use HiGHS.
    """

    def __init__(self, interval: Interval, search: Search, method: str) -> None:
        self._interval, self._search, self._method = interval, search, method
        self._improvement = Improvement(interval, search.seed, search.cores)

    def run(self) -> None:
        """Run until the bounds meet, the solve must stop, or no method improves them any more."""
        interval, improves = self._interval, self._method != "mip"
        if improves:
            first_schedules(self._improvement, interval)
        relaxation: TokenRelaxation | None = None
        while not interval.is_done():
            relaxation = relaxation or token_relaxation(interval)
            left = interval.clock.limit_left()
            relaxed = relax_further(relaxation, interval, RELAXATION_SHARE)
            is_last = relaxed.stop_reason != "time-limit"
            if is_last and self._method != "beams" and not interval.is_done():
                self._solve_programs(relaxed)
            if improves:
                follow(self._improvement, interval, relaxed)
                self._improvement.run(patient=is_last and left is not None)
            if is_last:
                break
        if improves:
            interval.note_stop()

    def _solve_programs(self, relaxed: Relaxation) -> None:
        """Solve the program of the single-machine relaxation, then that of the problem itself."""
        interval, source = self._interval, self._interval.source
        useful = starts_left(interval, relaxed.prices)
        if useful is None:
            interval.stop_reason = "size"
            return
        if self._method == "mip":
            search_program(interval, self._search, start_sets(source, useful))
            return
        counts = np.array([len(own) for own in useful])
        if counts @ source.output_lengths > LARGEST_BESIDE:
            return
        if not interval.problem.is_plain:
            pooled = start_sets(interval.problem.below, useful)
            with interval.clock.within(POOLED_SHARE * interval.clock.seconds_left()):
                self._search_beside(pooled, relaxed, self._place)
            useful = starts_left(interval, relaxed.prices) or useful
        share = 1.0 if interval.problem.is_plain else OWN_SHARE
        replicas = useful_replicas(source)
        if replicas == 1 or sum(map(len, useful)) * replicas <= MOST_PAIRS:
            with interval.clock.within(share * interval.clock.seconds_left()):
                self._search_beside(start_sets(source, useful), relaxed)

    def _place(self, program: Program, values: FloatArray) -> None:
        """Place requests in the order of their starts in a solution on one machine."""
        starts = program.starts(values).astype(np.float64)
        place_in_order(self._improvement, self._interval, starts)

    def _search_beside(
        self, starts: StartSets, relaxed: Relaxation, take: Callable[..., object] | None = None
    ) -> None:
        """Run HiGHS, and improve schedules in its callbacks or in a second thread."""
        interval, search = self._interval, self._search
        if interval.is_done():
            return
        improver = partial(_improver, search.seed, relaxed)
        if search.cores == 1:
            improve = improver(interval)
            must_stop = _taking_turns(interval, improve)
            search_program(interval, search, starts, must_stop, take)
            return
        beside: Beside[Any] = Beside(partial(_improve, improver, interval), interval.offer)
        with beside.running():
            must_stop = partial(beside.take_then, interval.is_done)
            search_program(interval, search, starts, must_stop, take)


def token_relaxation(interval: Interval, *, guides: bool = False) -> TokenRelaxation:
    """Return the relaxation for one machine in tokens, which reports its bounds to ``interval``."""
    is_large = guides or len(interval.source) > LARGE
    return TokenRelaxation(
        interval.problem.below,
        tolerance=LARGE_TOLERANCE if is_large else RELAXATION_TOLERANCE,
        progress=lambda line: interval.prove(line.lower_bound, MEMORY_PRICES),
        clock=Clock(should_stop=interval.clock.must_stop),
    )


def relax_further(relaxation: TokenRelaxation, interval: Interval, share: float) -> Relaxation:
    """Continue a relaxation for a share of the time left, and record its lower bound."""
    interval.phase = "relaxation"
    left = interval.clock.limit_left()
    relaxation.clock.allow(None if left is None else share * left)
    relaxation.go_on()
    relaxed = relaxation.result()
    prices: MemoryPrices = relaxed.prices
    interval.prove(relaxed.certified_bound, MEMORY_PRICES, proof=prices)
    return relaxed


def first_schedules(improvement: Improvement, interval: Interval) -> None:
    """Find first schedules: by beams for one machine in tokens, else by ruin and recreate."""
    if interval.problem.is_plain:
        improvement.run_first()
    else:
        with interval.clock.within(FIRST_SHARE * interval.clock.seconds_left()):
            improvement.run(FIRST_CYCLES, patient=True)


def follow(improvement: Improvement, interval: Interval, relaxed: Relaxation) -> None:
    """Guide the search for schedules by a relaxation.

    Run beams at once. For blocks or replicas they run on the single-machine relaxation, and the
    requests are placed in the order of the starts found there.
    """
    improvement.follow(relaxed.expected_start_times, relaxed.prices)
    if interval.problem.is_plain:
        improvement.run_whole()
        return
    below, clock = interval.problem.below, interval.clock
    left = clock.limit_left()
    limit = Clock(None if left is None else BELOW_SHARE * left, clock.must_stop)
    machine = Interval(Problem(below), Search(limit))
    machine.offer(best_list_schedule(below, thorough=False, should_stop=limit.must_stop))
    beams = Improvement(machine)
    beams.run_first()
    follow(beams, machine, relaxed)
    place_in_order(improvement, interval, machine.schedule.start_times)


def place_in_order(improvement: Improvement, interval: Interval, key: FloatArray) -> None:
    """Place requests as early as they fit, by ascending sort key, shape (n,); offer the result."""
    if improvement.moves.place(np.argsort(key, kind="stable")):
        interval.offer(improvement.moves.schedule)


def _taking_turns(interval: Interval, improve: Callable[[], object]) -> Callable[[], bool]:
    """Return a stop callback for HiGHS that also improves schedules in its share of the time."""
    clock, spent = interval.clock, 0.0
    begun = clock.seconds() + UNDISTURBED

    def must_stop() -> bool:
        nonlocal spent
        now = clock.seconds()
        if spent < (1 - SEARCH_SHARE) * (now - begun) and not interval.is_done():
            improve()
            spent += clock.seconds() - now
        return interval.is_done()

    return must_stop


def _improve(
    improver: Callable[[Interval], Callable[[], object]],
    interval: Interval,
    found: Callable[[Any], object],
    must_stop: Callable[[], bool],
) -> None:
    """Improve schedules in a second thread."""
    apart = interval.apart(found, must_stop)
    apart.offer(interval.schedule)
    improve = improver(apart)
    while not must_stop():
        apart.offer(interval.schedule)
        improve()


def _improver(seed: int, relaxed: Relaxation, interval: Interval) -> Callable[[], object]:
    """Run a first phase of improvement; return a function that runs the next phase."""
    improvement = Improvement(interval, seed)
    follow(improvement, interval, relaxed)
    improvement.run(CYCLES)
    return partial(improvement.run, CYCLES, patient=True)
