"""The linear relaxation of the hindsight integer program, with an exact bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np

from hindsight.bounds.idle_gaps import compress
from hindsight.bounds.memory_prices import PriceBound, PricedCosts, price_bound, round_prices
from hindsight.heuristics.list_scheduling import best_list_schedule
from hindsight.integer_program.highs import (
    CompiledModel,
    LinearResult,
    Termination,
    compile_model,
    solve_linear,
)
from hindsight.integer_program.horizon import THOROUGH_UP_TO
from hindsight.integer_program.models import BUILDERS, Formulation, start_weights
from hindsight.integer_program.starts import StartSets, all_starts, count_starts
from hindsight.outcomes.errors import SolverError
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.results import Relaxation, RelaxationProgress
from hindsight.runtime.clock import Clock
from hindsight.runtime.compilation import tells_of_compiling
from hindsight.runtime.search import Search
from hindsight.seconds.results import SecondsProgress, SecondsResult
from hindsight.seconds.solving import refuse_in_seconds, solve_seconds
from instances import Instance, InvalidValueError, Workload
from instances.problem.memory_translation import pooled
from instances.problem.workload import as_problem
from instances.progress import shows_progress
from instances.validation import as_number

from .scale import ScaleRelaxation

METHODS = ("auto", "lp", "lagrangian")

LARGEST_RELAXATION = 400_000
"""Most starts for which the row-by-row relaxation is attempted."""

TOLERANCE = 0.01
"""Default relative accuracy at which the method for scale stops."""

LONGEST_AXIS = 2**20
"""Most rounds, with gaps, up to the last arrival that have a price each."""

BUILD_SECONDS_PER_ENTRY = 3e-5
"""Rough seconds per start or round to build and compile the sparse model."""

INTERIOR_POINT_FROM = 4_000
"""Least starts for which interior point without crossover is faster than simplex."""

REDUCED_COST_TOLERANCE = 1e-6
"""Reduced costs above minus this value count as non-negative when the horizon is extended."""


@overload
def relax(
    instance: Instance,
    formulation: Formulation = "sparse",
    *,
    method: Literal["auto", "lp", "lagrangian"] = "auto",
    tolerance: float | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    progress: Callable[[RelaxationProgress], None] | bool | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Relaxation: ...


@overload
def relax(
    instance: Workload,
    *,
    time_limit: float | None = None,
    threads: int | None = None,
    progress: Callable[[SecondsProgress], None] | bool | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SecondsResult: ...


@shows_progress
@tells_of_compiling
def relax(
    instance: Workload | Instance,
    formulation: Formulation = "sparse",
    *,
    method: Literal["auto", "lp", "lagrangian"] = "auto",
    tolerance: float | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    progress: Callable[[Any], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Relaxation | SecondsResult:
    """Solve the relaxation of [J25] Equations (1)-(4): Relax-LP, [W25] Equations (8)-(11).

    ``"lp"`` gives the model of all starts to HiGHS. ``"lagrangian"`` approaches the same value from
    below by ascent in the memory prices and needs no model (`hindsight.relaxation.scale`): it takes
    any size, stops at the tolerance, the time limit, ``should_stop`` or Ctrl-C, and returns what is
    proved so far.

    For an instance whose memory is not counted in tokens, the relaxed instance in tokens is used
    (`instances.problem.memory_translation.relaxed`); its bounds and prices hold for both. For K
    replicas one machine with K times the memory is used, likewise a relaxation in rounds
    (`instances.problem.memory_translation.pooled`).

    In a workload each round lasts as long as its batch takes. The result then has lower bounds on
    the total latency in seconds of every scheduler, and list schedules
    (`hindsight.seconds.solving`). An instance alone takes ``formulation``, ``method`` and
    ``tolerance``.

    Parameters
    ----------
    instance : Instance or Workload
        The problem: an instance in rounds, or a workload with its batch time in seconds.
    formulation : Formulation, default "sparse"
        Which of two equivalent models ``"lp"`` solves.
    method : {"auto", "lp", "lagrangian"}, default "auto"
        ``"auto"`` uses ``"lp"`` up to `LARGEST_RELAXATION` starts, and ``"lagrangian"`` beyond them
        or if HiGHS finds no optimal solution.
    tolerance : float or None, default None
        Relative accuracy at which ``"lagrangian"`` stops, an estimate; None is `TOLERANCE`.
    time_limit : float or None, default None
        Seconds.
    threads : int or None, default None
        HiGHS threads.
    progress : Callable[[Any], None] or bool or None, default None
        Callback: ``"lagrangian"`` calls it with a `RelaxationProgress` at every stage; of
        a workload it gets a `SecondsProgress` at every improvement. True displays it in a notebook
        or terminal.
    should_stop : Callable[[], bool] or None, default None
        Polled; returning True interrupts. With None, ``"lagrangian"`` handles Ctrl-C itself.

    Raises
    ------
    SolverError
        ``"lp"`` found no optimal solution within the limits.
    InvalidValueError, InvalidTypeError
        An unknown formulation or method, a tolerance that is not a positive number, or a time limit
        that is not a number >= 0.

    Examples
    --------
    >>> import hindsight
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> hindsight.relax(instance).certified_bound
    7
    """
    instance = as_problem(instance)
    if isinstance(instance, Workload):
        refuse_in_seconds(
            formulation=formulation != "sparse",
            method=method != "auto",
            tolerance=tolerance is not None,
        )
        search = Search.checked(time_limit, should_stop, threads=threads, progress=progress)
        return solve_seconds(instance, search, anneal=False)
    given = instance
    instance = pooled(instance)
    if formulation not in BUILDERS:
        known = ", ".join(BUILDERS)
        raise InvalidValueError(None, "formulation", formulation, f"is not one of {known}")
    if method not in METHODS:
        raise InvalidValueError(None, "method", method, f"is not one of {', '.join(METHODS)}")
    search = Search.checked(time_limit, should_stop, threads=threads, progress=progress)
    asked = TOLERANCE if tolerance is None else as_number(tolerance, None, "tolerance", above=0)
    found = None
    if method == "lp" or (method == "auto" and _fits(instance)):
        try:
            found = _relax_by_rows(instance, formulation, search)
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
        run = ScaleRelaxation(
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


def _relax_by_rows(instance: Instance, formulation: Formulation, search: Search) -> Relaxation:
    clock = search.clock
    rounds = _first_rounds(instance, clock)
    _refuse_the_hopeless(instance, rounds)
    while True:
        starts = all_starts(instance, rounds)
        if BUILD_SECONDS_PER_ENTRY * (starts.count + rounds) > clock.seconds_left():
            raise SolverError("the relaxation would take longer to build than there is time")
        compiled, result = _solve(starts, formulation, search)
        prices = round_prices(_memory_prices(compiled, result, formulation, rounds), instance)
        bound = price_bound(instance, prices)
        further = _horizon_needed(instance, starts, bound)
        if further <= rounds:
            break
        rounds = max(further, rounds + rounds // 4)
    assert result.values is not None
    assert result.objective is not None
    weights = start_weights(starts, compiled, result.values)
    return Relaxation(
        instance=instance,
        objective=result.objective,
        certified_bound=bound.bound,
        # Interior solutions leave tiny weights; the average is still a weighted mean of starts.
        expected_start_times=np.array([_mean(shares) for shares in weights]),
        memory_prices=prices,
        horizon=rounds,
        runtime=clock.seconds(),
    )


def _mean(weights: Mapping[int, float]) -> float:
    starts, shares = np.array(sorted(weights.items())).T
    return float(np.average(starts, weights=shares))


def _first_rounds(instance: Instance, clock: Clock) -> int:
    """Return the makespan of a list schedule."""
    thorough = len(instance) <= THOROUGH_UP_TO
    schedule = best_list_schedule(instance, thorough=thorough, should_stop=clock.must_stop)
    if clock.must_stop():
        raise SolverError("the relaxation was stopped before it was built")
    return schedule.makespan


def _refuse_the_hopeless(instance: Instance, rounds: int) -> None:
    count = count_starts(instance, rounds)
    if count + rounds > 20 * LARGEST_RELAXATION:
        raise SolverError(
            f"the row-by-row relaxation would have {count} starts over {rounds} rounds, "
            "more than memory holds"
        )


def _solve(
    starts: StartSets, formulation: Formulation, search: Search
) -> tuple[CompiledModel, LinearResult]:
    clock = search.clock
    begun = clock.seconds()
    model = BUILDERS[formulation](starts, relax=True)
    # Compiling takes about as long again, and cannot be interrupted.
    if clock.seconds_left() < clock.seconds() - begun or clock.must_stop():
        raise SolverError("the relaxation took longer to build than there was time")
    compiled = compile_model(model)
    interior = starts.count >= INTERIOR_POINT_FROM
    result = solve_linear(
        compiled.linear,
        time_limit=clock.limit_left(),
        threads=search.threads,
        method="ipm" if interior else "simplex",
        should_stop=clock.must_stop,
    )
    if result.termination is not Termination.OPTIMAL or result.row_duals is None:
        raise SolverError(f"the relaxation ended as {result.termination.value}")
    return compiled, result


def _memory_prices(
    compiled: CompiledModel, result: LinearResult, formulation: Formulation, horizon: int
) -> np.ndarray:
    """Return lambda_r >= 0 for rounds 1 .. horizon, shape (horizon,)."""
    assert result.row_duals is not None
    assert result.column_duals is not None
    prices = np.zeros(horizon)
    if formulation == "dense":
        for (name, index), dual in zip(compiled.rows, result.row_duals, strict=True):
            if name == "memory":
                prices[index - 1] = -dual
    else:
        # There W_r <= M is a column bound: its price is the reduced cost.
        for (name, index), dual in zip(compiled.columns, result.column_duals, strict=True):
            if name == "memory_used":
                prices[index - 1] = -dual
    return prices


def _horizon_needed(instance: Instance, starts: StartSets, bound: PriceBound) -> int:
    """Return the last completion of a start outside the model with negative reduced cost.

    Inside the model, a request costs the cheapest of its modelled starts. A start outside it that
    is cheaper under the same prices could lower the objective.
    """
    prices: MemoryPrices = bound.prices
    costs = PricedCosts(instance, prices)
    tolerance = REDUCED_COST_TOLERANCE * prices.denominator
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
