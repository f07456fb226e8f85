"""Tasks performed in this process, in worker processes, or by an executor of the user's.

A worker process that dies ends only its own task, which comes back with a `WorkerDiedError`. If
the parent process ends in any way, its workers end too.

On Ctrl-C no further task is begun. Tasks that have begun receive the signal: a solve in them ends
with the bounds found so far, and the task comes back. A second Ctrl-C kills the workers.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import wait as wait_for_end
from typing import Any, Generic, TypeVar

from instances import InvalidValueError
from instances.ctrl_c import Interruption
from instances.user_modules import import_sources, imported_sources
from instances.validation import as_integer

POLL_SECONDS = 0.2
"""Seconds between two checks for Ctrl-C while workers compute."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerDiedError(RuntimeError):
    """The process that performed a task ended without a result: killed, or out of memory."""


@dataclass(frozen=True)
class Outcome(Generic[Task, Result]):
    """A task with its result, or with the exception that it raised."""

    task: Task
    result: Result | None
    error: BaseException | None = None

    def value(self) -> Result:
        """Return the result of the task; raise the exception of the task instead, if any."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # None is the result of the task


_pressed: Interruption | None = None


def should_stop() -> bool:
    """Return whether Ctrl-C has been pressed while this process performs tasks."""
    return _pressed is not None and _pressed()


def perform(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    must_end: Callable[[], bool] = lambda: False,
) -> Generator[Outcome[Task, Result], None, None]:
    """Call a function for each task; yield outcomes in the order in which the calls end.

    After Ctrl-C, fewer outcomes than tasks are yielded. Close the iterator, or exhaust it.

    Parameters
    ----------
    function : Callable[[Task], Result]
        Sent to workers by value where it has no importable module.
    tasks : Iterable[Task]
        Read as calls begin. An iterator may have further tasks after outcomes have been yielded.
    jobs : int, default 1
        Number of worker processes; 1 performs the tasks in this process, where exceptions are not
        caught. Workers import the main module: a script must guard its entry with
        ``if __name__ == "__main__"``.
    executor : concurrent.futures.Executor or None, default None
        Performs the tasks instead, for example on a cluster.
    must_end : Callable[[], bool]
        Asked now and then; True kills the workers.
    """
    jobs = as_integer(jobs, None, "jobs", minimum=1)
    if jobs == 1 and executor is None:
        yield from _here(function, tasks)
        return
    with Interruption(math.inf) as pressed:
        if executor is None:
            yield from _in_processes(function, tasks, jobs, pressed, must_end)
        else:
            yield from _elsewhere(function, tasks, executor, pressed)


def in_order(
    function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int = 1
) -> Iterator[Result]:
    """Call a function for each task; yield results in the order of the tasks.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C.
    WorkerDiedError
        A worker process died.
    """
    found: dict[int, Outcome[Any, Result]] = {}
    with closing(perform(_Numbered(function), list(enumerate(tasks)), jobs=jobs)) as outcomes:
        for place in range(len(tasks)):
            while place not in found:
                outcome = next(outcomes, None)
                if outcome is None:
                    raise KeyboardInterrupt
                found[outcome.task[0]] = outcome
            yield found.pop(place).value()


@dataclass(frozen=True)
class _Numbered(Generic[Task, Result]):
    function: Callable[[Task], Result]

    def __call__(self, numbered: tuple[int, Task]) -> Result:
        return self.function(numbered[1])


def _here(function: Any, tasks: Iterable[Any]) -> Iterator[Outcome[Any, Any]]:
    global _pressed
    outer = _pressed
    with Interruption() as pressed:
        for task in tasks:
            try:
                _pressed = pressed
                result = function(task)
            except KeyboardInterrupt:
                return
            finally:
                _pressed = outer
            yield Outcome(task, result)
            if pressed():
                return


def _in_processes(
    function: Any,
    tasks: Iterable[Any],
    jobs: int,
    pressed: Interruption,
    must_end: Callable[[], bool],
) -> Iterator[Outcome[Any, Any]]:
    waiting, suspects = iter(tasks), list[Any]()
    while True:
        # Of the tasks that ran when a worker died, each is repeated in a process of its own.
        alone = [suspects.pop()] if suspects else None
        pool = _Pool(1 if alone else jobs)
        try:
            given = iter(alone) if alone else waiting
            for outcome in pool.perform(function, given, pressed, must_end):
                if isinstance(outcome.error, BrokenProcessPool):
                    if not alone and jobs > 1:
                        suspects.append(outcome.task)
                        continue
                    outcome = Outcome(outcome.task, None, WorkerDiedError(pool.death()))
                yield outcome
        finally:
            pool.close()
        if pressed() or must_end() or not (suspects or alone or pool.broken):
            return


class _Pool:
    """A process pool that is given a task only when a worker is free for it."""

    def __init__(self, jobs: int) -> None:
        # Spawned, not forked: HiGHS keeps threads, and a fork copies their locks.
        start = (imported_sources(), jobs)
        self.jobs = jobs
        self.broken = False
        self.pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin, start)
        self.processes: list[Any] = []

    def perform(
        self,
        function: Any,
        tasks: Iterator[Any],
        pressed: Interruption,
        must_end: Callable[[], bool],
    ) -> Iterator[Outcome[Any, Any]]:
        running: dict[Future[Any], Any] = {}
        signalled = False
        while True:
            while len(running) < self.jobs and not self.broken and not pressed():
                task = next(tasks, self)
                if task is self:
                    break
                given = _pickled(function, task)
                try:
                    with _ctrl_c_blocked():
                        running[self.pool.submit(_call, given)] = task
                except BrokenProcessPool as broken:
                    # A worker died since the last wait.
                    self.broken = True
                    yield Outcome(task, None, broken)
                self.processes = list((self.pool._processes or {}).values())
            if not running:
                return
            done, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
            if pressed.presses > 1 or must_end():
                return
            if pressed() and not signalled:
                # A terminal sends Ctrl-C to workers as well, a notebook does not.
                signalled = True
                for process in self.processes:
                    with suppress(ProcessLookupError, ValueError):
                        os.kill(process.pid, signal.SIGINT)
            for future in done:
                error = future.exception()
                self.broken |= isinstance(error, BrokenProcessPool)
                yield Outcome(running.pop(future), None if error else future.result(), error)

    def death(self) -> str:
        """Return how the only worker ended."""
        # The processes of a broken pool have been ended; this waits until their status is known.
        self.pool.shutdown()
        code = self.processes[0].exitcode if self.processes else None
        if code is None or code >= 0:
            hint = 'a script must guard its entry with if __name__ == "__main__"'
            return f"the worker died (exit status {code}); {hint}"
        return f"the worker died (signal {-code}, {signal.strsignal(-code) or 'unknown'})"

    def close(self) -> None:
        """End the worker processes, whatever they do."""
        for process in self.processes:
            process.kill()
        self.pool.shutdown(cancel_futures=True)


def _elsewhere(
    function: Any, tasks: Iterable[Any], executor: Executor, pressed: Interruption
) -> Iterator[Outcome[Any, Any]]:
    running = {executor.submit(_call, _pickled(function, task)): task for task in tasks}
    try:
        while running and not pressed():
            done, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
            for future in done:
                error = future.exception()
                yield Outcome(running.pop(future), None if error else future.result(), error)
    finally:
        for future in running:
            future.cancel()


def _pickled(function: Any, task: Any) -> bytes:
    import cloudpickle

    pickled: bytes = cloudpickle.dumps((function, task))
    return pickled


def _call(pickled: bytes) -> Any:
    import cloudpickle

    function, task = cloudpickle.loads(pickled)
    return function(task)


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Start processes with SIGINT blocked until their handler is installed."""
    mask = getattr(signal, "pthread_sigmask", None)
    if mask is None:
        yield
        return
    # It would unblock the signal when it starts, together with the first worker.
    resource_tracker.ensure_running()
    before = mask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        mask(signal.SIG_SETMASK, before)


def _begin(sources: Sequence[str], jobs: int) -> None:
    """Prepare a worker process."""
    from hindsight.runtime.resources import share_memory

    share_memory(jobs)
    for source in sources:
        # A task that needs a missing one says so.
        with suppress(InvalidValueError):
            import_sources([source])
    # A solve in the worker counts Ctrl-C and ends early; a worker without a solve ignores it.
    global _pressed
    _pressed = Interruption(math.inf)
    _pressed.listen()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait_for_end([parent.sentinel])
        os._exit(1)
