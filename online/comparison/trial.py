"""One trial: a policy's run, and the optimum that it is held against.

`hindsight` is imported where something is solved: ``import online`` loads no solver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from instances import Instance, InvalidValueError, PreemptiveSchedule
from instances.problem.arrival_source import ArrivalSource
from instances.problem.preemptive_schedule import AnySchedule
from online.policy_interface.predictions import PredictionModel
from online.simulation.run import Run
from online.simulation.simulator import simulate

from .specs import PolicySpec

if TYPE_CHECKING:
    from hindsight import PreemptiveResult, Progress, SolveResult

_log = logging.getLogger(__name__)

COMPLETED = "completed"
FAILED = "failed"
"""Status of what ended with an error."""

UNSERVED = {
    "livelock": "evictions would repeat for ever",
    "stalled": "it starts nothing more, with requests left unserved",
    "round-limit": "the limit on rounds came first",
    "time-limit": "its time ran out",
    "interrupted": "it was interrupted",
}
"""Why a run did not complete, by its status."""


Optimum: TypeAlias = "SolveResult | PreemptiveResult"


@dataclass(frozen=True)
class Trial:
    """What came of a policy's run.

    Attributes
    ----------
    status : str
        As in `Record`.
    instance : Instance or None
        The one given, or what an arrival source realised.
    run : Run or None
        None where it raised an error.
    schedule : Schedule, PreemptiveSchedule or None
        With the completions of the run; None where there is none, for the ``reason``.
    error : Exception or None
        What the policy raised, or why a run that completed has no schedule.
    reason : str or None
        The same, or why requests were left unserved, in one line.
    """

    status: str
    instance: Instance | None
    run: Run | None = None
    schedule: AnySchedule | None = None
    error: Exception | None = None
    reason: str | None = None

    @property
    def preemptive(self) -> bool:
        """Whether it is the preemptive optimum that the run is compared with."""
        return isinstance(self.schedule, PreemptiveSchedule)

    @property
    def total_latency(self) -> int | None:
        """In rounds; None where it did not complete."""
        if self.run is None or self.status != COMPLETED:
            return None
        return int(self.run.total_latency)


def run_policy(
    problem: Instance | ArrivalSource,
    spec: PolicySpec,
    seed: int,
    *,
    predictions: PredictionModel | None = None,
    time_limit: float | None = None,
    stop: Callable[[], bool] | None = None,
    preemptive: bool = False,
) -> Trial:
    """Run a policy. Whatever it raises is its own failure and nobody else's.

    The schedule of a run that kept the tokens of preempted requests is a preemptive one; with
    ``preemptive`` that of every run is, and the trial is compared with the preemptive optimum.
    """
    from hindsight.runtime.clock import Clock

    clock = Clock(time_limit, stop)
    limited = stop is not None or time_limit is not None
    try:
        run = simulate(
            problem,
            spec.make(),
            seed=seed,
            predictions=predictions,
            # Where nothing is to stop it, what solves programs listens to Ctrl-C by itself.
            should_stop=clock.must_stop if limited else None,
        )
    except Exception as error:  # noqa: BLE001 (whatever a policy raises)
        _log.debug("policy %s failed", spec.label, exc_info=True)
        status = "refused" if isinstance(error, InvalidValueError) else FAILED
        known = problem if isinstance(problem, Instance) else None
        return Trial(status, known, error=error, reason=one_line(error))
    if run.status != COMPLETED:
        cut = run.status == "time-limit" and clock.is_interrupted
        status = "interrupted" if cut else run.status
        return Trial(status, run.instance, run, reason=UNSERVED[status])
    try:
        wanted = preemptive or run.keeps_tokens
        schedule = run.preemptive_schedule if wanted else run.schedule
        return Trial(COMPLETED, run.instance, run, schedule)
    except ValueError as error:
        return Trial(COMPLETED, run.instance, run, error=error, reason=str(error))


def find_optimum(
    instance: Instance,
    *,
    preemptive: bool = False,
    start: AnySchedule | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Optimum | Exception:
    """What is known of the optimum, with or without preemption, or the error of the search.

    ``options`` are those of `hindsight.solve`. What the caller's own ``progress`` raises is no
    failure of the solver, and is raised.
    """
    import hindsight

    raised = False

    def tell(news: Progress) -> None:
        nonlocal raised
        try:
            if progress is not None:
                progress(news)
        except BaseException:
            raised = True
            raise

    try:
        return hindsight.solve(
            instance, preemptive=preemptive, start=start, progress=tell, **options
        )
    except Exception as error:
        if raised:
            raise
        _log.debug("no optimum of %s", instance.name, exc_info=True)
        return error


def one_line(error: BaseException) -> str:
    """Kind and message of an error, without line breaks."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
