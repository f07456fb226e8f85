"""The linear relaxation of the hindsight integer program, with an exact bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np

from hindsight.direct import solve_directly
from hindsight.exact.highs import LinearResult, solve_linear
from hindsight.exact.horizon import THOROUGH_UP_TO
from hindsight.exact.program import Program
from hindsight.exact.starts import LARGEST_RELAXATION, StartSets, all_starts, count_starts
from hindsight.outcomes.errors import SolverError
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.relaxation import Relaxation
from hindsight.outcomes.result import Progress, Result
from hindsight.runtime.compilation import tells_of_compiling
from hindsight.runtime.search import Search, refuse
from hindsight.schedules.lists import best_list_schedule
from instances import Instance, InvalidValueError, Workload
from instances.problem.memory_translation import pooled
from instances.problem.workload import as_problem
from instances.progress import shows_progress
from instances.validation import as_number

from .prices.idle_gaps import compress
from .prices.state_ascent import LARGEST_MEMORY_LIMIT, StateAscent, fits
from .prices.state_proofs import StatePrices
from .prices.states import exact_bound
from .prices.tokens import PriceBound, PricedCosts, price_bound, round_prices
from .rounds.token_relaxation import TokenRelaxation

TOLERANCE = 0.01
"""Default relative accuracy at which the method for scale stops."""

LONGEST_AXIS = 2**20
"""Most rounds, with gaps, up to the last arrival that have a price each."""

BUILD_SECONDS_PER_ENTRY = 2e-6
"""Rough seconds to build the arrays, for each start or round."""

INTERIOR_POINT_FROM = 4_000
"""Least starts for which interior point without crossover is faster than simplex."""

LARGEST_STRENGTHENED = 100_000_000
"""Most entries of the prices, T (M + 1)^2, of a relaxation by what runs together: 0.8 GB."""

REDUCED_COST_TOLERANCE = 1e-6
"""Reduced costs above minus this value count as non-negative when the horizon is extended."""


STATE_STEPS = 120
"""Steps of the ascent in prices of what runs together, some ten milliseconds at 25 requests."""

METHODS = ("auto", "lp", "lagrangian", "states")

Method = Literal["auto", "lp", "lagrangian", "states"]


@overload
def relax(
    problem: Instance,
    time_limit: float | None = None,
    *,
    method: Method = "auto",
    tolerance: float | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], object] | bool | None = None,
) -> Relaxation: ...


@overload
def relax(
    problem: Workload,
    time_limit: float | None = None,
    *,
    threads: int | None = None,
    progress: Callable[[Progress], object] | bool | None = None,
) -> Result: ...


@shows_progress
def relax(
    problem: Workload | Instance,
    time_limit: float | None = None,
    *,
    method: Method = "auto",
    tolerance: float | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Relaxation | Result:
    """Solve the relaxation of [J25] Equations (1)-(4): Relax-LP, [W25] Equations (8)-(11).

    ``"lp"`` gives the program of all starts to HiGHS (`hindsight.exact.program`).
    ``"lagrangian"`` approaches the same value from below by ascent in the memory prices and needs
    no model (`hindsight.rounds.token_relaxation`): it takes any size, stops at the tolerance,
    the time limit or Ctrl-C, and returns what is proved so far. ``"states"`` is much tighter: not
    only memory round by round, but every multiset of requests that cannot run together counts
    (`hindsight.prices.state_ascent`). At the maximum of its smoothed dual the Gibbs weights of the
    starts use every state just as often as the Gibbs weights of the configurations provide it, so
    they are a fractional schedule, up to what the ascent leaves undone. It takes one machine in
    tokens, M up to 255 and equal weights.

    For an instance in blocks the others use the relaxed instance in tokens
    (`instances.problem.memory_translation.relaxed`); its bounds and prices hold for both. For K
    replicas they use one machine with K times the memory, likewise a relaxation in rounds
    (`instances.problem.memory_translation.pooled`).

    In a workload each round lasts as long as its batch takes. The result then has lower bounds on
    the total latency in seconds of every scheduler, and list schedules
    (`hindsight.seconds.solving`). ``method`` and ``tolerance`` are for instances.

    Parameters
    ----------
    problem : Instance or Workload
        The problem: an instance in rounds, or a workload with its batch time in seconds.
    time_limit : float or None, default None
        Seconds.
    method : {"auto", "lp", "lagrangian", "states"}, default "auto"
        ``"auto"`` uses ``"lp"`` up to `LARGEST_RELAXATION` starts, and ``"lagrangian"`` beyond them
        or if HiGHS finds no optimal solution.
    tolerance : float or None, default None
        Relative accuracy at which ``"lagrangian"`` stops, an estimate; None is `TOLERANCE`.
    threads : int or None, default None
        Threads.
    progress : Callable[[Progress], object] or bool or None, default None
        Called at every improvement; returning True ends it. ``upper_bound`` is infinite without a
        schedule. True displays it in a notebook or terminal.

    Raises
    ------
    SolverError
        ``"lp"`` found no optimal solution within the limits.
    InvalidValueError, InvalidTypeError
        A parameter is invalid; or for ``"states"`` some weight is not 1, M is above
        `LARGEST_MEMORY_LIMIT`, or there are too many rounds for M (T (M + 1)^2 above
        `LARGEST_STRENGTHENED`).

    Examples
    --------
    >>> import hindsight
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> hindsight.relax(instance).certified_bound
    7
    """
    options: Any = {"threads": threads, "progress": progress}
    found: Relaxation | Result = relax_until(
        None, problem, time_limit, method=method, tolerance=tolerance, **options
    )
    return found


@tells_of_compiling
def relax_until(
    should_stop: Callable[[], bool] | None,
    problem: Workload | Instance,
    time_limit: float | None = None,
    *,
    method: str = "auto",
    tolerance: float | None = None,
    **options: Any,
) -> Any:
    """Do as `relax` does, and end once ``should_stop``, which is polled, returns True.

    With None, Ctrl-C ends it. ``options`` are those of `Search`.
    """
    search = Search.checked(time_limit, should_stop, **options)
    instance = as_problem(problem)
    if isinstance(instance, Workload):
        reason = "is for an Instance, in rounds"
        refuse(reason, method=method != "auto", tolerance=tolerance is not None)
        return solve_directly(Problem(instance, preemption="keep"), search, anneal=False)
    if method not in METHODS:
        raise InvalidValueError(None, "method", method, f"is not one of {', '.join(METHODS)}")
    if method == "states":
        refuse("is for the method 'lagrangian'", tolerance=tolerance is not None)
        return _relax_by_states(instance, search)
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
        found = _relax_by_prices(instance, asked, search)
    return found if given is instance else replace(found, instance=given)


def _relax_by_prices(instance: Instance, tolerance: float, search: Search) -> Relaxation:
    """Relax by ascent in the prices, without idle gaps if the last arrival is very late.

    The optimum is the same with and without gaps. The prices then belong to the rounds of
    ``compress(instance).instance``.
    """
    is_long = int(instance.arrival_times.max()) > LONGEST_AXIS
    compressed = compress(instance) if is_long else None
    with search.clock.listening():
        run = TokenRelaxation(
            instance if compressed is None else compressed.instance,
            tolerance=tolerance,
            progress=search.progress,
            clock=search.clock,
        )
        run.go_on()
        found = run.result()
    if compressed is None:
        return found
    return replace(
        found,
        instance=instance,
        expected_start_times=found.expected_start_times + compressed.shifts,
        horizon=found.horizon + int(compressed.shifts.max()),
    )


def _fits(instance: Instance) -> bool:
    """Tell whether the row-by-row model is small, judged by the volume alone."""
    # Use Python's integers: a few volumes may exceed 64 bits.
    served = -(-sum(instance.volumes.tolist()) // instance.memory_limit)
    rounds = int(instance.arrival_times.max()) + max(served, int(instance.output_lengths.max()))
    fits: bool = count_starts(instance, rounds) + rounds <= LARGEST_RELAXATION
    return fits


def _relax_by_rows(instance: Instance, search: Search) -> Relaxation:
    """Solve the program of all starts, up to a horizon beyond which no start is cheaper."""
    clock, thorough = search.clock, len(instance) <= THOROUGH_UP_TO
    schedule = best_list_schedule(instance, thorough=thorough, should_stop=clock.must_stop)
    rounds = schedule.makespan
    while True:
        count = count_starts(instance, rounds) + rounds
        if clock.must_stop() or BUILD_SECONDS_PER_ENTRY * count > clock.seconds_left():
            raise SolverError("the relaxation was stopped before it was built")
        if count > 20 * LARGEST_RELAXATION:
            reason = "starts and rounds, more than memory holds"
            raise SolverError(f"the row-by-row relaxation would have {count} {reason}")
        starts = all_starts(instance, rounds)
        program = Program(starts, relax=True, differences=True)
        result = _solve(program, search)
        assert result.values is not None
        assert result.objective is not None
        assert result.reduced_costs is not None
        # W_r <= M is a bound of a column, so its price is a reduced cost.
        prices = round_prices(-result.reduced_costs[-rounds:], instance)
        bound = price_bound(instance, prices)
        further = _horizon_needed(instance, starts, bound)
        if further <= rounds:
            break
        rounds = max(further, rounds + rounds // 4)
    return Relaxation(
        instance=instance,
        objective=result.objective,
        certified_bound=bound.bound,
        expected_start_times=program.mean_starts(result.values),
        prices=prices,
        horizon=rounds,
        runtime=clock.seconds(),
    )


def _solve(program: Program, search: Search) -> LinearResult:
    """Give the relaxation to HiGHS, and require an optimal solution."""
    interior = len(program.epochs) >= INTERIOR_POINT_FROM
    result = solve_linear(
        program.linear,
        time_limit=search.clock.limit_left(),
        threads=search.threads,
        method="ipm" if interior else "simplex",
        should_stop=search.clock.must_stop,
    )
    if result.termination != "optimal" or result.reduced_costs is None:
        raise SolverError(f"the relaxation ended as {result.termination}")
    return result


def _horizon_needed(instance: Instance, starts: StartSets, bound: PriceBound) -> int:
    """Return the last completion of a start outside the model with negative reduced cost.

    Inside the model, a request costs the cheapest of its modelled starts. A start outside it that
    is cheaper under the same prices could lower the objective.
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


def _relax_by_states(instance: Instance, search: Search) -> Relaxation:
    """Ascend in prices of what runs together, and read off fractional starts."""
    instance.require_tokens()
    instance.refuse_weights("is not 1: prices of what runs together count every request alike")
    limit = instance.memory_limit
    if limit > LARGEST_MEMORY_LIMIT:
        raise InvalidValueError(
            instance.name,
            "memory_limit",
            limit,
            f"is above {LARGEST_MEMORY_LIMIT}: too large for tables; scale token counts down",
        )
    makespan = best_list_schedule(instance).makespan
    if not fits(instance, makespan, LARGEST_STRENGTHENED):
        rounds = max(makespan, int(instance.arrival_times.max())) + 1
        reason = f"times (M + 1)^2 = {(limit + 1) ** 2} exceeds {LARGEST_STRENGTHENED}"
        raise InvalidValueError(instance.name, "rounds", rounds, reason)
    clock = search.clock
    with clock.listening():
        ascent = StateAscent(instance, makespan, threads=search.cores, must_stop=clock.must_stop)
        for steps in (0, STATE_STEPS):
            if steps:
                ascent.improve(steps, must_stop=clock.must_stop)
            prices, capacities = ascent.integer_prices()
            bound, weights = exact_bound(prices, instance), ascent.start_weights()
            ends = (
                clock.seconds(),
                "prices",
                bound,
                math.inf,
                1.0,
                steps,
                f"at least {bound} rounds",
            )
            if search.progress is not None and search.progress(Progress(*ends)) is True:
                clock.interrupt()
    return Relaxation(
        instance=instance,
        objective=float(bound),
        certified_bound=bound,
        expected_start_times=weights @ np.arange(weights.shape[1]),
        prices=StatePrices(prices),
        horizon=len(capacities),
        runtime=clock.seconds(),
        method="states",
        iterations=STATE_STEPS,
        stop_reason=clock.stop_reason(),
    )
