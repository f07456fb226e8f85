"""`solve`: the optimum of a problem, or bounds on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from instances import Instance, Workload
from instances.problem.memory_rule import TOKENS
from instances.problem.schedule import TimedSchedule
from instances.progress import shows_progress

from .outcomes.goals import Goal, OnTime, Preemption, Tail
from .outcomes.problem import Problem
from .outcomes.result import Progress, Result
from .rounds.own_bounds import AnyBound, OwnBound
from .rounds.solving import checked_method, solve_in_rounds
from .runtime.search import Search, refuse
from .sizing import solve_tail
from .solving import solve_directly


@partial(shows_progress, at_terminals=True)
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

    The result contains an interval [lower_bound, upper_bound] around the optimum, the best schedule
    found, and a proof of the lower bound. A solve ends by itself when both bounds meet.

    **Which optimum.** With ``preemption="never"`` a request runs from start to end without a break.
    A scheduler that evicts a request and loses its work, or pauses it and holds its memory, cannot
    beat this optimum. A scheduler that stops a request and keeps its tokens can. Compare it with
    the optimum for ``"keep"``: a request may be stopped between rounds, holds no memory until it
    resumes, and resumes at no cost. With ``"recompute"``, in seconds, a resumed request processes
    its prompt and its tokens again, as engines do. In seconds lower bounds hold for every
    scheduler.

    **In rounds** list schedules give the first upper bound. Memory prices (a price for each token
    held in a round) give the first lower bound, in exact arithmetic, and a horizon: a round by
    which every optimal schedule has completed. Then one of these methods runs until the bounds
    meet:

    * ``"paths"``: prices of states, and exact searches in which these prices exclude partial
      schedules, with all bounds in integers (`hindsight.rounds.latency`). The state of a request
      is the tokens that it holds and its rounds to go. The memory limit M must be small.
    * ``"mip"``: the integer program in HiGHS, from the best schedule known, over the starts that
      reduced-cost fixing with memory prices leaves (`hindsight.rounds.program`).
    * ``"beams"``: only schedules, by beam search and then by ruin and recreate, at any size
      (`hindsight.rounds.latency`). The lower bound is that of memory prices.

    The makespan, the last completion round, is found by bisection: HiGHS decides whether all
    requests can complete by a given round. With memory in blocks or several replicas, lower bounds
    come from a relaxation to one machine with memory in tokens, as much as all replicas have
    together, and from state prices of a single replica (`hindsight.rounds.solving`).

    **In seconds**, for a `Workload`, each round lasts as long as its batch takes. Schedules are
    list schedules, in an order of requests that simulated annealing improves. Lower bounds come
    from prices of machine time (`hindsight.seconds.solving`).

    `OnTime` maximises the number of requests that keep their limits (`hindsight.rounds.on_time`).
    `Tail` is solved by bisection over such limits (`hindsight.sizing`).

    Ctrl-C, the time limit, or ``progress`` ends a solve with the bounds found so far. A second
    Ctrl-C ends it at once, also with these bounds.

    Parameters
    ----------
    problem : Instance or Workload
        An instance counts time in rounds. A workload counts time in seconds, and has a batch time.
    time_limit : float or None, default None
        Time limit in seconds for the whole solve, or None.
    goal : {"latency", "makespan"} or OnTime or Tail, default "latency"
        ``"latency"``: minimise total latency, weighted if the instance has weights. ``"makespan"``:
        minimise the last completion round of an instance. `OnTime`: maximise the number of requests
        on time. `Tail`: minimise a quantile of latency.
    preemption : {"never", "keep", "recompute"} or None, default None
        Which optimum to find, see above. None means ``"never"`` for an instance and ``"keep"`` for
        a workload. ``"recompute"`` is only for workloads, ``"never"`` only for instances.
    method : {"auto", "paths", "mip", "beams"}, default "auto"
        Method for total latency in rounds. ``"auto"`` is ``"paths"`` if the memory limit M is small
        and all weights are 1, otherwise heuristics, memory prices and the integer program together.
        ``"mip"`` may also be given for the makespan.
    start : Schedule, PreemptiveSchedule, FleetSchedule, SecondsSchedule or None, default None
        A feasible schedule of the problem, from which the solve starts. Not for `OnTime` and
        `Tail`.
    bounds : str or Callable or iterable of these, default ()
        User-defined lower bounds in rounds: functions of an instance that return a number or
        prices, or ``FILE.py:NAME`` of one. Prices are evaluated exactly and prove a bound. A number
        is only a claim, which ``lower_bound`` ignores.
    gap : float, default 0.0
        The solve stops once `Result.gap` is at most this value, 0 to 1.
    threads : int or None, default None
        Number of threads of HiGHS, of the search for schedules in rounds, and of the computation
        of prices. With None, HiGHS chooses its number, and the others use one thread per core. The
        computed prices do not depend on the number of threads.
    seed : int, default 0
        Seed of every random choice.
    progress : Callable[[Progress], object] or bool or None, default None
        Called at every improvement. Also called, with the present bounds, while loops are compiled
        to machine code, once on a computer. Returning True ends the solve. The value True shows the
        bounds as they improve, in a notebook or a terminal. None shows them only in a terminal, in
        a line that is erased at the end. False shows nothing.

    Returns
    -------
    Result
        The bounds and the best schedule.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A parameter is invalid, ``start`` is infeasible, or the method cannot solve this problem.
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
    # Pass on all parameters: ``locals()`` maps their names to their values.
    return solve_until(None, **locals())


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
    """Do the same as `solve`, but end once ``should_stop`` returns True.

    ``should_stop`` is called many times per second. If it is None, Ctrl-C ends the solve.
    ``options`` are those of `Search`.
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
    source = stated.source
    if own_bounds and (source.replicas > 1 or source.memory_rule != TOKENS):
        has = f"replicas = {source.replicas}, memory in {source.memory_rule.told or 'tokens'}"
        refuse(f"is for one replica with memory in tokens; this instance has {has}", bounds=True)
    return solve_in_rounds(stated, search, checked_method(method, stated), own_bounds)
