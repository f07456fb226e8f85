"""The optimum of a problem, or an interval around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast, get_args

from instances import Instance, InvalidValueError, Workload
from instances.problem.memory_rule import TOKENS
from instances.problem.schedule import TimedSchedule
from instances.problem.workload import as_problem
from instances.progress import shows_progress

from .extensions.bounds import AnyBound, OwnBound
from .fleets import solve_fleet
from .memory_rules import solve_by_memory_rule
from .outcomes.goals import PREEMPTIVE, Goal, OnTime, Optimum, Preemption, Tail, checked_goal
from .outcomes.result import Progress, Result
from .rounds import Task, solve_rounds, strategies_for
from .runtime.compilation import tells_of_compiling
from .runtime.search import Search, refuse
from .seconds.solving import solve_seconds
from .service.attainment import solve_on_time
from .service.tails import solve_tail
from .strategies.strategy import Strategy


@partial(shows_progress, at_terminals=lambda options: True)
def solve(  # noqa: PLR0913
    problem: Instance | Workload,
    time_limit: float | None = None,
    *,
    goal: Goal = "latency",
    preemption: Preemption | None = None,
    method: str | Strategy = "auto",
    start: TimedSchedule | None = None,
    bounds: AnyBound | Iterable[AnyBound] = (),
    gap: float = 0.0,
    threads: int | None = None,
    seed: int = 0,
    progress: Callable[[Progress], object] | None = None,
) -> Result:
    """Minimise total latency, or another goal, knowing the future ([J25] Section 3).

    The result is an interval [lower_bound, upper_bound] around the optimum, the best schedule
    found, and what proves the lower bound. It ends by itself when both bounds meet.

    **Which optimum.** With ``preemption="never"`` a request runs from start to end without a break.
    A scheduler that evicts a request and loses its work, or pauses it and holds its memory, cannot
    beat this optimum; one that stops a request and keeps its tokens can, and is compared with
    ``"keep"``: a request may be stopped between rounds, holds no memory until it goes on, and going
    on costs nothing. With ``"recompute"``, in seconds, a request that comes back processes its
    prompt and its tokens again, as engines do. In seconds lower bounds hold for every scheduler.

    **In rounds** list schedules give the first upper bound, exact memory prices the first lower
    bound and a horizon. Then methods go on until the bounds meet:

    * ``"paths"``: annealed schedules, prices of what runs together, and paths through what these
      leave, all bounds in integers (`hindsight.strategies.paths`); needs a small M.
    * ``"configurations"``: annealed schedules, prices of what runs together and an exact search
      pruned by them, all bounds in integers (`hindsight.strategies.configurations`); needs a small
      M.
    * ``"mip"``: the integer program in HiGHS, warm-started, over the starts that the reduced costs
      of its relaxation leave (`hindsight.strategies.program`).
    * ``"beams"``: schedules alone, by beam searches and then by ruin and recreate
      (`hindsight.strategies.beams`), at any size; the lower bound comes from prices.

    The makespan, the last completion round, is found by bisection: HiGHS decides whether everything
    can complete by a given round (`hindsight.strategies.makespan`). If memory is handed out in
    blocks, bounds come from a relaxed instance in tokens and schedules from a stricter one
    (`hindsight.memory_rules`). With several replicas the schedule is a `FleetSchedule`, and bounds
    come from one machine with all memory and from prices of what runs together on a replica
    (`hindsight.fleets`).

    **In seconds**, for a `Workload`, each round lasts as long as its batch takes. Schedules come
    from annealed orders, bounds from prices of machine time (`hindsight.seconds.solving`).

    `OnTime` counts requests that keep their limits (`hindsight.service`); `Tail` is a bisection
    over such limits.

    Ctrl-C, the time limit, or ``progress`` ends a solve with the interval found so far; a second
    Ctrl-C ends it at once, also with the interval.

    Parameters
    ----------
    problem : Instance or Workload
        An instance counts rounds, a workload with a batch time seconds.
    time_limit : float or None, default None
        Seconds for the whole solve, or None.
    goal : {"latency", "makespan"} or OnTime or Tail, default "latency"
        Total latency, weighted if the instance is; the last completion round of an instance; the
        most requests on time; or the least quantile of latency.
    preemption : {"never", "keep", "recompute"} or None, default None
        Which schedulers the optimum is about, see above. None means ``"never"`` for an instance and
        ``"keep"`` for a workload. An instance takes no ``"recompute"``, a workload no ``"never"``.
    method : str or Strategy, default "auto"
        For total latency in rounds: ``"paths"``, ``"configurations"``, ``"mip"``,
        ``"beams"``, or ``"auto"``, the first of paths, integer program and beams that does
        not refuse the instance, and the next where it gives up. Or an object with parameters, such
        as ``hindsight.strategies.beams.Beams(patience=20)``. ``"mip"`` takes the makespan too.
    start : Schedule, PreemptiveSchedule, FleetSchedule, SecondsSchedule or None, default None
        A feasible schedule of the required kind to start from. Not for `OnTime` and `Tail`.
    bounds : str or Callable or iterable of these, default ()
        User-defined bounds on the goal in rounds: functions of an instance that return a
        number or prices, or ``FILE.py:NAME`` of one. Prices are evaluated and prove a bound. A
        number is a claim, of which ``lower_bound`` takes no notice.
    gap : float, default 0.0
        The solve stops once `Result.gap` is at most this value, 0 to 1.
    threads : int or None, default None
        Threads of HiGHS, of ruin and recreate, and of prices and graphs, whose results do not
        depend on their number. None leaves HiGHS its choice, and means every core for the others.
    seed : int, default 0
        Seed of every random choice.
    progress : Callable[[Progress], object] or bool or None, default None
        Called with every improvement, and with the present interval while loops are compiled, which
        happens once on a machine. Returning True ends the solve. True shows the interval as it
        shrinks, in a notebook or a terminal; None shows it in a terminal, in a line that is gone at
        the end; False shows nothing.

    Returns
    -------
    Result
        The interval, and the best schedule.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A parameter is invalid, ``start`` is infeasible, or a method cannot be used here.
    SolverError
        HiGHS failed.

    Examples
    --------
    >>> import hindsight
    >>> from instances import Instance, ServiceLevel
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> result = hindsight.solve(instance)
    >>> result.status, result.upper_bound, result.schedule.start_times.tolist()
    ('optimal', 7, [0, 1, 0])
    >>> on_time = hindsight.solve(instance, goal=hindsight.OnTime(ServiceLevel(latency=3)))
    >>> on_time.lower_bound, on_time.upper_bound
    (2, 2)
    """
    return solve_until(
        None,
        problem,
        time_limit,
        goal=goal,
        preemption=preemption,
        method=method,
        bounds=bounds,
        threads=threads,
        seed=seed,
        start=start,
        gap=gap,
        progress=progress,
    )


@tells_of_compiling
def solve_until(
    should_stop: Callable[[], bool] | None,
    problem: Instance | Workload,
    time_limit: float | None = None,
    *,
    goal: Goal = "latency",
    preemption: Preemption | None = None,
    method: str | Strategy = "auto",
    bounds: AnyBound | Iterable[AnyBound] = (),
    **options: Any,
) -> Result:
    """Do as `solve` does, and end once ``should_stop``, which is polled, returns True.

    With None, Ctrl-C ends the solve. ``options`` are those of `Search`.
    """
    search = Search.checked(time_limit, should_stop, **options)
    problem, goal = as_problem(problem), checked_goal(goal)
    own_bounds = OwnBound.all_of(bounds)
    preemption = _checked_preemption(problem, goal, preemption)
    if isinstance(goal, OnTime | Tail):
        refuse(f"is not for goal {type(goal).__name__}", start=search.start is not None)
    if isinstance(problem, Workload) or isinstance(goal, OnTime | Tail):
        what = "a Workload" if isinstance(problem, Workload) else f"goal {type(goal).__name__}"
        refuse(f"is not for {what}", method=method != "auto", bounds=bool(own_bounds))
    if isinstance(goal, OnTime):
        return solve_on_time(problem, goal, search, preemption)
    if isinstance(goal, Tail):
        return solve_tail(problem, goal, search, preemption)
    if isinstance(problem, Workload):
        return solve_seconds(problem, search, preemption=preemption)
    optimum: Optimum = PREEMPTIVE if preemption == "keep" else cast(Optimum, goal)
    task = Task(optimum, strategies_for(method, optimum), bounds=own_bounds)
    task.check(problem, search)
    if problem.replicas > 1:
        return solve_fleet(problem, task, search)
    if problem.memory_rule != TOKENS:
        return solve_by_memory_rule(problem, task, search)
    return solve_rounds(problem, task, search)


def _checked_preemption(
    problem: Instance | Workload, goal: Goal, preemption: Preemption | None
) -> Preemption:
    """Return the preemption asked for, or the default of the problem.

    Raises
    ------
    InvalidValueError
        There is no such preemption, or none of the problem or goal.
    """
    in_seconds = isinstance(problem, Workload)
    if in_seconds and goal == "makespan":
        raise InvalidValueError(None, "goal", goal, "is for an Instance, in rounds")
    if preemption is None:
        return "keep" if in_seconds else "never"
    if preemption not in get_args(Preemption):
        known = ", ".join(get_args(Preemption))
        raise InvalidValueError(None, "preemption", preemption, f"is not one of {known}")
    if preemption == ("never" if in_seconds else "recompute"):
        kind = "a Workload" if in_seconds else "an Instance"
        others = "'keep' or 'recompute'" if in_seconds else "'never' or 'keep'"
        reason = f"is not {others}, which {kind} takes"
        raise InvalidValueError(None, "preemption", preemption, reason)
    if goal != "latency" and preemption != ("keep" if in_seconds else "never"):
        raise InvalidValueError(None, "preemption", preemption, "is for the goal 'latency'")
    return preemption
