"""Tasks performed in this process, in worker processes, or by an executor of the user.

A worker process that dies ends only its task, which comes back with a `WorkerDiedError`. If the
parent process ends in any way, its workers end too.

After Ctrl-C no further task begins. Running tasks receive the signal: a solve in a task ends with
the bounds found so far, and the task comes back. A second Ctrl-C kills the workers.
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
    """A task with its place among the tasks, and its result or the exception that it raised."""

    place: int
    task: Task
    result: Result | None
    error: BaseException | None = None

    def value(self) -> Result:
        """Return the result of the task; raise the exception of the task instead, if any."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # None is the result of the task


def perform(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    jobs: int = 1,
    executor: Executor | None = None,
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
    """
    jobs = as_integer(jobs, None, "jobs", minimum=1)
    numbered = enumerate(tasks)
    if jobs == 1 and executor is None:
        yield from _here(function, numbered)
        return
    with Interruption(math.inf) as pressed:
        if executor is None:
            yield from _in_processes(function, numbered, jobs, pressed)
        else:
            yield from _elsewhere(function, numbered, executor, pressed)


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
    found: dict[int, Outcome[Task, Result]] = {}
    with closing(perform(function, tasks, jobs=jobs)) as outcomes:
        for place in range(len(tasks)):
            while place not in found:
                outcome = next(outcomes, None)
                if outcome is None:
                    raise KeyboardInterrupt
                found[outcome.place] = outcome
            yield found.pop(place).value()


def _here(function: Any, numbered: Iterable[tuple[int, Any]]) -> Iterator[Outcome[Any, Any]]:
    with Interruption() as pressed:
        for place, task in numbered:
            try:
                result = function(task)
            except KeyboardInterrupt:
                return
            yield Outcome(place, task, result)
            if pressed():
                return


def _elsewhere(
    function: Any, numbered: Iterable[tuple[int, Any]], executor: Executor, pressed: Interruption
) -> Iterator[Outcome[Any, Any]]:
    running = {
        executor.submit(_call, _pickled(function, task)): (place, task) for place, task in numbered
    }
    try:
        while running and not pressed():
            done, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
            for future in done:
                yield _outcome(future, *running.pop(future))
    finally:
        for future in running:
            future.cancel()


def _in_processes(
    function: Any, numbered: Iterator[tuple[int, Any]], jobs: int, pressed: Interruption
) -> Iterator[Outcome[Any, Any]]:
    idle = [_Worker(jobs) for _ in range(jobs)]
    running: dict[Future[Any], tuple[_Worker, int, Any]] = {}
    interrupted = False
    try:
        while True:
            while idle and not pressed() and (given := next(numbered, None)) is not None:
                worker = idle.pop()
                running[worker.submit(_pickled(function, given[1]))] = (worker, *given)
            if not running:
                return
            done, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
            if pressed.presses > 1:
                return
            if pressed() and not interrupted:
                interrupted = True
                for worker, *_ in running.values():
                    worker.interrupt()
            for future in done:
                worker, place, task = running.pop(future)
                idle.append(worker)
                yield _outcome(future, place, task, worker)
    finally:
        for worker in (*idle, *(worker for worker, *_ in running.values())):
            worker.end()


def _outcome(
    future: Future[Any], place: int, task: Any, worker: _Worker | None = None
) -> Outcome[Any, Any]:
    error = future.exception()
    if worker is not None and isinstance(error, BrokenProcessPool):
        error = WorkerDiedError(worker.death())
    return Outcome(place, task, None if error else future.result(), error)


class _Worker:
    """A process that performs one task at a time; a new process follows one that died.

    Each process has its own pool, because the death of a process breaks the pool for all others.
    """

    def __init__(self, jobs: int) -> None:
        self._start = (imported_sources(), jobs)
        self._process: Any = None
        self._open()

    def _open(self) -> None:
        # Spawned, not forked: HiGHS keeps threads, and a fork copies their locks.
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _begin, self._start)

    def submit(self, pickled: bytes) -> Future[Any]:
        with _ctrl_c_blocked():
            try:
                future = self._pool.submit(_call, pickled)
            except BrokenProcessPool:
                # The process died with its last task, or since.
                self._open()
                future = self._pool.submit(_call, pickled)
        (self._process,) = self._pool._processes.values()
        return future

    def interrupt(self) -> None:
        """Send Ctrl-C: a terminal sends it to workers as well, a notebook does not."""
        with suppress(ProcessLookupError, ValueError):
            os.kill(self._process.pid, signal.SIGINT)

    def death(self) -> str:
        """Return how the process ended."""
        self._pool.shutdown()
        code = self._process.exitcode
        is_killed = code is not None and code < 0
        how = f"signal {-code}, {signal.strsignal(-code)}" if is_killed else f"exit status {code}"
        return f"the worker died ({how})"

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
        self._pool.shutdown(cancel_futures=True)


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
    Interruption(math.inf).listen()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait_for_end([parent.sentinel])
        os._exit(1)
