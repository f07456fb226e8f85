"""The integer program in HiGHS, over the starts that reduced costs allow.

`hindsight.exact.program` counts how many requests of a class start when, on a machine or on every
replica, in tokens or in blocks. Prices of its relaxation (`hindsight.rounds.token_relaxation`)
leave out every start that no schedule as good as the best one known can use: a start whose priced
cost exceeds the cheapest by more than the gap belongs to worse schedules of the machine below, so
to worse schedules here. The bounds of HiGHS's search are those of floating-point arithmetic, so
they are not certified.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hindsight.exact.highs import BOUND_TOLERANCE, LinearResult, solve_linear
from hindsight.exact.program import Program
from hindsight.exact.starts import LARGEST_RELAXATION, StartSets, all_starts, count_starts
from hindsight.outcomes.errors import SolverError
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.result import PROGRAM
from hindsight.prices.states import SCALE, start_values
from hindsight.prices.tokens import price_bound, useful_starts
from hindsight.runtime.search import Search
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed

ENTRIES_PER_SECOND, MOST_ENTRIES = 125_000, 20_000_000
"""Most memory entries of a program for each second left, and of any: HiGHS gains nothing from
larger ones."""

LONGEST_SEARCH = 900.0
"""Most seconds of a search beside another one, as HiGHS's tree has no limit on memory."""

LARGEST_PROBE = 2_000_000
"""Most starts in a tested horizon for which a program is built."""

Take = Callable[[Program, FloatArray], object]
"""Uses the program and the values of a solution."""


def starts_left(interval: Interval, prices: MemoryPrices) -> list[IntArray] | None:
    """List the starts on one machine that a schedule as good as the best one known can use.

    Parameters
    ----------
    interval : Interval
        The solve.
    prices : MemoryPrices
        Prices of the machine below.

    Returns
    -------
    list[int64 array] or None
        The starts of each request; None where requests and rounds are too many.
    """
    below = interval.problem.below
    latest = max(int(below.arrival_times.max() + below.output_lengths.sum()), interval.horizon)
    latest = min(latest, interval.horizon) if interval.horizon else latest
    latest = max(latest, interval.schedule.makespan)
    if len(below) * latest > 10 * LARGEST_RELAXATION:
        return None
    return useful_starts(below, price_bound(below, prices), interval.upper_bound, latest)


def starts_left_by_states(
    interval: Interval, prices: tuple[IntArray, IntArray], starts: list[IntArray]
) -> list[IntArray]:
    """Return those of the starts that a schedule as good as the best one known can use.

    Parameters
    ----------
    interval : Interval
        The solve.
    prices : tuple[int64 array, int64 array]
        Prices Q of what runs together on a replica, in tokens, and capacities W.
    starts : list[int64 array]
        Starts of each request.
    """
    Q, W = prices
    s, o, a, _ = relaxed(interval.source).alone().columns
    costs, _ = start_values(Q, s, o, a)
    # Past the last price only latency grows.
    least = [min(row[start:].tolist()) for row, start in zip(costs, a.tolist(), strict=True)]
    paid = interval.source.replicas * sum(W.tolist())
    slack = SCALE * interval.upper_bound - (sum(least) - paid)
    kept = []
    for i, own in enumerate(starts):
        priced = costs[i, np.minimum(own, len(Q))] + SCALE * np.maximum(own - len(Q), 0)
        kept.append(own[priced - least[i] <= slack])
    return kept


def search_program(
    interval: Interval,
    search: Search,
    starts: StartSets,
    must_stop: Callable[[], bool] | None = None,
    take: Take | None = None,
    base: int = 0,
) -> None:
    """Solve the program over ``starts`` from the best schedule, and report results.

    ``starts`` must hold every schedule that is better than the best one known, so that the bound of
    the program, capped by the upper bound, is a bound on the optimum. A program that is too large
    for the time left is not built.

    Parameters
    ----------
    interval : Interval
        The solve.
    search : Search
        Its options.
    starts : StartSets
        The starts.
    must_stop : Callable[[], bool] or None, default None
        Polled in place of the solve's clock; HiGHS then has one thread and `LONGEST_SEARCH`.
    take : Take or None, default None
        Uses each better solution, if it is not a schedule of the solve to be offered.
    base : int, default 0
        Cost beyond that of the program.

    Raises
    ------
    SolverError
        HiGHS failed, or contradicts the best schedule.
    """
    clock = interval.clock
    most = min(MOST_ENTRIES, ENTRIES_PER_SECOND * clock.seconds_left())
    if max(starts.memory_entries, starts.optional * starts.horizon) > most:
        interval.stop_reason = "size"
        return
    if interval.is_done():
        return
    program, interval.phase = Program(starts), "search"
    is_own = take is None
    use: Take = take or (lambda program, values: interval.offer(program.schedule(values)))

    def hear(found: LinearResult) -> None:
        interval.nodes = max(interval.nodes, found.nodes)
        if found.values is not None:
            use(program, found.values)
        if found.bound is not None:
            # Schedules that are no better need not be in the program.
            bound = base + math.ceil(found.bound - BOUND_TOLERANCE)
            interval.prove(min(bound, interval.upper_bound), PROGRAM, certified=False)

    def kept(part: Callable[..., Any]) -> Callable[..., Any]:
        # An exception must not travel through HiGHS: it is kept, and the search stops.
        def run(*given: Any) -> Any:
            try:
                return part(*given)
            except BaseException as error:  # noqa: BLE001 (re-raised by solve)
                interval.keep_error(error)
                return True

        return run

    with clock.within(math.inf if must_stop is None else LONGEST_SEARCH):
        result = solve_linear(
            program.linear,
            time_limit=clock.limit_left(),
            threads=search.threads if must_stop is None else 1,
            seed=search.seed,
            start=program.point(interval.schedule) if is_own else None,
            callback=kept(hear),
            should_stop=kept(must_stop or clock.must_stop),
        )
    if is_own and result.termination == "infeasible":
        raise SolverError("HiGHS calls a model infeasible that holds the incumbent")
    hear(result)
    least = None if result.objective is None else base + round(result.objective)
    if result.termination == "infeasible" or (
        result.termination == "optimal" and least is not None and least >= interval.upper_bound
    ):
        # HiGHS stops at a gap below one, which between integers is no gap.
        interval.prove(interval.upper_bound, PROGRAM, certified=False)
    interval.note_stop()


def close_makespan(interval: Interval, search: Search) -> None:
    """Close the interval around the least makespan, as far as time and size allow.

    A schedule completes by round T iff the integer program restricted to starts that complete by T
    has a point; so bisection over T needs no objective ([W25] Theorem EC.2), and each answer moves
    one of the two bounds. The lower bound is tested first, because it is often attained; then the
    middle. The program whose objective is the makespan is `build_model(..., goal="makespan")`; its
    relaxation says next to nothing.

    Raises
    ------
    SolverError
        HiGHS failed.
    """
    interval.phase, probed = "search", interval.lower_bound
    while not interval.is_done():
        if count_starts(interval.source, probed) > LARGEST_PROBE:
            interval.stop_reason = "size"
            return
        starts = all_starts(interval.source, probed)
        if starts.memory_entries > ENTRIES_PER_SECOND * interval.clock.seconds_left():
            interval.stop_reason = "size"
            return
        if not _probe(interval, search, starts):
            interval.note_stop()
            return
        probed = (interval.lower_bound + interval.upper_bound - 1) // 2


def _probe(interval: Interval, search: Search, starts: StartSets) -> bool:
    """Ask HiGHS for a schedule that completes by the horizon of ``starts``; False if undecided."""
    program = Program(starts)
    # Any feasible point will do.
    linear = replace(program.linear, costs=np.zeros_like(program.linear.costs), offset=0.0)
    result = solve_linear(
        linear,
        time_limit=interval.clock.limit_left(),
        threads=search.threads,
        seed=search.seed,
        should_stop=interval.clock.must_stop,
    )
    interval.nodes += result.nodes
    if result.values is not None:
        interval.offer(program.schedule(result.values))
        return True
    if result.termination == "infeasible":
        interval.prove(starts.rounds + 1, PROGRAM, certified=False)
        return True
    return False
