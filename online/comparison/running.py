"""A policy's run, and the search for the optimum that it is held against.

`hindsight` is imported where something is solved: ``import online`` loads no solver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from instances import Instance, InvalidValueError, PreemptiveSchedule, SecondsSchedule
from instances.batch_time import BatchTime
from instances.problem.arrival_source import ArrivalSource
from instances.user_modules import users_line
from online.policy_interface.predictions import PredictionModel
from online.policy_interface.specs import PolicySpec
from online.simulation.run import Run
from online.simulation.simulator import simulate

from .ratios import Latency, seconds_of
from .trial import (
    COMPLETED,
    FAILED,
    UNSERVED,
    AnyProblem,
    Trial,
    TrialSchedule,
    one_line,
)

if TYPE_CHECKING:
    from hindsight import Progress, SecondsProgress

_log = logging.getLogger(__name__)

Listener: TypeAlias = "Callable[[Progress | SecondsProgress], None]"


def run_policy(
    problem: Instance | ArrivalSource,
    spec: PolicySpec,
    seed: int,
    *,
    predictions: PredictionModel | None = None,
    time_limit: float | None = None,
    stop: Callable[[], bool] | None = None,
    preemptive: bool = False,
    batch_time: BatchTime | None = None,
) -> Trial:
    """Run a policy. Whatever it raises is its own failure and nobody else's.

    The schedule of a run that kept the tokens of preempted requests is a preemptive one; with
    ``preemptive`` that of every run is, and the trial is compared with the preemptive optimum. With
    ``batch_time`` it is a schedule in seconds. Nothing is known yet of the optimum.
    """
    from hindsight.runtime.clock import Clock

    clock = Clock(time_limit, stop)
    limited = stop is not None or time_limit is not None
    known = problem if isinstance(problem, AnyProblem) else None
    in_seconds = batch_time is not None
    ended = partial(_trial, problem, spec, seed, preemptive=preemptive, in_seconds=in_seconds)
    try:
        run = simulate(
            problem,
            spec.make(),
            seed=seed,
            predictions=predictions,
            batch_time=batch_time,
            # Where nothing is to stop it, what solves programs listens to Ctrl-C by itself.
            should_stop=clock.must_stop if limited else None,
        )
    except Exception as error:  # noqa: BLE001 (whatever a policy raises)
        _log.debug("policy %s failed", spec.label, exc_info=True)
        status = "refused" if isinstance(error, InvalidValueError) else FAILED
        return ended(status, known, error=error, reason=one_line(error) + users_line(error))
    if run.status != COMPLETED:
        cut = run.status == "time-limit" and clock.is_interrupted
        status = "interrupted" if cut else run.status
        realised = known if in_seconds else run.instance
        return ended(status, realised, run=run, reason=UNSERVED[status])
    realised = run.workload if in_seconds else run.instance
    try:
        schedule: TrialSchedule
        if in_seconds:
            schedule = run.seconds_schedule
        else:
            schedule = run.preemptive_schedule if preemptive or run.keeps_tokens else run.schedule
    except ValueError as error:
        return ended(COMPLETED, realised, run=run, error=error, reason=str(error))
    return ended(COMPLETED, realised, run=run, schedule=schedule)


def lost_trial(
    problem: Instance | ArrivalSource, spec: PolicySpec, seed: int, reason: str, **kind: Any
) -> Trial:
    """A trial of which nothing came back; ``kind`` as in `run_policy`, with ``in_seconds``."""
    known = problem if isinstance(problem, AnyProblem) else None
    return _trial(problem, spec, seed, FAILED, known, reason=reason, **kind)


def _trial(
    source: Instance | ArrivalSource,
    spec: PolicySpec,
    seed: int,
    status: str,
    problem: AnyProblem | None,
    *,
    run: Run | None = None,
    schedule: TrialSchedule | None = None,
    preemptive: bool = False,
    in_seconds: bool = False,
    **fields: Any,
) -> Trial:
    appeared = () if run is None else run.ids
    return Trial(
        # A workload made of a run has no name.
        instance=source.name if problem is None else problem.name or source.name,
        digest=None if problem is None else problem.digest,
        requests=len(appeared if problem is None else problem),
        memory_limit=source.memory_limit,
        policy=spec.name,
        params=dict(spec.params),
        seed=seed,
        status=status,
        total_latency=_total_latency(status, run, schedule),
        evictions=0 if run is None else run.evictions,
        preemptive=preemptive or isinstance(schedule, PreemptiveSchedule),
        in_seconds=in_seconds,
        total_output_length=problem.total_output_length
        if isinstance(problem, Instance) and not in_seconds
        else None,
        problem=problem,
        run=run,
        schedule=schedule,
        **fields,
    )


def _total_latency(status: str, run: Run | None, schedule: TrialSchedule | None) -> Latency | None:
    if run is None or status != COMPLETED:
        return None
    if isinstance(schedule, SecondsSchedule):
        return seconds_of(schedule)
    return int(run.total_latency) if run.batch_time is None else Fraction(run.total_latency)


def find_optimum(
    problem: AnyProblem,
    *,
    preemptive: bool = False,
    start: TrialSchedule | None = None,
    progress: Listener | None = None,
    **options: Any,
) -> Any:
    """What `hindsight.solve` knows of the optimum, or the error of the search.

    ``options`` are those of `hindsight.solve`. What the caller's own ``progress`` raises is no
    failure of the solver, and is raised.
    """
    import hindsight

    raised: list[BaseException] = []

    def tell(news: Progress | SecondsProgress) -> None:
        try:
            if progress is not None:
                progress(news)
        except BaseException as error:
            raised.append(error)
            raise

    solve: Callable[..., Any] = hindsight.solve
    try:
        return solve(problem, preemptive=preemptive, start=start, progress=tell, **options)
    except Exception as error:
        if raised:
            raise
        _log.debug("no optimum of %s", problem.name, exc_info=True)
        return error
