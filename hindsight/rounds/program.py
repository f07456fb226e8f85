"""Solve the integer program in HiGHS, over the starts that reduced-cost fixing leaves.

The variables of `hindsight.exact.program` count the requests of each class that start in each
round, on a machine or on every replica, in tokens or in blocks. The prices of its relaxation
(`hindsight.rounds.token_relaxation`) exclude starts. The priced cost of a start is the latency plus
the prices of the memory held. The gap is the cost of the best known schedule minus the lower bound
of the prices. If the priced cost of a start exceeds that of the request's cheapest start by more
than the gap, then every schedule with this start is worse than the best known schedule. This holds
for the single-machine relaxation, and so for the problem itself. HiGHS computes its bounds in
floating point, so they are not certified.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hindsight.exact.highs import BOUND_TOLERANCE, LinearResult, solve_linear
from hindsight.exact.program import Program
from hindsight.exact.starts import LARGEST_RELAXATION, StartSets, all_starts, count_starts
from hindsight.outcomes.errors import SolverError
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import busy_end
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.result import PROGRAM
from hindsight.prices.states import SCALE, start_values
from hindsight.prices.tokens import price_bound, useful_starts
from hindsight.runtime.search import Search
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed

ENTRIES_PER_SECOND, MOST_ENTRIES = 125_000, 20_000_000
"""Limits on non-zeros in memory constraints of an integer program: per second of remaining time,
and in all. Larger programs are not built, because HiGHS would gain nothing on them."""

LONGEST_SEARCH = 900.0
"""Longest time, in seconds, that HiGHS runs next to a schedule search. It limits HiGHS's memory."""

LARGEST_PROBE = 2_000_000
"""Largest number of (request, start) pairs of a program that tests if a makespan is possible."""


def starts_left(interval: Interval, prices: MemoryPrices) -> list[IntArray] | None:
    """List the starts that memory prices cannot exclude, for each request.

    An excluded start occurs only in schedules worse than the best schedule found so far
    (reduced-cost fixing).

    Parameters
    ----------
    interval : Interval
        The bounds and the best schedule of the solve.
    prices : MemoryPrices
        Price per token in each round, for the single-machine relaxation in tokens.

    Returns
    -------
    list[int64 array] or None
        The remaining starts of each request. None if (requests) x (rounds) is more than 10 times
        `LARGEST_RELAXATION`.
    """
    below = interval.problem.below
    latest = interval.horizon or busy_end(below)
    latest = max(latest, interval.schedule.makespan)
    if len(below) * latest > 10 * LARGEST_RELAXATION:
        return None
    return useful_starts(below, price_bound(below, prices), interval.upper_bound, latest)


def starts_left_by_states(
    interval: Interval, prices: tuple[IntArray, IntArray], starts: list[IntArray]
) -> list[IntArray]:
    """Remove the starts that state prices exclude, and return the remaining starts.

    In state (m, r) a request holds m tokens and has r rounds to go. It pays the price of its state
    at each epoch tau, the time between rounds tau and tau + 1. An excluded start occurs only in
    schedules worse than the best schedule found so far (reduced-cost fixing).

    Parameters
    ----------
    interval : Interval
        The bounds and the best schedule of the solve.
    prices : tuple[int64 array, int64 array]
        State prices Q[tau, m, r] of one replica with its memory in tokens, shape (T, M + 1, M + 1).
        Capacities W, shape (T,): for each tau, the highest total price of states that fit into the
        memory of one replica together. Both are in units of 1 / SCALE rounds of latency.
    starts : list[int64 array]
        Starts of each request, from which those that the prices exclude are removed.
    """
    Q, W = prices
    s, o, a, _ = relaxed(interval.source).alone().columns
    costs, _ = start_values(Q, s, o, a)
    # The cost of a start is its latency plus the prices of the request's states. ``costs`` has the
    # starts 0 .. T, where T = len(Q): epochs 0 .. T - 1 have prices. Start T pays no price, and
    # each later start costs one round of latency more than the one before. So the least cost is
    # found among the starts up to T.
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
    take: Callable[[Program, FloatArray], object] | None = None,
    base: int = 0,
) -> None:
    """Solve the integer program over ``starts`` by HiGHS, and improve both bounds of ``interval``.

    ``starts`` must contain the starts of every schedule better than the best schedule found so far.
    The optimum is then either the cost of the best schedule or the optimum of the program. So the
    smaller one of the upper bound and the lower bound that HiGHS proves for the program is a lower
    bound on the optimum. A program that is too large for the time left is not built.

    Parameters
    ----------
    interval : Interval
        The bounds and the best schedule of the solve.
    search : Search
        Options of the solve.
    starts : StartSets
        Starts that the program allows for each request.
    must_stop : Callable[[], bool] or None, default None
        Stop callback, to be given if a search for schedules runs at the same time. It is polled
        instead of the clock. HiGHS then has one thread, and at most `LONGEST_SEARCH` seconds.
    take : Callable or None, default None
        Called with the program and the values of its variables for each better solution, if the
        program belongs to a relaxation or has another cost than the problem. None: HiGHS starts
        from the best schedule found so far, and each better solution is offered to ``interval`` as
        a schedule.
    base : int, default 0
        Constant to add to the objective value of the program to get the cost of the problem.

    Raises
    ------
    SolverError
        HiGHS failed, or finds a program infeasible that contains the best schedule.
    """
    clock = interval.clock
    if _is_too_large(interval, starts) or interval.is_done():
        return
    program, interval.phase = Program(starts), "search"
    is_own = take is None
    use = take or (lambda program, values: interval.offer(program.schedule(values)))

    def hear(found: LinearResult) -> None:
        if found.values is not None:
            use(program, found.values)
        if found.bound is not None:
            # The program may exclude the best schedule found so far, and others of the same cost.
            # Then the lower bound of HiGHS may exceed the upper bound of the solve. In this case
            # the optimum is the upper bound, so record no larger lower bound.
            bound = base + math.ceil(found.bound - BOUND_TOLERANCE)
            interval.prove(min(bound, interval.upper_bound), PROGRAM, certified=False)

    with clock.within(math.inf if must_stop is None else LONGEST_SEARCH):
        result = solve_linear(
            program.linear,
            time_limit=clock.limit_left(),
            threads=search.threads if must_stop is None else 1,
            seed=search.seed,
            start=program.point(interval.schedule) if is_own else None,
            callback=interval.guarded(hear),
            should_stop=interval.guarded(must_stop or clock.must_stop),
        )
    if is_own and result.termination == "infeasible":
        raise SolverError("HiGHS found a program infeasible that contains the best schedule")
    hear(result)
    least = None if result.objective is None else base + round(result.objective)
    if result.termination == "infeasible" or (
        result.termination == "optimal" and least is not None and least >= interval.upper_bound
    ):
        # HiGHS has proved that no solution is better than the best schedule by 1 or more. Costs are
        # integers, so the best schedule is optimal.
        interval.prove(interval.upper_bound, PROGRAM, certified=False)
    interval.note_stop()


def close_makespan(interval: Interval, search: Search) -> None:
    """Find the least makespan by bisection, as far as time and size allow.

    A schedule with makespan at most T exists if and only if the integer program over all starts
    that complete by round T is feasible ([W25] Theorem EC.2). So each answer of HiGHS improves the
    lower or the upper bound, and no objective is needed. The present lower bound is the first T
    that is tested, because it is often the optimum. A program with the makespan as its objective
    (``build_model(..., goal="makespan")``) would have a very weak linear relaxation.

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
        if _is_too_large(interval, starts):
            return
        program = Program(starts)
        # The integer program only decides whether a schedule exists, so set its objective to 0.
        linear = replace(program.linear, costs=np.zeros_like(program.linear.costs), offset=0.0)
        result = solve_linear(linear, **search.solver_options())
        if result.values is not None:
            interval.offer(program.schedule(result.values))
        elif result.termination == "infeasible":
            interval.prove(probed + 1, PROGRAM, certified=False)
        else:
            interval.note_stop()
            return
        probed = (interval.lower_bound + interval.upper_bound - 1) // 2


def _is_too_large(interval: Interval, starts: StartSets) -> bool:
    """Return whether the program over ``starts`` is too large for HiGHS in the time left.

    If it is, record ``"size"`` as the reason why the solve ends.
    """
    most = min(MOST_ENTRIES, ENTRIES_PER_SECOND * interval.clock.seconds_left())
    entries = int(np.array(list(map(len, starts.starts))) @ starts.instance.output_lengths)
    is_too_large = max(entries, starts.optional * starts.horizon) > most
    if is_too_large:
        interval.stop_reason = "size"
    return bool(is_too_large)
