"""The optimum of an instance, or a certified interval around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from instances import Instance, SecondsSchedule, Workload
from instances.batch_time import BatchTime
from instances.errors import InvalidValueError
from instances.problem.memory_rule import TOKENS
from instances.problem.preemptive_schedule import AnySchedule
from instances.progress import shows_progress
from instances.validation import as_flag

from .extensions.bounds import BOUNDS, AnyBound
from .extensions.cuts import CUTS, AnyCut
from .integer_program.models import BUILDERS, Formulation
from .memory_rules import solve_by_memory_rule
from .outcomes.results import OBJECTIVES, PREEMPTIVE, Goal, Objective, Progress, SolveResult
from .rounds import Task, solve_rounds, strategies_for
from .runtime.search import Search
from .seconds.results import SecondsProgress, SecondsResult
from .seconds.solving import refuse_beside_batch_time, require_instance, solve_seconds
from .strategies.strategy import Strategy

if TYPE_CHECKING:
    import pyomo.environ as pyo

    from .integer_program.own_models import ModelResult


class ProgramOptions(TypedDict, total=False):
    """Options of the integer program within `solve`.

    Attributes
    ----------
    formulation : Formulation
        The model of ``"mip"``, ``"dense"`` unless given.
    cuts : AnyCut or Iterable[AnyCut]
        Rows of your own.
    """

    formulation: Formulation
    cuts: AnyCut | Iterable[AnyCut]


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
    batch_time: None = None,
    gap: float = 0.0,
    bounds: AnyBound | Iterable[AnyBound] = (),
    model: None = None,
    progress: Callable[[Progress], None] | bool | None = None,
    should_stop: Callable[[], bool] | None = None,
    **program: Unpack[ProgramOptions],
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
def solve(  # noqa: PLR0913
    instance: Workload | Instance,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    *,
    objective: Objective = "total_latency",
    method: str | Strategy = "auto",
    start: AnySchedule | SecondsSchedule | None = None,
    preemptive: bool = False,
    batch_time: BatchTime | None = None,
    gap: float = 0.0,
    bounds: AnyBound | Iterable[AnyBound] = (),
    model: pyo.ConcreteModel | None = None,
    progress: Callable[[Any], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    **program: Unpack[ProgramOptions],
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
    model : pyo.ConcreteModel or None, default None
        What `build_model` made of the instance, with rows added. Beside it only ``time_limit``,
        ``threads``, ``seed`` and ``should_stop`` are taken.
    progress : Callable[[Any], None] or bool or None, default None
        Told of every improvement: by a `Progress`, or a `SecondsProgress` with a batch time. True
        shows the interval as it shrinks, in a notebook or a terminal.
    should_stop : Callable[[], bool] or None, default None
        Polled; True interrupts. None listens to Ctrl-C.
    **program : ProgramOptions
        ``formulation``, ``"dense"`` or ``"sparse"``: the model of ``"mip"``, dense by default. And
        ``cuts``, rows of your own: by name (`hindsight.register_cut`), as functions or as
        ``FILE.py:NAME``. They are for strategies that use them: of this package the integer
        program. ``"auto"`` gives it a quarter of the time, after the usual methods without the
        rows; where there is no limit a minute, after their first three.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A bad parameter, an infeasible ``start``, or a method that cannot be used here; or a
        strategy of your own fails, by an error of any kind: the message tells its line.
    SolverError
        HiGHS failed.
    """
    for name in program.keys() - ProgramOptions.__annotations__.keys():
        raise TypeError(f"solve() got an unexpected keyword argument {name!r}")
    formulation = program.get("formulation", "dense")
    own_bounds, own_cuts = BOUNDS.all_of(bounds), CUTS.all_of(program.get("cuts", ()))
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
        "cuts": bool(own_cuts),
    }
    if batch_time is not None:
        refuse_beside_batch_time(**in_rounds, model=model is not None)
        return solve_seconds(instance, batch_time, search)
    instance = require_instance(instance)
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
    task = Task(goal, strategies_for(method, goal), formulation, own_bounds, own_cuts)
    task.check(instance, search)
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
