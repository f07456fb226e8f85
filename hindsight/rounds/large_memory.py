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
"""Relative accuracy at which the linear relaxation counts as solved, and share of the remaining
time that its solution gets before each search for schedules, until it is solved."""

LARGE, LARGE_TOLERANCE = 500, 1e-3
"""Number of requests above which a coarser relative accuracy of the linear relaxation suffices, and
this accuracy. It also suffices if the relaxation only guides heuristics."""

LARGEST_BESIDE = 500_000
"""Largest number of non-zeros in the memory constraints of an integer program that HiGHS solves
next to heuristics. If there are more, only heuristics run."""

MOST_PAIRS = 20_000
"""Largest number of (request, start, replica) triples in the integer program of a fleet."""

SEARCH_SHARE, UNDISTURBED = 0.7, 10.0
"""If HiGHS and heuristics take turns in one thread: share of the time that HiGHS gets, and number
of seconds for which HiGHS runs alone first. HiGHS solves most programs quickly or not at all."""

BELOW_SHARE = 0.15
"""Share of the remaining time that beam search on the single-machine relaxation gets, for memory in
blocks or replicas. The requests are then placed in the order of the starts that it finds."""

POOLED_SHARE, OWN_SHARE = 0.1, 0.3
"""For memory in blocks or replicas: share of the remaining time that HiGHS gets for the integer
program of the single-machine relaxation, and later share for that of the problem itself."""

FIRST_CYCLES, FIRST_SHARE, CYCLES = 16, 0.1, 7
"""For memory in blocks or replicas: number of local-search runs before the linear relaxation, and
largest share of the remaining time for them. `CYCLES`: runs in each turn while HiGHS works."""


def close_at_any_size(interval: Interval, search: Search, method: str) -> None:
    """Improve both bounds on total latency, for any memory limit and any number of requests.

    The function returns when the bounds meet, the solve must stop, or no method improves them.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    search : Search
        Options of the solve.
    method : {"auto", "mip", "beams"}
        ``"mip"``: only HiGHS searches for schedules. ``"beams"``: HiGHS is not used. ``"auto"``:
        heuristics and HiGHS search for schedules.
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
    """Solve integer programs in HiGHS over the starts that better schedules may use.

    All other starts are excluded by reduced-cost fixing: the memory prices (per token and round) of
    the relaxation ``relaxed`` prove that every schedule with such a start is worse than the best
    one found so far. For memory in blocks or for replicas, HiGHS first solves the program of the
    single-machine relaxation, and then that of the problem itself. Heuristics improve schedules at
    the same time. If ``improvement`` is None, there are no heuristics: HiGHS solves only the
    program of the problem itself, with all threads.
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
    """Return the linear relaxation of the problem as one machine in tokens, not yet solved.

    While it is solved, it reports its lower bounds to ``interval``. If ``guides`` is True, only
    heuristics use its result, so the coarser accuracy `LARGE_TOLERANCE` suffices.
    """
    is_large = guides or len(interval.source) > LARGE
    tolerance = LARGE_TOLERANCE if is_large else RELAXATION_TOLERANCE
    clock = Clock(should_stop=interval.clock.must_stop)
    search = Search(clock, progress=lambda line: interval.prove(line.lower_bound, MEMORY_PRICES))
    return TokenRelaxation(interval.problem.below, tolerance, search)


def relax_further(relaxation: TokenRelaxation, interval: Interval, share: float) -> Relaxation:
    """Continue to solve a linear relaxation, and return its result so far.

    ``share``, from 0 to 1, is the part of the remaining time that this call may take. The memory
    prices of the result prove a lower bound, which is recorded in ``interval``.
    """
    interval.phase = "relaxation"
    left = interval.clock.limit_left()
    relaxation.clock.allow(None if left is None else share * left)
    relaxation.go_on()
    relaxed = relaxation.result()
    prices: MemoryPrices = relaxed.prices
    interval.prove(relaxed.certified_bound, MEMORY_PRICES, proof=prices)
    return relaxed


def first_schedules(improvement: Improvement, interval: Interval) -> None:
    """Search for schedules before the linear relaxation is solved.

    For one machine with memory in tokens, run beam searches. Otherwise, run local search for at
    most `FIRST_CYCLES` runs. The schedules are offered to ``interval``.
    """
    if interval.problem.is_plain:
        improvement.run_beams()
    else:
        with interval.clock.within(FIRST_SHARE * interval.clock.seconds_left()):
            improvement.run(FIRST_CYCLES, patient=True)


def follow(improvement: Improvement, interval: Interval, relaxed: Relaxation) -> None:
    """Guide the search for schedules by a solved linear relaxation, and run beam searches.

    The search then uses the mean starts and the memory prices of the relaxation. The beam searches
    place the requests in order of their expected starts in the relaxation. If memory is in blocks
    or there are replicas, they build schedules of one machine with memory in tokens (the
    single-machine relaxation of the problem). The requests of the problem itself are then placed in
    the order of their starts in the best of these schedules.
    """
    improvement.follow(relaxed.expected_start_times, relaxed.prices)
    if interval.problem.is_plain:
        improvement.run_beams()
        return
    below, clock = interval.problem.below, interval.clock
    left = clock.limit_left()
    limit = Clock(None if left is None else BELOW_SHARE * left, clock.must_stop)
    machine = Interval(Problem(below), Search(limit))
    machine.offer(best_list_schedule(below, limit.must_stop))
    beams = Improvement(machine)
    beams.run_beams()
    follow(beams, machine, relaxed)
    place_in_order(improvement, interval, machine.schedule.start_times)


def place_in_order(improvement: Improvement, interval: Interval, key: FloatArray) -> None:
    """Build a schedule: place requests by ascending key, each at the first start that fits.

    ``key`` has one entry per request, shape (n,). The schedule is offered to ``interval``.
    """
    if improvement.moves.place(np.argsort(key, kind="stable")):
        interval.offer(improvement.moves.schedule)
