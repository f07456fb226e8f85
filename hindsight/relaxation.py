"""Relaxations of the hindsight integer program, with an exact lower bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from hindsight.exact.highs import solve_linear
from hindsight.exact.program import Program
from hindsight.exact.starts import LARGEST_RELAXATION, StartSets, all_starts, count_starts
from hindsight.outcomes.errors import SolverError
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import Progress, Relaxation
from hindsight.runtime.search import Search, refuse
from hindsight.schedules.lists import best_list_schedule
from hindsight.solving import solve_directly
from instances import Instance, Workload
from instances.problem.memory_translation import pooled
from instances.problem.workload import as_problem
from instances.progress import shows_progress
from instances.validation import as_choice, as_number

from .prices.tokens import PriceBound, PricedCosts, price_bound, round_prices
from .rounds.token_relaxation import TokenRelaxation

TOLERANCE = 0.01
"""Default relative accuracy of the lower bound at which the method ``"lagrangian"`` stops."""

BUILD_SECONDS_PER_ENTRY = 2e-6
"""Seconds to build a column of the linear program: one per (request, start) pair and per round."""

INTERIOR_POINT_FROM = 4_000
"""From this many start variables on, interior point (no crossover) is faster than simplex."""

REDUCED_COST_TOLERANCE = 1e-6
"""Later starts are added to the linear program if any has a reduced cost below -1 times this."""

Method = Literal["auto", "lp", "lagrangian"]


@shows_progress
def relax(
    problem: Workload | Instance,
    time_limit: float | None = None,
    *,
    method: Method = "auto",
    tolerance: float | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Any:
    """Solve the linear relaxation of the integer program, and prove a lower bound.

    This is Relax-LP, [W25] Equations (8)-(11), the relaxation of [J25] Equations (1)-(4).

    The method ``"lp"`` solves the linear program over all starts by HiGHS
    (`hindsight.exact.program`). The method ``"lagrangian"`` approaches the optimum of this program
    from below by dual ascent in the memory prices, without building the program
    (`hindsight.rounds.token_relaxation`). It takes instances of any size. It stops at the
    tolerance, the time limit or Ctrl-C, and returns the bound proved so far.

    For an instance with memory in blocks, both methods use the relaxed instance in tokens
    (`instances.problem.memory_translation.relaxed`). Its bounds and prices also hold for the
    instance in blocks. For K replicas they use one machine with K times the memory, which is also a
    relaxation (`instances.problem.memory_translation.pooled`).

    In a workload each round lasts as long as its batch takes. The result then contains a list
    schedule, and lower bounds in seconds on the total latency of every scheduler
    (`hindsight.seconds.solving`). ``method`` and ``tolerance`` are only for instances.

    Parameters
    ----------
    problem : Instance or Workload
        The problem: an instance, whose times are in rounds, or a workload, whose times are in
        seconds.
    time_limit : float or None, default None
        Time limit in seconds.
    method : {"auto", "lp", "lagrangian"}, default "auto"
        ``"auto"`` uses ``"lp"`` up to `LARGEST_RELAXATION` starts, and ``"lagrangian"`` for more
        starts or if HiGHS finds no optimal solution.
    tolerance : float or None, default None
        Estimated relative accuracy at which ``"lagrangian"`` stops. None means `TOLERANCE`.
    threads : int or None, default None
        Number of threads. None leaves the choice to each method.
    progress : Callable[[Progress], object] or bool or None, default None
        Called at every improvement of a bound. Returning True ends the computation. The reported
        ``upper_bound`` is infinite if there is no schedule. If ``progress`` is True, the bounds are
        displayed in a notebook or terminal.

    Returns
    -------
    Relaxation or Result
        A `Relaxation` of an instance, or a `Result` for a workload.

    Raises
    ------
    SolverError
        ``"lp"`` found no optimal solution within the time and size limits.
    InvalidValueError, InvalidTypeError
        A parameter is invalid.

    Examples
    --------
    >>> import hindsight
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> hindsight.relax(instance).certified_bound
    7
    """
    # Pass on all parameters: ``locals()`` maps their names to their values.
    return relax_until(None, **locals())


def relax_until(
    should_stop: Callable[[], bool] | None,
    problem: Workload | Instance,
    time_limit: float | None = None,
    *,
    method: str = "auto",
    tolerance: float | None = None,
    **options: Any,
) -> Any:
    """Do the same as `relax`, but end once ``should_stop`` returns True.

    ``should_stop`` is called many times per second. If it is None, Ctrl-C ends the computation.
    ``options`` are those of `Search`.
    """
    search = Search.checked(time_limit, should_stop, **options)
    instance = as_problem(problem)
    if isinstance(instance, Workload):
        reason = "requires an Instance, in rounds"
        refuse(reason, method=method != "auto", tolerance=tolerance is not None)
        return solve_directly(Problem(instance, preemption="keep"), search, anneal=False)
    as_choice(method, None, "method", get_args(Method))
    given, instance = instance, pooled(instance)
    asked = TOLERANCE if tolerance is None else as_number(tolerance, None, "tolerance", above=0)
    found = None
    if method == "lp" or (method == "auto" and _fits(instance)):
        try:
            found = _relax_by_rows(instance, search)
        except SolverError:
            if method == "lp":
                raise
    if found is None:
        with search.clock.listening():
            found = TokenRelaxation(instance, asked, search.clock, search.report).run()
    return found if given is instance else replace(found, instance=given)


def _fits(instance: Instance) -> bool:
    """Return whether the linear program over all starts has at most `LARGEST_RELAXATION` columns.

    It has a column for each pair of request and start, and for each round. The number of its rounds
    is estimated from the total volume of the requests: the tokens that they hold, summed over all
    rounds.
    """
    # The volume of a request is the sum over its rounds of the tokens that it holds. Add the
    # volumes as Python integers, because their sum may not fit into 64 bits.
    served: int = -(-sum(instance.volumes.tolist()) // instance.memory_limit)
    rounds = int(instance.arrival_times.max()) + max(served, int(instance.output_lengths.max()))
    return count_starts(instance, rounds) + rounds <= LARGEST_RELAXATION


def _relax_by_rows(instance: Instance, search: Search) -> Relaxation:
    """Solve the linear program over all starts by HiGHS.

    The program contains all starts with which requests complete by a last round, the horizon. It is
    solved again with a later horizon until all starts that it leaves out have reduced costs of at
    least 0, up to a tolerance. Then its optimum is that of the program with all starts.
    """
    clock = search.clock
    rounds = best_list_schedule(instance, clock.must_stop).makespan
    while True:
        count = count_starts(instance, rounds) + rounds
        if clock.must_stop() or BUILD_SECONDS_PER_ENTRY * count > clock.seconds_left():
            raise SolverError(f"no time left for a linear program of {count} starts and rounds")
        if count > 20 * LARGEST_RELAXATION:
            reason = "starts and rounds, too many for the memory of the computer"
            raise SolverError(f"the linear program would have {count} {reason}")
        starts = all_starts(instance, rounds)
        program = Program(starts, relax=True, differences=True)
        method = "ipm" if len(program.epochs) >= INTERIOR_POINT_FROM else "simplex"
        result = solve_linear(program.linear, method=method, **search.solver_options())
        values, objective, costs = result.values, result.objective, result.reduced_costs
        if result.termination != "optimal" or values is None or objective is None or costs is None:
            raise SolverError(f"HiGHS found no optimum of the relaxation: {result.termination}")
        # In the program, the memory W_r used in round r is a variable with the upper bound M. So
        # the price of a token of memory in round r is minus the reduced cost of W_r.
        prices = round_prices(-costs[-rounds:], instance)
        bound = price_bound(instance, prices)
        further = _horizon_needed(instance, starts, bound)
        if further <= rounds:
            break
        rounds = max(further, rounds + rounds // 4)
    return Relaxation(
        instance=instance,
        objective=objective,
        certified_bound=bound.bound,
        expected_start_times=program.mean_starts(values),
        prices=prices,
        runtime=clock.seconds(),
    )


def _horizon_needed(instance: Instance, starts: StartSets, bound: PriceBound) -> int:
    """Return the horizon that the linear program needs so that later starts do not lower its value.

    The horizon is the round by which all requests complete. A start with a later completion may
    lower the value only if its reduced cost is negative: at the prices in ``bound``, it is cheaper
    than every start of the same request in the program. The result is the last completion of such
    a start, or the present horizon if there is none.
    """
    costs = PricedCosts(instance, bound.prices)
    tolerance = REDUCED_COST_TOLERANCE * bound.prices.denominator
    needed = starts.horizon
    for index, request in enumerate(instance):
        first, priced = costs.of(index)
        inside = int(starts.starts[index][-1]) - first + 1
        if inside >= len(priced):
            continue
        cheaper = np.flatnonzero(priced[inside:] < int(priced[:inside].min()) - tolerance)
        if len(cheaper):
            needed = max(needed, first + inside + int(cheaper[-1]) + request.output_length)
    return needed
