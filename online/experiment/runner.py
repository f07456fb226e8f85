"""`run_experiment`: what is missing in a results file is computed and stored, trial by trial."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from instances.progress import listener
from online.comparison.trial import COMPLETED, FAILED

from .declaration import Experiment
from .executors import Completed, Executor, InThisProcess, LocalProcesses
from .plan import OptimumTask, Plan, make_plan, optimum_task
from .store import Store, TrialDone
from .work import Task, failure, perform, perform_elsewhere


@dataclass(frozen=True)
class ExperimentProgress:
    """News from `run_experiment`.

    Attributes
    ----------
    done, total : int
        Trials and optima stored, and asked for. The total grows where an adaptive source realises
        instances whose optima are then wanted.
    failed : int
        Those of ``done`` that ended with an error.
    computed : int
        Those of ``done`` that this call computed: the others were in the file.
    stage : str
        ``"policies"`` or ``"optima"``.
    """

    done: int
    total: int
    failed: int
    computed: int
    stage: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.done}/{self.total} done, {self.failed} failed"

    @property
    def share(self) -> float:
        """Of all trials and optima, those done."""
        return self.done / max(1, self.total)


@dataclass(frozen=True)
class ExperimentOutcome:
    """What `run_experiment` did.

    Attributes
    ----------
    trials, optima : int
        Asked for.
    computed : int
        Of both, by this call.
    failed : int
        Of both, stored with an error.
    """

    trials: int
    optima: int
    computed: int
    failed: int


Listener = Callable[[ExperimentProgress], None]


def run_experiment(
    experiment: Experiment,
    results: str | os.PathLike[str],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    retry_failed: bool = False,
    progress: Listener | bool | None = None,
) -> ExperimentOutcome:
    """Compute what ``results`` lacks of ``experiment``.

    First every policy on every instance, then the optimum of every instance, each stored once
    whichever policies share it. Each result is stored as it comes, so a run that was killed goes
    on where it stopped, and where every optimum is proved the results do not depend on ``jobs``,
    ``scheduler``, interruptions, or how many processes run the same experiment on one file.

    Parameters
    ----------
    experiment : Experiment
        What is run.
    results : str or os.PathLike
        SQLite file, made if it is not there.
    jobs : int, default 1
        Local processes; 1 stays in this one.
    scheduler : str or None, default None
        Address of a Dask scheduler, which takes the place of local processes.
    retry_failed : bool, default False
        Try those again that are stored with an error.
    progress : Listener or bool or None, default None
        Told of every result, in this process; True shows that, in a notebook or a terminal.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A generator refuses its parameters, a bad argument, a policy that cannot be sent to another
        process.
    FileFormatError, OSError
        The file is not one of ours, or cannot be written; a trace or instance cannot be read.
    ClusterError
        The scheduler cannot be reached, or was lost.
    WorkerVersionError
        A worker has other code than this process.
    KeyboardInterrupt
        Ctrl-C; what was finished is stored, and the message says how much that is.
    """
    from hindsight.runtime.interruption import interruption

    plan = make_plan(experiment)
    in_workers = scheduler is None and jobs > 1
    with (
        Store(results) as store,
        listener(progress) as told,
        # Where this process only waits and stores, neither is broken off.
        interruption(math.inf if in_workers else 1) as pressed,
    ):
        executor = _executor(experiment, jobs, scheduler, pressed)
        run = _Run(plan, store, executor, told)
        try:
            outcome = run.run(retry_failed)
        except KeyboardInterrupt:
            executor.close(at_once=True)
            stored = f"{run.done} of {run.total} trials and optima are stored"
            raise KeyboardInterrupt(f"{stored} in {os.fspath(results)}") from None
        except BaseException:
            executor.close(at_once=True)
            raise
        executor.close()
    return outcome


def _executor(
    experiment: Experiment, jobs: int, scheduler: str | None, should_stop: Callable[[], bool]
) -> Executor:
    if scheduler is not None or jobs > 1:
        for spec in experiment.specs:
            spec.check_sendable()
    if scheduler is not None:
        from .dask_cluster import DaskCluster

        return DaskCluster(scheduler)
    if jobs == 1:
        return InThisProcess()
    return LocalProcesses(jobs, should_stop)


class _Run:
    """One call of `run_experiment`."""

    def __init__(
        self, plan: Plan, store: Store, executor: Executor, listener: Listener | None
    ) -> None:
        self.plan = plan
        self.store = store
        self.executor = executor
        self.listener = listener
        self.total = 0
        self.done = 0
        self.failed = 0
        self.computed = 0

    def run(self, retry_failed: bool) -> ExperimentOutcome:
        plan, store = self.plan, self.store
        store.enter(plan)
        if retry_failed:
            store.forget_failures("trials", plan.trials)
        given = 0 if plan.experiment.solver is None else len(plan.documents)
        self.total = len(plan.trials) + given
        before = {key: status for key, (status, *_) in store.trials().items()}
        self._do("trials", plan.trials, before)
        wanted = self._optima()
        self.total = len(plan.trials) + len(wanted)
        if retry_failed:
            store.forget_failures("optima", wanted)
        self._do("optima", wanted, store.optima())
        return ExperimentOutcome(len(plan.trials), len(wanted), self.computed, self.failed)

    def _optima(self) -> dict[str, OptimumTask]:
        """The optimum of each instance, the preemptive one where a run kept preempted tokens."""
        plan, solver = self.plan, self.plan.experiment.solver
        if solver is None:
            return {}
        stored = self.store.trials()
        # A run that left requests unserved realised only part of what its source would send.
        kinds = {
            (instance, kept): None
            for status, instance, kept in (stored[key] for key in plan.trials)
            if instance is not None and status == COMPLETED
        }
        ran = {digest for digest, _ in kinds}
        kinds.update(((digest, False), None) for digest in plan.documents if digest not in ran)
        tasks = [
            optimum_task(
                *(digest, plan.documents.get(digest) or self.store.document(digest)),
                *(solver, plan.version),
                preemptive=kept,
                batch_time=plan.experiment.coefficients,
            )
            for digest, kept in kinds
        ]
        return {task.key: task for task in tasks}

    def _do(self, table: str, tasks: Mapping[str, Task], stored: Mapping[str, str]) -> None:
        """Compute and store what is missing."""
        stage = "policies" if table == "trials" else "optima"
        for key in tasks:
            if key in stored:
                self._count(stage, stored[key] == FAILED)
        missing = _shuffled([task for key, task in tasks.items() if key not in stored])
        executor = self.executor
        work = perform if isinstance(executor, InThisProcess) else perform_elsewhere
        for task in missing:
            while executor.pending >= executor.capacity:
                self._collect(stage)
            status = self.store.status(table, task.key)
            if status is None:
                executor.submit(work, task)
            else:
                self._count(stage, status == FAILED)
        while executor.pending:
            self._collect(stage)

    def _collect(self, stage: str) -> None:
        back: Completed = self.executor.next_completed()
        if back.done is not None:
            done = back.done
        else:
            assert back.error is not None
            done = failure(back.task, back.error)
        self.computed += self.store.add(done)
        row = done.row if isinstance(done, TrialDone) else done
        self._count(stage, row.status == FAILED)

    def _count(self, stage: str, failed: bool) -> None:
        self.done += 1
        self.failed += failed
        if self.listener is not None:
            news = ExperimentProgress(self.done, self.total, self.failed, self.computed, stage)
            self.listener(news)


def _shuffled(tasks: Sequence[Task]) -> list[Task]:
    """Any order will do, and processes that share a file should meet as late as possible."""
    return [tasks[k] for k in np.random.default_rng().permutation(len(tasks))]
