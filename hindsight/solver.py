"""The optimum of an instance, or a certified interval around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from instances import FleetSchedule, Instance, SecondsSchedule, Workload
from instances.errors import InvalidValueError
from instances.problem.memory_rule import TOKENS
from instances.problem.preemptive_schedule import AnySchedule
from instances.problem.workload import as_problem
from instances.progress import shows_progress
from instances.validation import as_flag

from .extensions.bounds import BOUNDS, AnyBound
from .fleets import solve_fleet
from .integer_program.models import BUILDERS, Formulation
from .memory_rules import solve_by_memory_rule
from .outcomes.results import OBJECTIVES, PREEMPTIVE, Goal, Objective, Progress, SolveResult
from .rounds import Task, solve_rounds, strategies_for
from .runtime.compilation import tells_of_compiling
from .runtime.search import Search
from .seconds.results import Preemption, SecondsProgress, SecondsResult
from .seconds.solving import refuse_in_seconds, solve_seconds
from .strategies.strategy import Strategy

if TYPE_CHECKING:
    import pyomo.environ as pyo

    from .integer_program.own_models import ModelResult


@overload
def solve(
    instance: Instance,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    *,
    objective: Objective = "total_latency",
    method: str | Strategy = "auto",
    start: AnySchedule | None = None,
    preemptive: bool = False,
    gap: float = 0.0,
    bounds: AnyBound | Iterable[AnyBound] = (),
    model: None = None,
    progress: Callable[[Progress], None] | bool | None = None,
    should_stop: Callable[[], bool] | None = None,
    formulation: Formulation = "dense",
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
    instance: Workload,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    *,
    preemption: Preemption = "keep",
    start: SecondsSchedule | FleetSchedule | None = None,
    gap: float = 0.0,
    progress: Callable[[SecondsProgress], None] | bool | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SecondsResult: ...


@partial(shows_progress, at_terminals=lambda options: options.get("model") is None)
@tells_of_compiling
def solve(  # noqa: PLR0913
    instance: Workload | Instance,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    *,
    objective: Objective = "total_latency",
    method: str | Strategy = "auto",
    start: AnySchedule | SecondsSchedule | FleetSchedule | None = None,
    preemptive: bool = False,
    preemption: Preemption = "keep",
    gap: float = 0.0,
    bounds: AnyBound | Iterable[AnyBound] = (),
    model: pyo.ConcreteModel | None = None,
    progress: Callable[[Any], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    formulation: Formulation = "dense",
) -> SolveResult | SecondsResult | ModelResult:
    """Minimise total latency, or the makespan, knowing the future ([J25] Section 3).

    List schedules give the first upper bound, exact memory prices the first lower bound and a
    horizon. Then strategies go on until the bounds meet:

    * ``"paths"``: annealed schedules, prices of what runs together, and paths through what these
      leave, all bounds in integers (`hindsight.strategies.paths`); needs a small M.
    * ``"configurations"``: annealed schedules, prices of what runs together and an exact search
      pruned by them, all bounds in integers (`hindsight.strategies.configurations`); needs a small
      M.
    * ``"counts"``: annealed schedules, and the program of how many requests of a class start when,
      in HiGHS (`hindsight.strategies.counts`); needs few rounds.
    * ``"mip"``: the integer program itself in HiGHS, warm-started, over the starts that the
      reduced costs of its relaxation leave (`hindsight.strategies.mip`).
    * ``"beams"``: schedules alone, by beam searches and then by ruin and recreate
      (`hindsight.strategies.beams`), at any size; the lower bound comes from prices.

    The makespan, the last completion round, is found by bisection instead: HiGHS decides whether
    everything can complete by a given round (`hindsight.strategies.makespan`).

    With ``preemptive`` requests may be stopped between rounds and keep their tokens. A stopped
    request holds no memory, and continuing costs nothing (`instances.PreemptiveSchedule`). This
    optimum is at most the one without preemption, and is searched for separately
    (`hindsight.strategies.preemptive`).

    Ctrl-C or the time limit ends a solve with the interval found so far; a second Ctrl-C ends it at
    once, also with the interval.

    If memory is not counted in tokens (`instances.MemoryRule`), bounds come from a relaxed instance
    in tokens and schedules from a stricter one, and small instances are proved by the integer
    program (`hindsight.memory_rules`).

    With several replicas in rounds the result's schedule is a `FleetSchedule`. Bounds come from one
    machine with all memory, by ``method``, and from prices of what runs together on a replica,
    where ``"paths"`` or ``"configurations"`` is among the methods. Schedules come from a search
    over orders and replicas, and small instances are proved by the integer program where ``"mip"``
    is among them (`hindsight.fleets`).

    In a workload each round lasts as long as its batch takes. The result is then a
    `SecondsResult`, an interval around the least total latency in seconds of every scheduler
    (`hindsight.seconds.solving`); ``objective``, ``method``, ``formulation``, ``preemptive`` and
    ``bounds`` are for an instance.

    Numbers of user-defined bounds are claims, which ``own_bounds`` of the result has;
    ``lower_bound`` is proved without them, and no claim ends a search. Prices are a proof, and are
    evaluated. With ``model``, a `build_model` with rows of your own, that model is solved instead,
    and the result is a `ModelResult`.

    Parameters
    ----------
    instance : Instance or Workload
        The problem: an instance in rounds, or a workload with its batch time in seconds.
    time_limit : float or None, default None
        Seconds for the whole solve, or None.
    threads : int or None, default None
        Threads of HiGHS, of ruin and recreate, and of the price ascent and graphs of paths, whose
        results do not depend on their number. From two threads on, a further thread improves
        schedules beside graphs. None leaves HiGHS its choice, and means every core for the others.
    seed : int, default 0
        Seed of every random choice.
    objective : Objective, default "total_latency"
        ``"total_latency"`` or ``"makespan"``; all bounds of the result refer to it.
    method : str or Strategy, default "auto"
        ``"paths"``, ``"configurations"``, ``"counts"``, ``"mip"``,
        ``"beams"``, or ``"auto"``: the first of paths, counts, integer program and beams that does
        not refuse the instance, and the next where it gives up. Or an object with parameters, such
        as ``hindsight.strategies.beams.Beams(patience=20)``. Only the integer program minimises
        the makespan; none of these names minimises with preemption, which ``"auto"`` does.
    start : Schedule, PreemptiveSchedule, FleetSchedule, SecondsSchedule or None, default None
        A feasible schedule of the required kind to start from, besides the list schedules.
    preemptive : bool, default False
        Whether to solve for the preemptive optimum, of total latency only. The result is then a
        `PreemptiveResult`.
    preemption : {"keep", "recompute"}, default "keep"
        Of a workload: whether a request that leaves the cache comes back with its tokens, or
        processes prompt and tokens again, as engines do. Lower bounds hold for both.
    gap : float, default 0.0
        The solve stops once (upper - lower) / upper is at most this value, 0 to 1.
    bounds : AnyBound or Iterable[AnyBound], optional
        Lower bounds of your own, by name (`hindsight.register_bound`), as functions or as
        ``FILE.py:NAME``. The ascent of ``"paths"`` and ``"configurations"`` starts from the best
        state prices among them: ``lambda instance: result.proof`` continues where a solve ended.
    model : pyo.ConcreteModel or None, default None
        A result of `build_model` for the instance, with rows added. With it only ``time_limit``,
        ``threads``, ``seed`` and ``should_stop`` are accepted.
    progress : Callable[[Any], None] or bool or None, default None
        Called with every improvement: a `Progress`, or a `SecondsProgress` of a workload; and
        with the present interval while loops are compiled, which happens once on a machine. True
        shows the interval as it shrinks, in a notebook or a terminal; None shows it in a terminal,
        in a line that is gone at the end; False shows nothing.
    should_stop : Callable[[], bool] or None, default None
        Polled; returning True interrupts. With None the solve handles Ctrl-C itself.
    formulation : {"dense", "sparse"}, default "dense"
        Model of ``"mip"``; both have the same optimum.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A parameter is invalid, ``start`` is infeasible, or a method cannot be used here.
    SolverError
        HiGHS failed.

    Examples
    --------
    >>> import hindsight
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> result = hindsight.solve(instance, progress=False)
    >>> result.status, result.upper_bound, result.schedule.start_times.tolist()
    ('optimal', 7, [0, 1, 0])
    """
    own_bounds = BOUNDS.all_of(bounds)
    search = Search.checked(
        time_limit,
        should_stop,
        threads=threads,
        seed=seed,
        start=start,
        gap=gap,
        progress=progress,
    )
    in_rounds = {
        "objective": objective != "total_latency",
        "method": method != "auto",
        "formulation": formulation != "dense",
        "preemptive": preemptive is not False,
        "bounds": bool(own_bounds),
    }
    instance = as_problem(instance)
    if isinstance(instance, Workload):
        refuse_in_seconds(**in_rounds, model=model is not None)
        return solve_seconds(instance, search, preemption=preemption)
    if preemption != "keep":
        reason = "is a choice in seconds, of a Workload"
        raise InvalidValueError(None, "preemption", preemption, reason)
    if model is not None:
        beside = (start is not None, gap != 0, progress is not None)
        if any(beside) or any(in_rounds.values()):
            reason = "takes time_limit, threads, seed and should_stop beside it, and nothing else"
            raise InvalidValueError(None, "model", str(model.name), reason)
        from .integer_program.own_models import solve_model

        with search.clock.listening():
            return solve_model(instance, model, search)
    if formulation not in BUILDERS:
        known = ", ".join(BUILDERS)
        raise InvalidValueError(None, "formulation", formulation, f"is not one of {known}")
    goal = _goal(objective, as_flag(preemptive, None, "preemptive"))
    task = Task(goal, strategies_for(method, goal), formulation, own_bounds)
    task.check(instance, search)
    if instance.replicas > 1:
        return solve_fleet(instance, task, search)
    if instance.memory_rule != TOKENS:
        return solve_by_memory_rule(instance, task, search)
    return solve_rounds(instance, task, search)


def _goal(objective: Objective, preemptive: bool) -> Goal:
    if objective not in OBJECTIVES:
        known = ", ".join(OBJECTIVES)
        raise InvalidValueError(None, "objective", objective, f"is not one of {known}")
    if not preemptive:
        return objective
    if objective != "total_latency":
        reason = "is not minimised with preemption"
        raise InvalidValueError(None, "objective", objective, reason)
    return PREEMPTIVE
