"""`compare_many`: policies against the hindsight optimum of many instances, on several cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instances import Instance, html
from instances.batch_time import BatchTime
from instances.ctrl_c import Interruption
from instances.problem.arrival_source import ArrivalSource
from instances.progress import listener
from instances.validation import as_flag, as_integer, as_time_limit
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs
from online.runtime import processes
from online.runtime.processes import POLL_SECONDS, WorkerDiedError, WorkerPool
from online.runtime.table import Table

from .comparing import check_problem, compare
from .record_list import Records
from .running import lost_trial
from .trial import Trial

if TYPE_CHECKING:
    from hindsight import Progress, SecondsProgress

Problem = Instance | ArrivalSource
Job = tuple[int, Problem, list[PolicySpec], dict[str, Any]]


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


Listener = Callable[[ComparisonProgress], None]


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
    if jobs > 1 and threads is None:
        threads = 1
    options = {
        "time_limit": as_time_limit(time_limit),
        "seed": seed,
        "threads": threads,
        "policy_time_limit": as_time_limit(policy_time_limit, field="policy_time_limit"),
        "preemptive": as_flag(preemptive, None, "preemptive"),
        "batch_time": batch_time,
    }
    todo: list[Job] = [(k, problem, specs, options) for k, problem in enumerate(problems)]
    from hindsight.runtime.interruption import interruption

    # Nothing that workers do is broken off here; this process would be, by what it does itself.
    with interruption(2 if jobs == 1 else math.inf) as pressed, listener(progress) as told:
        report = _Reporter(problems, told)
        if jobs == 1:
            interrupted = _in_turn(todo, report, pressed)
        else:
            for spec in specs:
                spec.check_sendable()
            interrupted = _in_processes(todo, report, jobs, pressed)
    done = report.done
    records = tuple(record for position in sorted(done) for record in done[position])
    return Comparison(records, len(problems), len(done), interrupted)


class _Reporter:
    """Collects records and passes news on."""

    def __init__(self, problems: Sequence[Problem], listener: Listener | None) -> None:
        self.names = [problem.name for problem in problems]
        self.listener = listener
        self.done: dict[int, list[Trial]] = {}

    def finish(self, position: int, records: list[Trial]) -> None:
        self.done[position] = records
        self._tell(position, None)

    def improve(self, position: int, gap: float) -> None:
        self._tell(position, gap)

    def hear(self, job: Job, gap: float) -> None:
        self.improve(job[0], gap)

    def _tell(self, position: int, gap: float | None) -> None:
        if self.listener is not None:
            name = self.names[position]
            self.listener(ComparisonProgress(len(self.done), len(self.names), name, gap))


def _in_turn(todo: list[Job], report: _Reporter, pressed: Interruption) -> bool:
    """Everything in this process; True when interrupted."""
    for position, problem, specs, options in todo:

        def hear(news: Progress | SecondsProgress, position: int = position) -> None:
            report.improve(position, news.gap)

        try:
            found = compare(problem, specs, progress=hear, should_stop=pressed, **options)
        except KeyboardInterrupt:
            return True
        report.finish(position, [trial.alone() for trial in found])
        if pressed():
            return True
    return False


def _in_processes(todo: list[Job], report: _Reporter, jobs: int, pressed: Interruption) -> bool:
    """Everything in workers; True when interrupted."""
    # What an instance took that killed its worker is not tried again: it may have been hours.
    with WorkerPool[Job, list[Trial] | None](jobs, allowed_deaths=1, hear=report.hear) as pool:
        for job in todo:
            pool.submit(_work, job)
        told = False
        while pool.pending and pressed.presses < 2:
            if pressed() and not told:
                pool.stop()
                told = True
            for back in pool.wait(POLL_SECONDS):
                if isinstance(back.error, WorkerDiedError):
                    position, problem, specs, options = back.task
                    known = {
                        "seed": options["seed"],
                        "preemptive": options["preemptive"],
                        "in_seconds": options["batch_time"] is not None,
                    }
                    reason = str(back.error)
                    lost = [lost_trial(problem, spec, reason, **known) for spec in specs]
                    report.finish(position, [trial.alone() for trial in lost])
                elif (records := back.value()) is not None:
                    report.finish(back.task[0], records)
    return pressed()


def _work(job: Job) -> list[Trial] | None:
    """One instance in a worker; None when told to stop before it began."""
    _, problem, specs, options = job
    if processes.should_stop():
        return None
    found = compare(
        problem,
        specs,
        progress=lambda news: processes.tell(news.gap),
        should_stop=processes.should_stop,
        **options,
    )
    return [trial.alone() for trial in found]
