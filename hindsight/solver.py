"""The optimum of a problem, or an interval around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from instances import Instance, Workload
from instances.problem.schedule import TimedSchedule
from instances.progress import shows_progress

from .direct import solve_directly
from .outcomes.goals import Goal, OnTime, Preemption, Tail
from .outcomes.own_bounds import AnyBound, OwnBound
from .outcomes.problem import Problem
from .outcomes.result import Progress, Result
from .rounds.solving import checked_method, solve_in_rounds
from .runtime.compilation import tells_of_compiling
from .runtime.search import Search, refuse
from .sizing import solve_tail


@partial(shows_progress, at_terminals=lambda options: True)
def solve(  # noqa: PLR0913
    problem: Instance | Workload,
    time_limit: float | None = None,
    *,
    goal: Goal = "latency",
    preemption: Preemption | None = None,
    method: str = "auto",
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

    * ``"paths"``: prices of what runs together, and exact searches under them, all bounds in
      integers (`hindsight.rounds.small_memory`); needs a small M.
    * ``"mip"``: the integer program in HiGHS, warm-started, over the starts that the reduced costs
      of its relaxation leave (`hindsight.rounds.program`).
    * ``"beams"``: schedules alone, by beam searches and then by ruin and recreate
      (`hindsight.rounds.large_memory`), at any size; the lower bound comes from prices.

    The makespan, the last completion round, is found by bisection: HiGHS decides whether everything
    can complete by a given round. If memory is handed out in blocks, or there are several replicas,
    bounds come from one machine in tokens with all memory, and from prices of what runs together on
    a replica (`hindsight.rounds.solving`).

    **In seconds**, for a `Workload`, each round lasts as long as its batch takes. Schedules come
    from annealed orders, bounds from prices of machine time (`hindsight.seconds.solving`).

    `OnTime` counts requests that keep their limits (`hindsight.direct`); `Tail` is a bisection over
    such limits (`hindsight.sizing`).

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
    method : {"auto", "paths", "mip", "beams"}, default "auto"
        For total latency in rounds. ``"auto"`` is ``"paths"`` where it does not refuse the
        instance, else schedules, prices and the program together. ``"mip"`` takes the makespan too.
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
    method: str = "auto",
    bounds: AnyBound | Iterable[AnyBound] = (),
    **options: Any,
) -> Result:
    """Do as `solve` does, and end once ``should_stop``, which is polled, returns True.

    With None, Ctrl-C ends the solve. ``options`` are those of `Search`.
    """
    search = Search.checked(time_limit, should_stop, **options)
    stated = Problem.checked(problem, goal, preemption)
    own_bounds = OwnBound.all_of(bounds)
    counts_limits = isinstance(goal, OnTime | Tail)
    if counts_limits:
        refuse(f"is not for goal {type(goal).__name__}", start=search.start is not None)
    if stated.in_seconds or counts_limits:
        what = "a Workload" if stated.in_seconds else f"goal {type(goal).__name__}"
        refuse(f"is not for {what}", method=method != "auto", bounds=bool(own_bounds))
    if isinstance(goal, Tail):
        return solve_tail(stated, search)
    if search.start is not None:
        stated.check_start(search.start)
    if stated.in_seconds or isinstance(goal, OnTime):
        return solve_directly(stated, search)
    if own_bounds:
        stated.source.require_tokens()
    return solve_in_rounds(stated, search, checked_method(method, stated), own_bounds)
