"""One trial: a policy's run, and the optimum that it is held against.

`hindsight` is imported where something is solved: ``import online`` loads no solver.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from instances import (
    Instance,
    InvalidValueError,
    PreemptiveSchedule,
    SecondsSchedule,
    Workload,
)
from instances.batch_time import BatchTime
from instances.batch_time.seconds_schedule import COLUMNS
from instances.problem.arrival_source import ArrivalSource
from instances.problem.preemptive_schedule import AnySchedule
from instances.user_modules import users_line
from online.policy_interface.predictions import PredictionModel
from online.policy_interface.specs import PolicySpec
from online.simulation.run import NoScheduleError, Run
from online.simulation.simulator import simulate

from .ratios import Latency, seconds_of

if TYPE_CHECKING:
    from hindsight import Progress, SecondsProgress, SecondsResult, SolveResult

_log = logging.getLogger(__name__)

COMPLETED = "completed"
FAILED = "failed"
"""Status of what ended with an error."""

Listener: TypeAlias = "Callable[[Progress | SecondsProgress], None]"

UNSERVED = {
    "livelock": "evictions would repeat for ever",
    "stalled": "it starts nothing more, with requests left unserved",
    "round-limit": "the limit on rounds came first",
    "time-limit": "its time ran out",
    "interrupted": "it was interrupted",
}
"""Why a run did not complete, by its status."""


Optimum: TypeAlias = "SolveResult | SecondsResult"

AnyProblem: TypeAlias = Instance | Workload
"""What an optimum is of: in rounds, or in seconds."""

TrialSchedule: TypeAlias = AnySchedule | SecondsSchedule


@dataclass(frozen=True, eq=False)
class Trial:
    """What came of a policy's run.

    Attributes
    ----------
    status : str
        As in `Record`.
    problem : Instance or Workload or None
        The one given, or what an arrival source realised; with a batch time a workload.
    run : Run or None
        None where it raised an error.
    schedule : Schedule, PreemptiveSchedule, SecondsSchedule or None
        With the completions of the run; None where there is none, for the ``reason``.
    error : Exception or None
        What the policy raised, or why a run that completed has no schedule.
    reason : str or None
        The same, or why requests were left unserved, in one line.
    """

    status: str
    problem: AnyProblem | None
    run: Run | None = None
    schedule: TrialSchedule | None = None
    error: Exception | None = None
    reason: str | None = None

    @property
    def preemptive(self) -> bool:
        """Whether it is the preemptive optimum that the run is compared with."""
        return isinstance(self.schedule, PreemptiveSchedule)

    @property
    def instance(self) -> Instance | None:
        """The problem in rounds."""
        return self.problem if isinstance(self.problem, Instance) else None

    @property
    def schedule_in_rounds(self) -> AnySchedule | None:
        """The schedule, unless it is in seconds."""
        return None if isinstance(self.schedule, SecondsSchedule) else self.schedule

    @cached_property
    def total_latency(self) -> Latency | None:
        """In rounds or seconds; None where it did not complete."""
        if self.run is None or self.status != COMPLETED:
            return None
        if isinstance(self.schedule, SecondsSchedule):
            return seconds_of(self.schedule)
        total = self.run.total_latency
        return Fraction(total) if self.run.batch_time is not None else int(total)


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
    ``batch_time`` it is a schedule in seconds.
    """
    from hindsight.runtime.clock import Clock

    clock = Clock(time_limit, stop)
    limited = stop is not None or time_limit is not None
    known = problem if isinstance(problem, AnyProblem) else None
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
        return Trial(status, known, error=error, reason=one_line(error) + users_line(error))
    if run.status != COMPLETED:
        cut = run.status == "time-limit" and clock.is_interrupted
        status = "interrupted" if cut else run.status
        realised = run.instance if batch_time is None else known
        return Trial(status, realised, run, reason=UNSERVED[status])
    if batch_time is not None:
        try:
            return Trial(COMPLETED, run.workload, run, run.seconds_schedule)
        except NoScheduleError as error:
            return Trial(COMPLETED, run.workload, run, error=error, reason=str(error))
    try:
        wanted = preemptive or run.keeps_tokens
        schedule = run.preemptive_schedule if wanted else run.schedule
        return Trial(COMPLETED, run.instance, run, schedule)
    except ValueError as error:
        return Trial(COMPLETED, run.instance, run, error=error, reason=str(error))


@overload
def find_optimum(
    problem: Instance,
    *,
    preemptive: bool = False,
    start: AnySchedule | None = None,
    progress: Listener | None = None,
    **options: Any,
) -> SolveResult | Exception: ...


@overload
def find_optimum(
    problem: AnyProblem,
    *,
    preemptive: bool = False,
    start: TrialSchedule | None = None,
    progress: Listener | None = None,
    **options: Any,
) -> Optimum | Exception: ...


def find_optimum(
    problem: AnyProblem,
    *,
    preemptive: bool = False,
    start: TrialSchedule | None = None,
    progress: Listener | None = None,
    **options: Any,
) -> Optimum | Exception:
    """What is known of the optimum, or the error of the search.

    ``options`` are those of `hindsight.solve`. What the caller's own ``progress`` raises is no
    failure of the solver, and is raised.
    """
    import hindsight

    raised = False

    def tell(news: Progress | SecondsProgress) -> None:
        nonlocal raised
        try:
            if progress is not None:
                progress(news)
        except BaseException:
            raised = True
            raise

    try:
        solve: Callable[..., Optimum] = hindsight.solve
        return solve(problem, preemptive=preemptive, start=start, progress=tell, **options)
    except Exception as error:
        if raised:
            raise
        _log.debug("no optimum of %s", problem.name, exc_info=True)
        return error


def digest_of(schedule: TrialSchedule) -> str:
    """Content hash (SHA-256, hex), by which schedules of one problem can be told apart.

    Equal requests may change places: that makes no difference to anybody.
    """
    names: tuple[str, ...]
    if isinstance(schedule, SecondsSchedule):
        problem: AnyProblem = schedule.workload
        request, names, ends = schedule.request, COLUMNS[1:], schedule.round_starts.tolist()
    elif isinstance(schedule, PreemptiveSchedule):
        problem, request, ends = schedule.instance, schedule.request, []
        names = ("first_round", "rounds")
    else:
        problem, request, ends = schedule.instance, np.arange(len(schedule.instance)), []
        names = ("start_times",)
    stays: list[list[tuple[int, ...]]] = [[] for _ in range(len(problem))]
    columns = (getattr(schedule, name).tolist() for name in names)
    for index, *stay in zip(request.tolist(), *columns, strict=True):
        stays[index].append(tuple(stay))
    lengths = (problem.arrival_times, problem.prompt_lengths, problem.output_lengths)
    rows = sorted(zip(*(column.tolist() for column in lengths), stays, strict=True))
    return hashlib.sha256(repr((rows, ends)).encode()).hexdigest()


def one_line(error: BaseException) -> str:
    """Kind and message of an error, without line breaks."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
