"""Policies run, and optima sought that they are held against.

`hindsight` is imported where something is solved: ``import online`` loads no solver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from instances import Instance, InvalidValueError, Schedule, ServiceLevel, known_bounds
from instances.problem.arrival_source import AnySource, batch_time_of
from instances.user_modules import users_line
from online.policy_interface.predictions import PredictionModel
from online.policy_interface.specs import PolicySpec, RouterSpec
from online.simulation.run import Run
from online.simulation.simulator import simulate
from online.trials.intervals import total_of

from .trial import (
    COMPLETED,
    FAILED,
    UNSERVED,
    AnyProblem,
    Trial,
    TrialSchedule,
    facts_of,
    is_preemptive,
    one_line,
)

if TYPE_CHECKING:
    from hindsight import Progress

_log = logging.getLogger(__name__)

Listener: TypeAlias = "Callable[[Progress], None]"


def run_policy(
    problem: AnySource,
    spec: PolicySpec,
    seed: int,
    *,
    predictions: PredictionModel | None = None,
    time_limit: float | None = None,
    stop: Callable[[], bool] | None = None,
    level: ServiceLevel | None = None,
    router: RouterSpec | None = None,
) -> Trial:
    """Run a policy. Whatever it raises is its own failure and nobody else's.

    With a router it is a fleet that is run.

    The schedule of a run that kept the tokens of preempted requests is a preemptive one; of a
    workload it is a schedule in seconds. Nothing is known yet of the optimum.
    """
    from hindsight.runtime.clock import Clock

    clock = Clock(time_limit, stop)
    limited = stop is not None or time_limit is not None
    asked = asked_trial(problem, spec, seed)
    options: dict[str, Any] = {
        "seed": seed,
        "predictions": predictions,
        "level": level,
        # Where nothing is to stop it, what solves programs listens to Ctrl-C by itself.
        "should_stop": clock.must_stop if limited else None,
    }
    if router is not None:
        asked, options["router"] = replace(asked, router=router.label), router.make()
    try:
        run = simulate(problem, spec.make(), **options)
    except Exception as error:  # noqa: BLE001 (whatever a policy raises)
        _log.debug("policy %s failed", spec.label, exc_info=True)
        status = "refused" if isinstance(error, InvalidValueError) else FAILED
        reason = one_line(error) + users_line(error)
        return replace(asked, status=status, error=error, reason=reason)
    if run.status != COMPLETED:
        cut = run.status == "time-limit" and clock.is_interrupted
        status = "interrupted" if cut else run.status
        return _ended(asked, run, status=status, reason=UNSERVED[status])
    done = _ended(asked, run, status=COMPLETED)
    try:
        kept = run.keeps_tokens and not asked.in_seconds
        schedule: TrialSchedule = run.preemptive_schedule if kept else run.schedule
    except ValueError as error:
        total = Fraction(run.total_latency) if asked.in_seconds else int(run.total_latency)
        return replace(done, total_latency=total, error=error, reason=str(error))
    return replace(
        done,
        total_latency=total_of(schedule) if asked.in_seconds else int(run.total_latency),
        preemptive=is_preemptive(schedule),
        schedule=schedule,
    )


def asked_trial(
    source: AnySource, spec: PolicySpec, seed: int, *, preemptive: bool = False
) -> Trial:
    """Return a trial that says what was asked, with the status of one whose run was lost."""
    known = source if isinstance(source, AnyProblem) else None
    return Trial(
        instance=source.name,
        memory_limit=source.memory_limit,
        policy=spec.name,
        params=dict(spec.params),
        seed=seed,
        status=FAILED,
        total_latency=None,
        evictions=0,
        preemptive=preemptive,
        batch_time=batch_time_of(source),
        **facts_of(known),
    )


def _ended(asked: Trial, run: Run, **fields: Any) -> Trial:
    """Return the trial after its run, on the problem that was realised."""
    facts = facts_of(run.problem) | {"requests": len(run.ids)}
    return replace(asked, run=run, evictions=run.evictions, **facts, **fields)


def find_optimum(
    problem: AnyProblem,
    *,
    preemptive: bool = False,
    progress: Listener | None = None,
    level: ServiceLevel | None = None,
    serves_late: bool = False,
    should_stop: Callable[[], bool] | None = None,
    **options: Any,
) -> Any:
    """Return what `hindsight.solve` knows of the optimum, or the error of the search.

    With a level it is what is known of the most requests on time, and the schedule serves late ones
    too if ``serves_late``. ``options`` are those of `hindsight.solver.solve_until`. The search
    starts from the schedule that the instance carries, never from that of a policy: what is found
    does not depend on the policies that are compared. An error that ``progress`` raises is raised.
    """
    from hindsight import OnTime
    from hindsight.solver import solve_until

    raised: list[BaseException] = []

    def tell(news: Progress) -> None:
        try:
            if progress is not None:
                progress(news)
        except BaseException as error:
            raised.append(error)
            raise

    if level is not None:
        options["goal"] = OnTime(level, "serve" if serves_late else "drop")
    elif preemptive:
        options["preemption"] = "keep"
    try:
        if level is None and isinstance(problem, Instance):
            # Its lower bounds are not believed.
            known = known_bounds(problem)
            if known is not None and known.start_times is not None:
                options["start"] = Schedule(problem, known.start_times)
        return solve_until(should_stop, problem, progress=tell, **options)
    except Exception as error:
        if raised:
            raise
        _log.debug("no optimum of %s", problem.name, exc_info=True)
        return error
