"""`run_experiment`: what is missing in a results file is computed and stored, trial by trial."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeAlias

import numpy as np

from instances.progress import listener
from online.comparison.trial import COMPLETED, FAILED
from online.runtime.processes import WorkerDiedError, WorkerPool

from .declaration import Experiment
from .plan import OptimumTask, Plan, make_plan, optimum_task
from .store import Done, Store
from .work import Task, failure, perform, perform_elsewhere

IN_FLIGHT = 200
"""Tasks that an executor has at once, so that hundreds of workers are busy."""


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
        """Share of all trials and optima that are done."""
        return self.done / max(1, self.total)


@dataclass(frozen=True)
class ExperimentOutcome:
    """Outcome of `run_experiment`.

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


Listener: TypeAlias = Callable[[ExperimentProgress], None]

Perform: TypeAlias = Callable[[Iterable[Task]], Iterator[Done]]
"""Does tasks in any order, taking each when there is room for it."""


def run_experiment(
    experiment: Experiment,
    results: str | os.PathLike[str],
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    retry_failed: bool = False,
    progress: Listener | bool | None = None,
) -> ExperimentOutcome:
    """Compute what ``results`` lacks of ``experiment``.

    First every policy on every instance, then the optimum of every instance, each stored once
    whichever policies share it. Each result is stored as it comes, so a run that was killed goes
    on where it stopped, and where every optimum is proved the results do not depend on ``jobs``,
    ``executor``, interruptions, or how many processes run the same experiment on one file.

    Parameters
    ----------
    experiment : Experiment
        What is run.
    results : str or os.PathLike
        SQLite file, made if it is not there.
    jobs : int, default 1
        Local processes; 1 stays in this one.
    executor : concurrent.futures.Executor or None, default None
        Takes the place of local processes; what it raises ends the run.
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
    WorkerVersionError
        A worker has other code than this process.
    KeyboardInterrupt
        Ctrl-C; what was finished is stored, and the message says how much that is.
    """
    from instances.ctrl_c import Interruption

    plan = make_plan(experiment)
    in_workers = executor is None and jobs > 1
    with (
        Store(results) as store,
        listener(progress) as told,
        # Where this process only waits and stores, neither is broken off.
        Interruption(math.inf if in_workers else 1) as pressed,
        _performing(experiment, jobs, executor, pressed) as perform_all,
    ):
        run = _Run(plan, store, perform_all, told)
        try:
            return run.run(retry_failed)
        except KeyboardInterrupt:
            stored = f"{run.done} of {run.total} trials and optima are stored"
            raise KeyboardInterrupt(f"{stored} in {os.fspath(results)}") from None


@contextmanager
def _performing(
    experiment: Experiment, jobs: int, executor: Executor | None, should_stop: Callable[[], bool]
) -> Iterator[Perform]:
    """Do tasks here, in local processes or elsewhere, as long as the ``with`` block lasts."""
    if executor is None and jobs == 1:
        yield partial(map, perform)
        return
    for spec in experiment.specs:
        spec.check_sendable()
    if executor is not None:
        yield partial(_on_executor, executor)
        return
    with WorkerPool[Task, Done](jobs) as pool:
        yield partial(in_processes, pool, perform_elsewhere, should_stop)


def _on_executor(executor: Executor, tasks: Iterable[Task]) -> Iterator[Done]:
    """Yield results as they come, and submit a task for each; at the end cancel what is left."""
    coming, waiting = iter(tasks), set[Future[Done]]()
    try:
        while True:
            some = islice(coming, IN_FLIGHT - len(waiting))
            waiting |= {executor.submit(perform_elsewhere, task) for task in some}
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        for future in waiting:
            future.cancel()


def in_processes(
    pool: WorkerPool[Task, Done],
    function: Callable[[Task], Done],
    should_stop: Callable[[], bool],
    tasks: Iterable[Task],
) -> Iterator[Done]:
    """Yield what a function makes of tasks in local processes; those that kill workers failed.

    Raises
    ------
    KeyboardInterrupt
        To be stopped, with nothing left that has come back.
    """
    for back in pool.unordered(function, tasks, should_stop):
        if isinstance(back.error, WorkerDiedError):
            yield failure(back.task, back.error)
        else:
            yield back.value()


class _Run:
    """State of a call of `run_experiment`."""

    def __init__(
        self, plan: Plan, store: Store, perform_all: Perform, listener: Listener | None
    ) -> None:
        self.plan = plan
        self.store = store
        self.perform_all = perform_all
        self.listener = listener
        self.total = self.done = self.failed = self.computed = 0

    def run(self, retry_failed: bool) -> ExperimentOutcome:
        plan, store = self.plan, self.store
        store.enter(plan)
        if retry_failed:
            store.forget_failures("trials", plan.trials)
        searches = 0 if plan.experiment.solver is None else 1 + (plan.experiment.level is not None)
        self.total = len(plan.trials) + searches * len(plan.documents)
        before = {key: status for key, (status, *_) in store.trials().items()}
        self._do("trials", plan.trials, before)
        wanted = self._optima()
        self.total = len(plan.trials) + len(wanted)
        if retry_failed:
            store.forget_failures("optima", wanted)
        self._do("optima", wanted, store.optima())
        return ExperimentOutcome(len(plan.trials), len(wanted), self.computed, self.failed)

    def _optima(self) -> dict[str, OptimumTask]:
        """List each instance's optima: the preemptive one for policies that may preempt.

        These declare it, or kept preempted tokens in some trial. With a service level also the
        search for the most requests on time.
        """
        plan, stored = self.plan, self.store.trials()
        options, level = plan.experiment.search_options(), plan.experiment.limits
        if options is None:
            return {}
        preempting = set(plan.experiment.preempting or ())
        preempting |= {task.spec.label for key, task in plan.trials.items() if stored[key][2]}
        # A run that left requests unserved realised only part of what its source would send.
        kinds = {
            (instance, task.spec.label in preempting): None
            for task, (status, instance, _) in (
                (task, stored[key]) for key, task in plan.trials.items()
            )
            if instance is not None and status == COMPLETED
        }
        ran = {digest for digest, _ in kinds}
        kinds.update(((digest, False), None) for digest in plan.documents if digest not in ran)
        tasks = []
        for digest, kept in kinds:
            document = plan.documents.get(digest) or self.store.document(digest)
            asked = partial(optimum_task, digest, document, options, plan.version)
            tasks.append(asked(preemptive=kept))
            tasks += [] if level is None else [asked(level=level)]
        return {task.key: task for task in tasks}

    def _do(self, table: str, tasks: Mapping[str, Task], stored: Mapping[str, str]) -> None:
        """Compute and store what is missing."""
        for key in tasks:
            if key in stored:
                self._count(table, stored[key])
        missing = _shuffled([task for key, task in tasks.items() if key not in stored])
        for row, realised in self.perform_all(self._still_missing(table, missing)):
            self.computed += self.store.add(row, realised)
            self._count(table, row.status)

    def _still_missing(self, table: str, tasks: Iterable[Task]) -> Iterator[Task]:
        """Yield tasks that no other process has done until their turn comes."""
        for task in tasks:
            status = self.store.status(table, task.key)
            if status is None:
                yield task
            else:
                self._count(table, status)

    def _count(self, table: str, status: str) -> None:
        self.done += 1
        self.failed += status == FAILED
        if self.listener is not None:
            stage = "policies" if table == "trials" else "optima"
            news = ExperimentProgress(self.done, self.total, self.failed, self.computed, stage)
            self.listener(news)


def _shuffled(tasks: Sequence[Task]) -> list[Task]:
    """Shuffle: processes that share a file should meet as late as possible."""
    return [tasks[k] for k in np.random.default_rng().permutation(len(tasks))]
