"""The optimum of an instance, or a certified interval around it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from instances import Instance, Schedule, SecondsSchedule, UnknownNameError, Workload
from instances.batch_time import BatchTime
from instances.errors import InvalidTypeError, InvalidValueError
from instances.problem.memory_rule import TOKENS
from instances.problem.preemptive_schedule import AnySchedule, PreemptiveSchedule
from instances.progress import shows_progress
from instances.sources import PACKAGES
from instances.user_modules import described
from instances.validation import as_flag, as_integer, as_number, as_time_limit

from .configurations.proofs import StatePrices
from .extensions.bounds import BOUNDS, AnyBound, OwnBound
from .extensions.cuts import CUTS, AnyCut, labels
from .integer_program.models import BUILDERS, Formulation
from .memory_rules import solve_in_blocks, solve_in_single_tokens
from .outcomes.proofs import Proof
from .outcomes.results import (
    OBJECTIVES,
    PREEMPTIVE,
    Goal,
    Objective,
    PreemptiveResult,
    Progress,
    SolveResult,
)
from .outcomes.solve_state import SolveState
from .relaxation.methods import LARGEST_RELAXATION
from .runtime.clock import Clock
from .seconds.results import SecondsProgress, SecondsResult
from .seconds.solving import refuse_beside_batch_time, require_instance, solve_in_seconds
from .strategies.beams import Beams
from .strategies.configurations import Configurations
from .strategies.counts import Counts
from .strategies.makespan import Makespan
from .strategies.mip import IntegerProgram
from .strategies.openings import OPENINGS, Opening
from .strategies.paths import Paths
from .strategies.preemptive import Preemptive
from .strategies.registry import STRATEGIES
from .strategies.strategy import Problem, Strategy

if TYPE_CHECKING:
    import pyomo.environ as pyo

    from .integer_program.own_models import ModelResult

Value = TypeVar("Value")

METHODS: dict[str, tuple[Strategy, ...]] = {
    "auto": (
        Paths(),
        Counts(),
        IntegerProgram(most_starts=LARGEST_RELAXATION),
        Beams(),
        Makespan(),
        Preemptive(),
    ),
    "paths": (Paths(),),
    "configurations": (Configurations(),),
    "counts": (Counts(),),
    "mip": (IntegerProgram(), Makespan()),
    "beams": (Beams(),),
}
"""The strategies of each method, in the order in which they are tried."""

USUAL_SHARE = 0.75
"""Of the time, for what is proved without the user's cuts; the rest is for what uses them."""

UNLIMITED_TURN = 240.0
"""Seconds that the two share where there is no limit, before the usual methods go on alone."""


@overload
def solve(
    instance: Instance,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    *,
    objective: Objective = "total_latency",
    method: str | Strategy = "auto",
    formulation: Formulation = "dense",
    start: AnySchedule | None = None,
    preemptive: bool = False,
    batch_time: None = None,
    gap: float = 0.0,
    bounds: AnyBound | Iterable[AnyBound] = (),
    cuts: AnyCut | Iterable[AnyCut] = (),
    model: None = None,
    progress: Callable[[Progress], None] | bool | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SolveResult: ...


@overload
def solve(
    instance: Instance,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    *,
    model: pyo.ConcreteModel,
    should_stop: Callable[[], bool] | None = None,
) -> ModelResult: ...


@overload
def solve(
    instance: Workload | Instance,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    *,
    batch_time: BatchTime,
    start: SecondsSchedule | None = None,
    gap: float = 0.0,
    progress: Callable[[SecondsProgress], None] | bool | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SecondsResult: ...


@shows_progress
def solve(
    instance: Workload | Instance,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    *,
    objective: Objective = "total_latency",
    method: str | Strategy = "auto",
    formulation: Formulation = "dense",
    start: AnySchedule | SecondsSchedule | None = None,
    preemptive: bool = False,
    batch_time: BatchTime | None = None,
    gap: float = 0.0,
    bounds: AnyBound | Iterable[AnyBound] = (),
    cuts: AnyCut | Iterable[AnyCut] = (),
    model: pyo.ConcreteModel | None = None,
    progress: Callable[[Any], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SolveResult | SecondsResult | ModelResult:
    """Minimise total latency, or the makespan, knowing the future ([J25] Section 3).

    List schedules give the first upper bound, exact memory prices the first lower bound and a
    horizon. Then strategies go on until the bounds meet:

    * ``"paths"``: annealed schedules, prices of what runs together, and paths through what these
      leave, all bounds in integers (`hindsight.strategies.paths`); needs a small M.
    * ``"configurations"``: annealed schedules, prices of what runs together and an exact search
      pruned by them, all bounds in integers (`hindsight.strategies.configurations`); needs a small
      M.
    * ``"counts"``: annealed schedules, and a branch and bound over how many requests of a class
      start when, all bounds in integers (`hindsight.strategies.counts`); needs few rounds.
    * ``"mip"``: the integer program itself in HiGHS, warm-started, over the starts that the
      reduced costs of its relaxation leave (`hindsight.strategies.mip`).
    * ``"beams"``: schedules alone, by beam searches and then by ruin and recreate
      (`hindsight.strategies.beams`), at any size; the lower bound comes from prices.

    The makespan, the last completion round, is found by bisection instead: HiGHS decides whether
    everything can complete by a given round (`hindsight.strategies.makespan`).

    With ``preemptive`` requests may be stopped between rounds and keep their tokens. A stopped
    request holds no memory, and going on costs nothing (`instances.PreemptiveSchedule`). That
    optimum is at most the one without preemption, and has a search of its own
    (`hindsight.strategies.preemptive`).

    Ctrl-C or the time limit end each of them with the interval found so far; so does a second
    Ctrl-C, at once.

    Where memory is not counted in tokens (`instances.MemoryRule`), bounds come from an instance in
    tokens below and schedules from one above, and small instances are proved by the integer program
    (`hindsight.memory_rules`).

    With ``batch_time`` rounds last as long as it says, and the least total latency in seconds of
    every scheduler is enclosed instead (`hindsight.seconds.solving`): the result is a
    `SecondsResult`.

    What others bring counts for what it is. A bound or a cut of the user's is a claim, and so is a
    lower bound that a strategy of the user's raises: what rests on it is reported apart, as
    ``conditional_lower_bound``, and ``lower_bound`` is what is proved without it. No claim ends a
    search that goes on to a proof. Prices are a proof, and evaluated. With ``model``, a
    `build_model` with rows of the user's added, that model is solved instead, and the result is a
    `ModelResult`.

    Parameters
    ----------
    instance : Workload or Instance
        The problem. A workload needs a batch time; with one, the arrival times of an instance count
        as seconds.
    time_limit : float or None, default None
        Seconds for everything, or None.
    threads : int or None, default None
        Of HiGHS, of the price ascent and of graphs of paths, which do not depend on their number,
        and of ruin and recreate; from two on, a further one improves schedules beside graphs. None
        is HiGHS's choice, and every core for the others.
    seed : int, default 0
        Of every random choice.
    objective : Objective, default "total_latency"
        ``"total_latency"`` or ``"makespan"``; all bounds of the result are of it.
    method : str or Strategy, default "auto"
        ``"paths"``, ``"configurations"``, ``"counts"``, ``"mip"``,
        ``"beams"``, or ``"auto"``: the first of paths, counts, integer program and beams that does
        not refuse the instance, and the next where it gives up. Or a strategy of your own, by its
        name (`hindsight.register_strategy`) or as ``FILE.py:NAME``; or its class, or an object,
        such as ``hindsight.strategies.beams.Beams(patience=20)``. Only the integer program
        minimises the makespan; none of these names minimises with preemption, which ``"auto"``
        does.
    formulation : Formulation, default "dense"
        The model of ``"mip"``.
    start : Schedule or PreemptiveSchedule or SecondsSchedule or None, default None
        A feasible schedule of the kind that is looked for to start from, besides the list
        schedules.
    preemptive : bool, default False
        Whether the preemptive optimum is meant; only of total latency. The result is a
        `PreemptiveResult` then.
    batch_time : BatchTime or None, default None
        Seconds of a round; None minimises in rounds. With one, ``objective``, ``method``,
        ``formulation`` and ``preemptive`` are refused: every scheduler is meant.
    gap : float, default 0.0
        Where (upper - lower) / upper is no more, nothing further is looked for, 0 to 1.
    bounds : AnyBound or Iterable[AnyBound], optional
        Lower bounds of your own, by name (`hindsight.register_bound`), as functions or as
        ``FILE.py:NAME``. The ascent of ``"paths"`` and ``"configurations"`` begins from the best
        prices of what runs together among them: ``lambda instance: result.proof`` goes on from
        where a solve ended.
    cuts : AnyCut or Iterable[AnyCut], optional
        Rows of your own, likewise (`hindsight.register_cut`), for strategies that use them: of this
        package the integer program. ``"auto"`` gives it a quarter of the time, after the usual
        methods without the rows; where there is no limit a minute, after their first three.
    model : pyo.ConcreteModel or None, default None
        What `build_model` made of the instance, with rows added. Beside it only ``time_limit``,
        ``threads``, ``seed`` and ``should_stop`` are taken.
    progress : Callable[[Any], None] or bool or None, default None
        Told of every improvement: by a `Progress`, or a `SecondsProgress` with a batch time. True
        shows the interval as it shrinks, in a notebook or a terminal.
    should_stop : Callable[[], bool] or None, default None
        Polled; True interrupts. None listens to Ctrl-C.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A bad parameter, an infeasible ``start``, or a method that cannot be used here; or a
        strategy of your own fails, by an error of any kind: the message tells its line.
    SolverError
        HiGHS failed.
    """
    gap = as_number(gap, None, "gap", minimum=0, maximum=1)
    own_bounds, own_cuts = BOUNDS.all_of(bounds), CUTS.all_of(cuts)
    if batch_time is not None:
        refuse_beside_batch_time(
            objective=objective != "total_latency",
            method=method != "auto",
            formulation=formulation != "dense",
            preemptive=preemptive is not False,
            bounds=bool(own_bounds),
            cuts=bool(own_cuts),
            model=model is not None,
        )
        return solve_in_seconds(
            instance,
            batch_time,
            time_limit,
            seed=seed,
            threads=threads,
            start=cast(Any, start),
            gap=gap,
            progress=progress,
            should_stop=should_stop,
        )
    instance = require_instance(instance)
    clock = Clock(as_time_limit(time_limit), should_stop)
    if threads is not None:
        threads = as_integer(threads, None, "threads", minimum=1)
    seed = as_integer(seed, None, "seed", minimum=0)
    if model is not None:
        if (objective, method, formulation, start, preemptive) != (
            *("total_latency", "auto", "dense", None, False),
        ) or any((own_bounds, own_cuts, gap, progress)):
            reason = "takes time_limit, threads, seed and should_stop beside it, and nothing else"
            raise InvalidValueError(None, "model", str(model.name), reason)
        from .integer_program.own_models import solve_model

        with clock.listening():
            return solve_model(instance, model, clock, threads, seed)
    if formulation not in BUILDERS:
        raise InvalidValueError(
            None, "formulation", formulation, f"is not one of {', '.join(BUILDERS)}"
        )
    if objective not in OBJECTIVES:
        known = ", ".join(OBJECTIVES)
        raise InvalidValueError(None, "objective", objective, f"is not one of {known}")
    goal: Goal = objective
    if as_flag(preemptive, None, "preemptive"):
        if objective != "total_latency":
            reason = "is not minimised with preemption"
            raise InvalidValueError(None, "objective", objective, reason)
        goal = PREEMPTIVE
    strategies = strategies_for(method, goal)
    if own_cuts:
        if not any(map(_uses_cuts, strategies)):
            reason = "are rows of the integer program, which this method does not use: take mip"
            raise InvalidValueError(None, "cuts", ", ".join(labels(own_cuts)), reason)
        if formulation != "dense":
            reason = "shares columns between identical requests, which cuts name: take dense"
            raise InvalidValueError(None, "formulation", formulation, reason)
    if own_bounds or own_cuts:
        instance.require_tokens()
    for bound in own_bounds:
        if not bound.holds_of(goal):
            reason = f"is of the {bound.goal.replace('_', ' ')}"
            raise InvalidValueError(None, "bound", bound.name, reason)
    if start is not None:
        start = _checked_start(
            instance, start, (Schedule, PreemptiveSchedule) if preemptive else (Schedule,)
        )
    if instance.memory_rule != TOKENS:
        in_tokens = partial(
            solve,
            threads=threads,
            seed=seed,
            objective=objective,
            formulation=formulation,
            preemptive=preemptive,
        )
        if instance.memory_rule.block_size == 1:
            alike = partial(in_tokens, time_limit=clock.limit_left(), method=method, gap=gap)
            alike = partial(alike, progress=progress, should_stop=should_stop)
            return solve_in_single_tokens(instance, cast(Any, start), alike)
        problem = Problem(instance, goal, None, threads, seed)
        return solve_in_blocks(
            problem,
            cast(Any, in_tokens),
            clock,
            method=method,
            start=start,
            progress=progress,
            gap=gap,
        )
    opening = OPENINGS[goal](instance)
    proved: tuple[int, Proof] | None = None
    with clock.listening():
        state = SolveState(opening.instance, clock, _moved_by(opening.offset, progress), goal, gap)
        with state.kept_when_interrupted():
            first_bounds = opening.begin(state, start)
            proved = _take_bounds(own_bounds, instance, opening, state)
            prices = None if proved is None else opening.prices_of(proved[1])
            problem = Problem(
                *(opening.instance, goal, first_bounds, threads, seed, formulation, own_cuts),
                prices=prices,
            )
            (_run_with_cuts if own_cuts else _run)(strategies, problem, state)
        state.raise_kept_error()
        proof = opening.restored_proof(state.proof)
        if proved is not None and proved[0] == state.certified_lower_bound + opening.offset:
            # The search proved no more than these prices do.
            state.root_bound, proof = state.certified_lower_bound, proved[1]
        is_claimed = state.conditional_lower_bound > state.lower_bound
        return (PreemptiveResult if preemptive else SolveResult)(
            instance=instance,
            schedule=cast(Any, opening.restore(state.best)),
            lower_bound=state.lower_bound + opening.offset,
            certified_lower_bound=state.certified_lower_bound + opening.offset,
            stop_reason=state.stop_reason,
            runtime=clock.seconds(),
            nodes=state.nodes,
            horizon=opening.horizon(state),
            root_bound=None if state.root_bound is None else state.root_bound + opening.offset,
            log=tuple(line.moved(opening.offset) for line in state.log),
            proof=proof,
            objective=objective,
            conditional_lower_bound=(
                state.conditional_lower_bound + opening.offset if is_claimed else None
            ),
            conditions=state.conditions if is_claimed else (),
        )


def _take_bounds(
    bounds: tuple[OwnBound, ...], instance: Instance, opening: Opening, state: SolveState
) -> tuple[int, Proof] | None:
    """Have the user's bounds count, each for what it is; the best of those with prices."""
    best: tuple[int, Proof] | None = None
    for bound in bounds:
        value = bound.of(instance)
        if isinstance(value, int):
            state.raise_conditional(value - opening.offset, (bound.label,))
            continue
        proved = proved_value(bound, value, instance, state.objective)
        state.raise_lower(proved - opening.offset, certified=True)
        if (state.objective == PREEMPTIVE) in value.optima and (best is None or proved > best[0]):
            best = proved, value
    return best


def proved_value(bound: OwnBound, prices: Proof, instance: Instance, goal: Goal) -> int:
    """What prices that a bound of the user's returns prove of ``goal``.

    Raises
    ------
    InvalidValueError
        Nothing: they are of another instance, or of another goal.
    """
    from .certificates.writing import bound_of_prices

    if goal == "makespan":
        raise InvalidValueError(bound.label, "value", prices, "are prices of total latency")
    preemptive = goal == PREEMPTIVE or False not in prices.optima
    return bound_of_prices(instance, prices, preemptive=preemptive)


def strategies_for(method: str | Strategy, objective: Goal) -> tuple[Strategy, ...]:
    """The strategies that are asked for, in the order in which they are tried.

    Raises
    ------
    UnknownNameError
        No such method; the message lists those that are.
    InvalidValueError
        None of them minimises the objective, or it names none.
    InvalidTypeError
        Neither a name nor a strategy, or its objectives are no tuple.
    """
    if isinstance(method, str) and method in METHODS:
        asked = METHODS[method]
    else:
        try:
            asked = (STRATEGIES.find(method)(),)
        except UnknownNameError as error:
            raise UnknownNameError("method", error.name, [*METHODS, *error.known]) from None
    able = tuple(strategy for strategy in asked if objective in strategy.objectives)
    if not able:
        reason = f"does not minimise the {objective.replace('_', ' ')}"
        raise InvalidValueError(
            None, "method", method if isinstance(method, str) else asked[0].name, reason
        )
    return able


def _run(strategies: tuple[Strategy, ...], problem: Problem, state: SolveState) -> None:
    """The first strategy without a refusal, and the next ones where it gives up.

    Raises
    ------
    InvalidValueError
        All of them refuse, or one of the user's fails.
    """
    refusals = []
    has_run = False
    for strategy in strategies:
        if has_run and state.is_done():
            return
        refusal = _trusted(strategy, state, partial(strategy.refusal, problem))
        if refusal is None:
            _trusted(strategy, state, partial(strategy.run, problem, state))
            has_run = True
        else:
            refusals.append((strategy.name, refusal))
    if not has_run:
        name, refusal = refusals[0]
        raise InvalidValueError(None, "method", name, refusal)


def _run_with_cuts(strategies: tuple[Strategy, ...], problem: Problem, state: SolveState) -> None:
    """Run the strategies without the cuts, then with them those that use them.

    Those without get `USUAL_SHARE` of the time, and what the others leave of theirs.

    Raises
    ------
    InvalidValueError
        None of those that use cuts takes the problem, or what `_run` raises.
    """
    clock, using = state.clock, tuple(filter(_uses_cuts, strategies))
    refusals = [_trusted(one, state, partial(one.refusal, problem)) for one in using]
    if all(refusals):
        names = ", ".join(labels(problem.cuts))
        raise InvalidValueError(
            None, "cuts", names, f"cannot be used: {using[0].name} {refusals[0]}"
        )
    usual, turn, is_cut_short = replace(problem, cuts=()), math.inf, False
    if len(using) < len(strategies):
        left = clock.limit_left()
        turn = UNLIMITED_TURN if left is None else left
        with clock.within(USUAL_SHARE * turn):
            _run(strategies, usual, state)
        is_cut_short = state.stop_reason == "time-limit"
    if not state.is_done():
        rest = (1 - USUAL_SHARE) * turn if is_cut_short else math.inf
        with clock.within(rest), state.heeding_claims():
            _run(using, problem, state)
    if is_cut_short and not (state.is_settled or state.is_done()):
        known = state.proof and state.proof.steps[0]
        prices = known if isinstance(known, StatePrices) else problem.prices
        _run(strategies, replace(usual, prices=prices), state)


def _uses_cuts(strategy: Strategy) -> bool:
    return getattr(strategy, "uses_cuts", False)


def _trusted(strategy: Strategy, state: SolveState, action: Callable[[], Value]) -> Value:
    """Do what a strategy does, as far as it is to be trusted.

    Bounds of one of the user's are conditional on it, and its errors are told with its line; ours
    prove what they say, and fail with a traceback.
    """
    if type(strategy).__module__.partition(".")[0] in PACKAGES:
        return action()
    with state.on_the_word_of(f"strategy {strategy.name!r}"):
        return described(action, strategy.name, "method")


def _moved_by(
    offset: int, progress: Callable[[Progress], None] | None
) -> Callable[[Progress], None] | None:
    return None if progress is None else lambda line: progress(line.moved(offset))


def _checked_start(
    instance: Instance,
    start: AnySchedule | SecondsSchedule,
    kinds: tuple[type[AnySchedule], ...],
) -> AnySchedule:
    if not isinstance(start, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidTypeError(None, "start", start, f"is not a {names}")
    if start.instance.digest != instance.digest:
        raise InvalidValueError(None, "start", start, "belongs to another instance")
    violations = start.violations()
    if violations:
        raise InvalidValueError(None, "start", start, f"is infeasible: {violations[0]}")
    return start
