"""Minimise total latency at any size: memory prices, heuristics guided by them, and HiGHS.

The relaxation (`hindsight.rounds.token_relaxation`) gives an exact lower bound and memory prices
for one machine in tokens. The prices guide the search for schedules
(`hindsight.schedules.improving`). If reduced costs leave few starts, HiGHS solves the integer
program over these starts (`hindsight.rounds.program`). Meanwhile schedules improve in a second
thread or, if there is one thread, in the callbacks of HiGHS. If the time share of the relaxation
ends before it converges, it continues after the search for schedules has stopped gaining.
"""

from __future__ import annotations

import numpy as np

from hindsight.exact.program import Program
from hindsight.exact.starts import start_sets, useful_replicas
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.result import MEMORY_PRICES, Relaxation
from hindsight.runtime.clock import Clock
from hindsight.runtime.search import Search
from hindsight.schedules.improving import Improvement
from hindsight.schedules.lists import best_list_schedule
from instances.arrays import FloatArray

from .background import Background
from .program import search_program, starts_left
from .token_relaxation import TokenRelaxation

RELAXATION_TOLERANCE, RELAXATION_SHARE = 1e-5, 0.25
"""Relative accuracy at which the relaxation ends, and the share of the time left for each part of
it, after which schedules are searched for."""

LARGE, LARGE_TOLERANCE = 500, 1e-3
"""Number of requests above which the relaxation ends at this coarser relative accuracy. It also
does if only heuristics use it."""

LARGEST_BESIDE = 500_000
"""Most non-zeros in the memory rows of a program for which HiGHS runs next to heuristics."""

MOST_PAIRS = 20_000
"""Most starts of a fleet, counted on each replica, for which the program is solved."""

SEARCH_SHARE, UNDISTURBED = 0.7, 10.0
"""Share of the time for HiGHS if it has one thread in common with the search for schedules, and the
first seconds that HiGHS has alone: it solves most programs quickly or not at all."""

BELOW_SHARE = 0.15
"""Share of the time left for beam search on the single-machine relaxation, if there are blocks or
replicas. The requests are then placed in the order of the starts found."""

POOLED_SHARE, OWN_SHARE = 0.1, 0.3
"""Shares of the time left for the program of the single-machine relaxation, and then for that of
the problem itself, in blocks or on replicas."""

FIRST_CYCLES, FIRST_SHARE, CYCLES = 16, 0.1, 7
"""Cycles of the first search for schedules in blocks or on replicas, the largest share of the time
left for them, and the cycles of each search next to HiGHS."""


def close_at_any_size(interval: Interval, search: Search, method: str) -> None:
    """Improve both bounds until they meet, the solve must stop, or no method improves them.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    search : Search
        Options of the solve.
    method : {"auto", "mip", "beams"}
        With ``"mip"`` only HiGHS looks for schedules. ``"beams"`` does not use HiGHS.
    """
    relaxation, limited = None, interval.clock.limit_left() is not None
    improvement = None if method == "mip" else Improvement(interval, search.seed, search.cores)
    if improvement is not None:
        first_schedules(improvement, interval)
    while not interval.is_done():
        relaxation = relaxation or token_relaxation(interval)
        relaxed = relax_further(relaxation, interval, RELAXATION_SHARE)
        is_last = relaxed.stop_reason != "time-limit"
        if improvement is not None:
            follow(improvement, interval, relaxed)
        if is_last and method != "beams" and not interval.is_done():
            _solve_programs(interval, search, relaxed, improvement)
        if improvement is not None:
            improvement.run(patient=is_last and limited)
            interval.note_stop()
        if is_last:
            break


def _solve_programs(
    interval: Interval, search: Search, relaxed: Relaxation, improvement: Improvement | None
) -> None:
    """Solve the program of the single-machine relaxation, then that of the problem itself.

    Schedules improve at the same time. With ``improvement`` None, HiGHS solves only the program of
    the problem itself, with all threads.
    """
    problem, source, clock = interval.problem, interval.source, interval.clock
    useful = starts_left(interval, relaxed.prices)
    if useful is None:
        interval.stop_reason = "size"
        return
    if improvement is None:
        search_program(interval, search, start_sets(source, useful))
        return
    if np.array([len(own) for own in useful]) @ source.output_lengths > LARGEST_BESIDE:
        return
    improvements = {interval: improvement}

    def improve(own: Interval) -> None:
        if own not in improvements:
            improvements[own] = Improvement(own, search.seed)
            improvements[own].follow(relaxed.expected_start_times, relaxed.prices)
        improvements[own].run(CYCLES, patient=True)

    def place(program: Program, values: FloatArray) -> None:
        place_in_order(improvement, interval, program.starts(values).astype(np.float64))

    shares = {"share": 1 - SEARCH_SHARE, "after": UNDISTURBED}
    schedules = Background(interval, search.cores, improve, **shares)
    with schedules.running():
        if not problem.is_plain:
            with clock.within(POOLED_SHARE * clock.seconds_left()):
                pooled = start_sets(problem.below, useful)
                search_program(interval, search, pooled, schedules.must_stop, place)
            useful = starts_left(interval, relaxed.prices) or useful
        replicas = useful_replicas(source)
        if replicas == 1 or sum(map(len, useful)) * replicas <= MOST_PAIRS:
            share = 1.0 if problem.is_plain else OWN_SHARE
            with clock.within(share * clock.seconds_left()):
                search_program(interval, search, start_sets(source, useful), schedules.must_stop)


def token_relaxation(interval: Interval, *, guides: bool = False) -> TokenRelaxation:
    """Return an unsolved relaxation for one machine in tokens; it proves bounds of ``interval``.

    ``guides`` says that only heuristics will use it.
    """
    is_large = guides or len(interval.source) > LARGE
    tolerance = LARGE_TOLERANCE if is_large else RELAXATION_TOLERANCE
    clock = Clock(should_stop=interval.clock.must_stop)
    search = Search(clock, progress=lambda line: interval.prove(line.lower_bound, MEMORY_PRICES))
    return TokenRelaxation(interval.problem.below, tolerance, search)


def relax_further(relaxation: TokenRelaxation, interval: Interval, share: float) -> Relaxation:
    """Continue a relaxation for a share of the time left; prove its bound and return its result."""
    interval.phase = "relaxation"
    left = interval.clock.limit_left()
    relaxation.clock.allow(None if left is None else share * left)
    relaxation.go_on()
    relaxed = relaxation.result()
    prices: MemoryPrices = relaxed.prices
    interval.prove(relaxed.certified_bound, MEMORY_PRICES, proof=prices)
    return relaxed


def first_schedules(improvement: Improvement, interval: Interval) -> None:
    """Search before there is a relaxation: by beams in tokens on one machine, else by cycles."""
    if interval.problem.is_plain:
        improvement.run_beams()
    else:
        with interval.clock.within(FIRST_SHARE * interval.clock.seconds_left()):
            improvement.run(FIRST_CYCLES, patient=True)


def follow(improvement: Improvement, interval: Interval, relaxed: Relaxation) -> None:
    """Guide the search for schedules by a relaxation, and run beams.

    For blocks or replicas, beams build schedules of the single-machine relaxation. The requests are
    then placed in the order of the starts in the best of these schedules.
    """
    improvement.follow(relaxed.expected_start_times, relaxed.prices)
    if interval.problem.is_plain:
        improvement.run_beams()
        return
    below, clock = interval.problem.below, interval.clock
    left = clock.limit_left()
    limit = Clock(None if left is None else BELOW_SHARE * left, clock.must_stop)
    machine = Interval(Problem(below), Search(limit))
    machine.offer(best_list_schedule(below, thorough=False, should_stop=limit.must_stop))
    beams = Improvement(machine)
    beams.run_beams()
    follow(beams, machine, relaxed)
    place_in_order(improvement, interval, machine.schedule.start_times)


def place_in_order(improvement: Improvement, interval: Interval, key: FloatArray) -> None:
    """Place requests by ascending key, shape (n,), each as early as it fits; offer the result."""
    if improvement.moves.place(np.argsort(key, kind="stable")):
        interval.offer(improvement.moves.schedule)
