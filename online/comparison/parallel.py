"""`compare_many`: policies against the hindsight optimum of many instances, on several cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from instances import Instance, html
from instances.batch_time import BatchTime
from instances.problem.arrival_source import ArrivalSource
from instances.progress import listener
from instances.validation import as_flag, as_integer, as_time_limit
from online.policy_interface.specs import AnyPolicy, policy_specs
from online.runtime.table import Table
from online.runtime.tasks import run_tasks

from .comparing import check_problem, compare
from .record_list import Records
from .running import lost_trial
from .trial import Trial

if TYPE_CHECKING:
    from hindsight import Progress, SecondsProgress

Problem = Instance | ArrivalSource
Job: TypeAlias = tuple[int, Problem, dict[str, Any]]
"""Place, problem, and what else `compare` takes."""


@dataclass(frozen=True, slots=True)
class ComparisonProgress:
    """News from `compare_many`.

    Attributes
    ----------
    finished, total : int
        Instances.
    instance : str or None
        The one the news is about.
    gap : float or None
        (upper - lower) / upper of its interval so far; None when it is finished.
    """

    finished: int
    total: int
    instance: str | None
    gap: float | None

    def __str__(self) -> str:
        gap = "done" if self.gap is None else f"gap {math.ceil(self.gap * 1e4) / 100:g} %"
        return f"{self.finished}/{self.total}, {self.instance}: {gap}"

    @property
    def share(self) -> float:
        """Of all instances, those finished."""
        return self.finished / max(1, self.total)


@dataclass(frozen=True)
class Comparison:
    """What `compare_many` found.

    Attributes
    ----------
    records : tuple[Trial, ...]
        For each finished instance a trial for each policy, in the order given, whatever the order
        in which they finished.
    total : int
        Instances asked for.
    finished : int
        Instances with records.
    interrupted : bool
        Whether Ctrl-C ended it early.
    """

    records: tuple[Trial, ...]
    total: int
    finished: int
    interrupted: bool

    def __repr__(self) -> str:
        told = f"{self.finished} of {self.total} instances, {len(self.records)} records"
        return f"Comparison({told}{', interrupted' if self.interrupted else ''})"

    def frame(self) -> Any:
        """As `Records.frame`."""
        return Records(self.records).frame()

    def summary(self) -> Table:
        """As `Records.summary`."""
        return Records(self.records).summary()

    def _repr_html_(self) -> str:
        told = f"<div>{html.text(repr(self))}</div>" if self.interrupted else ""
        return told + Records(self.records)._repr_html_()


Listener: TypeAlias = Callable[[ComparisonProgress], None]


def compare_many(
    instances: Iterable[Problem],
    policies: AnyPolicy | Iterable[AnyPolicy] | None = None,
    *,
    jobs: int = 1,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Listener | bool | None = None,
    policy_time_limit: float | None = None,
    preemptive: bool = False,
    batch_time: BatchTime | None = None,
) -> Comparison:
    """`compare` on each instance, in ``jobs`` processes.

    Results do not depend on ``jobs``, except through the time limit. Ctrl-C ends the running
    searches, whose intervals stand, and skips the rest; a second one ends them without. A worker
    process that dies takes along its instance, whose records say so.

    Parameters
    ----------
    instances : Iterable[Problem]
        Instances, or arrival sources.
    policies : AnyPolicy or Iterable[AnyPolicy] or None, default None
        As in `compare`.
    jobs : int, default 1
        Processes; 1 stays in this one. New processes import the main module afresh, so a script
        must guard its entry with ``if __name__ == "__main__"``.
    time_limit : float or None, default None
        Seconds for each instance, or None.
    seed : int, default 0
        Of every random choice.
    threads : int or None, default None
        Of HiGHS in each process; None is one where ``jobs`` > 1, else HiGHS's choice.
    progress : Listener or bool or None, default None
        Told of every improvement and every finished instance, in this process; True shows that, in
        a notebook or a terminal.
    policy_time_limit : float or None, default None
        Seconds for each policy's run on each instance, or None.
    preemptive : bool, default False
        As in `compare`.
    batch_time : BatchTime or None, default None
        As in `compare`.

    Raises
    ------
    What `compare` raises; for the policies before anything is run.
    InvalidValueError
        A policy cannot be sent to another process.
    """
    jobs = as_integer(jobs, None, "jobs", minimum=1)
    specs = policy_specs(policies)
    problems = list(instances)
    for problem in problems:
        check_problem(problem, batch_time)
    jobs = min(jobs, max(1, len(problems)))
    options = {
        "policies": specs,
        "time_limit": as_time_limit(time_limit),
        "seed": seed,
        "threads": 1 if jobs > 1 and threads is None else threads,
        "policy_time_limit": as_time_limit(policy_time_limit, field="policy_time_limit"),
        "preemptive": as_flag(preemptive, None, "preemptive"),
        "batch_time": batch_time,
    }
    todo: list[Job] = [(k, problem, options) for k, problem in enumerate(problems)]
    done: dict[int, list[Trial]] = {}
    for spec in specs if jobs > 1 else ():
        spec.check_sendable()
    from hindsight.runtime.interruption import interruption

    # Nothing that workers do is broken off here; this process would be, by what it does itself.
    with interruption(2 if jobs == 1 else math.inf) as pressed, listener(progress) as told:

        def hear(job: Job, gap: float | None) -> None:
            if told is not None:
                told(ComparisonProgress(len(done), len(problems), job[1].name, gap))

        run = run_tasks(todo, _compared, jobs, pressed, hear=hear, lost=_lost)
        with closing(run):
            for job, found in run:
                done[job[0]] = found
                hear(job, None)
        interrupted = pressed() or len(done) < len(problems)
    records = tuple(trial for _, found in sorted(done.items()) for trial in found)
    return Comparison(records, len(problems), len(done), interrupted)


def _compared(
    job: Job, should_stop: Callable[[], bool], tell: Callable[[float], None]
) -> list[Trial]:
    _, problem, options = job

    def hear(news: Progress | SecondsProgress) -> None:
        tell(news.gap)

    found = compare(problem, progress=hear, should_stop=should_stop, **options)
    return [trial.alone() for trial in found]


def _lost(job: Job, reason: str) -> list[Trial]:
    """The trials of an instance of which nothing came back."""
    _, problem, options = job
    in_seconds = options["batch_time"] is not None
    known = {"preemptive": options["preemptive"], "in_seconds": in_seconds}
    return [
        lost_trial(problem, spec, options["seed"], reason, **known).alone()
        for spec in options["policies"]
    ]
