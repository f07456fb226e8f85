"""The most requests that any scheduler can serve on time, or a certified interval around it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import numpy as np

from hindsight.integer_program.models import BUILDERS, Formulation
from hindsight.runtime.clock import SPARE_SECONDS
from hindsight.runtime.compilation import tells_of_compiling
from hindsight.runtime.cores import available_cores
from hindsight.runtime.search import Search
from instances import Instance, InvalidValueError, Workload
from instances.problem.schedule import TimedSchedule
from instances.problem.workload import as_problem
from instances.progress import shows_progress
from instances.service_level import AnyLevel, limits_of

from .results import AttainmentResult, Late, OnTime
from .rounds import attain_in_rounds, with_late
from .seconds import attain_in_seconds
from .seconds import with_late as with_late_in_seconds


@partial(shows_progress, at_terminals=lambda options: True)
@tells_of_compiling
def attainment(  # noqa: PLR0913
    problem: Workload | Instance,
    level: AnyLevel,
    time_limit: float | None = None,
    *,
    late: Late = "drop",
    formulation: Formulation = "dense",
    threads: int | None = None,
    seed: int = 0,
    gap: float = 0.0,
    progress: Callable[[Any], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> AttainmentResult:
    """Find the most requests that any scheduler can serve on time, knowing the future.

    In rounds, memory prices bound it from above (`hindsight.service.rounds`), ruin and recreate
    finds schedules, and an integer program closes what is left of small instances. In seconds,
    prices of machine time bound it (`hindsight.service.seconds`), and annealed orders are the
    schedules. With ``replicas`` each request is served on one of them, and the schedule is a
    `FleetSchedule`.

    The optimum is the same whether late requests are dropped or served, because they can be served
    after all others. Only the schedule differs. Weights do not count here.

    Parameters
    ----------
    problem : Instance or Workload
        The requests: an instance in rounds, or a workload with its batch time in seconds.
    level : ServiceLevel or Sequence[ServiceLevel]
        Limits for all requests, or one level for each, in rounds or in seconds.
    time_limit : float or None, default None
        Seconds, or None.
    late : {"drop", "serve"}, default "drop"
        Whether the schedule leaves late requests out, or serves them too.
    formulation : {"dense", "sparse"}, default "dense"
        Model of the integer program in rounds.
    threads : int or None, default None
        Threads of HiGHS, and of the prices in seconds; None leaves the choice to them.
    seed : int, default 0
        Seed of every random choice.
    gap : float, default 0.0
        The search stops once the bounds differ by this share of all requests, 0 to 1.
    progress : Callable[[AttainmentProgress], None] or bool or None, default None
        See `hindsight.solve`.
    should_stop : Callable[[], bool] or None, default None
        Polled; returning True interrupts. With None Ctrl-C does.

    Returns
    -------
    AttainmentResult
        The interval, and the best schedule.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A parameter is invalid.
    SolverError
        HiGHS failed.

    Examples
    --------
    >>> import hindsight
    >>> from instances import Instance, ServiceLevel
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> result = hindsight.attainment(instance, ServiceLevel(latency=3))
    >>> result.lower_bound, result.upper_bound
    (2, 2)
    """
    options: dict[str, Any] = {"threads": threads, "seed": seed, "gap": gap, "progress": progress}
    search = Search.checked(time_limit, should_stop, **options)
    for name, value, known in (
        ("late", late, get_args(Late)),
        ("formulation", formulation, tuple(BUILDERS)),
    ):
        if value not in known:
            raise InvalidValueError(None, name, value, f"is not one of {', '.join(known)}")
    problem = as_problem(problem, "problem")
    limits = limits_of(level, len(problem))
    state = OnTime(problem, limits, search.clock, search.progress, gap)
    with search.clock.listening():
        if isinstance(problem, Instance):
            attain_in_rounds(state, threads, seed, formulation)
        else:
            attain_in_seconds(state, threads or available_cores(), seed)
    schedule: TimedSchedule | None = state.schedule
    if late == "serve" and len(state.served) < len(problem):
        if isinstance(problem, Instance):
            schedule = with_late(state)
        else:
            schedule = with_late_in_seconds(state.schedule, state.served, problem)
        state.offer(schedule, np.arange(len(problem)))
    if state.upper == state.lower:
        reason: Any = "proof"
    else:
        reason = "gap" if state.is_close else search.clock.stop_reason(SPARE_SECONDS)
    return AttainmentResult(
        problem=problem,
        level=level,
        late=late,
        lower_bound=state.lower,
        upper_bound=state.upper,
        schedule=schedule,
        best_bound=state.best_bound,
        certified=state.certified,
        stop_reason=reason,
        runtime=search.clock.seconds(),
        log=tuple(state.log),
    )
