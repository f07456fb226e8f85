"""Perform tasks in this process, in worker processes, or by an executor of the user.

If a worker process dies, only its task is lost: its outcome has a `BrokenExecutor` as error. If the
parent process ends in any way, its workers end too.

After Ctrl-C no further task begins. Running tasks receive the signal. If a task is solving an
instance, the solve ends with the bounds found so far, and the task has them as its result. A second
Ctrl-C kills the workers.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import closing, suppress
from functools import partial
from multiprocessing import connection, get_context, parent_process, resource_tracker
from typing import Any, NamedTuple

import cloudpickle

from instances import InvalidValueError
from instances.ctrl_c import Interruption
from instances.user_modules import import_sources, imported_sources
from instances.validation import as_integer

POLL_SECONDS = 0.2
"""Seconds between two checks for Ctrl-C while workers compute."""


class Outcome(NamedTuple):
    """A performed task with its result or its exception.

    Attributes
    ----------
    place : int
        Index of the task among all tasks.
    task : Any
        The task, the argument of the function.
    result : Any
        Result of the function; None after an exception.
    error : BaseException or None
        Exception that the function raised, or a `BrokenExecutor` if its worker process died.
    """

    place: int
    task: Any
    result: Any
    error: BaseException | None = None

    def value(self) -> Any:
        """Return the result of the task, or raise its exception."""
        if self.error is not None:
            raise self.error
        return self.result


def perform(
    function: Callable[[Any], Any],
    tasks: Iterable[Any],
    *,
    jobs: int = 1,
    executor: Executor | None = None,
) -> Generator[Outcome, None, None]:
    """Call a function for each task, and yield the outcomes in the order in which the calls end.

    After Ctrl-C, fewer outcomes than tasks are yielded. The caller must exhaust or close the
    iterator, because this ends the workers.

    Parameters
    ----------
    function : Callable[[Any], Any]
        Function of one task. It may be a local function: if workers cannot import it, its code is
        sent to them.
    tasks : Iterable[Any]
        Tasks. Each is read when its call begins. So an iterator may produce tasks that depend on
        the outcomes of earlier tasks.
    jobs : int, default 1
        Number of worker processes. 1 performs the tasks in this process, and exceptions of the
        function are raised here. Workers import the main module: a script must guard its entry with
        ``if __name__ == "__main__"``.
    executor : concurrent.futures.Executor or None, default None
        Performs the tasks instead of worker processes, for example on a cluster.
    """
    jobs = as_integer(jobs, None, "jobs", minimum=1)
    if jobs == 1 and executor is None:
        yield from _here(function, enumerate(tasks))
        return
    workers = [_Worker(jobs) for _ in range(jobs)] if executor is None else [executor]
    with Interruption(math.inf) as pressed:
        yield from _elsewhere(function, enumerate(tasks), workers, pressed)


def in_order(function: Callable[[Any], Any], tasks: Sequence[Any], jobs: int = 1) -> Iterator[Any]:
    """Call a function for each task, and yield the results in the order of the tasks.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C ended the calls before all tasks were performed.
    BrokenExecutor
        A worker process died.
    """
    found: dict[int, Outcome] = {}
    with closing(perform(function, tasks, jobs=jobs)) as outcomes:
        for place in range(len(tasks)):
            while place not in found:
                outcome = next(outcomes, None)
                if outcome is None:
                    raise KeyboardInterrupt
                found[outcome.place] = outcome
            yield found.pop(place).value()


def _here(function: Any, numbered: Iterable[tuple[int, Any]]) -> Iterator[Outcome]:
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
    function: Any, numbered: Iterator[tuple[int, Any]], idle: list[Any], pressed: Interruption
) -> Iterator[Outcome]:
    """Perform tasks in worker processes or by an executor, and yield outcomes as calls end.

    ``idle`` has the workers, each of which performs one task at a time. Or its only entry is an
    executor of the user, which is given all tasks at once.
    """
    workers = [one for one in idle if isinstance(one, _Worker)]
    running: dict[Future[Any], tuple[Any, int, Any]] = {}
    interrupted = False
    try:
        while True:
            while idle and not pressed() and (given := next(numbered, None)) is not None:
                worker = idle.pop() if workers else idle[0]
                call = cloudpickle.dumps((function, given[1]))
                running[worker.submit(_call, call)] = (worker, *given)
            if not running:
                return
            done, _ = futures.wait(running, POLL_SECONDS, futures.FIRST_COMPLETED)
            # Workers receive the first Ctrl-C and end their tasks early, so stop at the second one.
            # An executor of the user does not receive Ctrl-C, so stop at the first one.
            if pressed.presses > bool(workers):
                return
            if pressed() and not interrupted:
                interrupted = True
                for worker, *_ in running.values():
                    worker.interrupt()
            for future in done:
                worker, place, task = running.pop(future)
                if workers:
                    idle.append(worker)
                error = future.exception()
                yield Outcome(place, task, None if error else future.result(), error)
    finally:
        for future in running:
            future.cancel()
        for worker in workers:
            worker.end()


class _Worker:
    """A worker process that performs one task at a time, and is replaced if it dies.

    It has a process pool with one process. In a larger pool, a process that dies would break the
    pool for all other processes.
    """

    def __init__(self, jobs: int) -> None:
        # The process is spawned, because a fork would copy the locks of HiGHS's threads.
        start = (get_context("spawn"), _begin, (imported_sources(), jobs))
        self._open = partial(futures.ProcessPoolExecutor, 1, *start)
        self._pool = self._open()
        self._process: Any = None

    def submit(self, function: Any, call: bytes) -> Future[Any]:
        # Start multiprocessing's resource tracker now: its start unblocks SIGINT.
        resource_tracker.ensure_running()
        # Block SIGINT while a process starts. The new process inherits this, and unblocks SIGINT
        # when it has set its handler.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            future = self._pool.submit(function, call)
        except BrokenExecutor:
            # The process has died: start another one.
            self._pool = self._open()
            future = self._pool.submit(function, call)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        (self._process,) = self._pool._processes.values()
        return future

    def interrupt(self) -> None:
        """Send SIGINT to the process. At Ctrl-C a terminal does so too, but a notebook does not."""
        with suppress(ProcessLookupError, ValueError):
            os.kill(self._process.pid, signal.SIGINT)

    def end(self) -> None:
        """Kill the process, even in the middle of a task."""
        if self._process is not None:
            self._process.kill()
        self._pool.shutdown(cancel_futures=True)


def _call(pickled: bytes) -> Any:
    function, task = cloudpickle.loads(pickled)
    return function(task)


def _begin(sources: Sequence[str], jobs: int) -> None:
    """Prepare a new worker process, one of ``jobs``: import the user's modules, handle Ctrl-C.

    ``sources`` are the files and modules of the user that the parent process has imported.
    """
    from hindsight.runtime.resources import share_memory

    share_memory(jobs)
    for source in sources:
        # A module that cannot be imported here is an error only in a task that needs it.
        with suppress(InvalidValueError):
            import_sources([source])
    # From here on Ctrl-C ends a solve in this worker early. If no solve runs, it is ignored.
    Interruption(math.inf).listen()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
