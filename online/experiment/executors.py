"""Where tasks are done: in this process or on the local cores. See `dask_cluster` for a cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Protocol

from instances.validation import as_integer

from .work import Done, Task

Function = Callable[[Task], Done]

ALLOWED_DEATHS = 3
"""Workers that may die of a task, alone with it, before the task counts as failed."""


class WorkerDiedError(RuntimeError):
    """The process that did a task ended without a word: killed, out of memory, crashed."""


@dataclass(frozen=True)
class Completed:
    """A task that came back: with what it returned, or with the death of its workers."""

    task: Task
    done: Done | None
    error: WorkerDiedError | None = None


class Executor(Protocol):
    """Does tasks, several at a time, in any order.

    Attributes
    ----------
    capacity : tasks worth having submitted at once.
    pending : tasks submitted that have not come back.
    """

    @property
    def capacity(self) -> int:
        """Tasks worth having submitted at once."""

    @property
    def pending(self) -> int:
        """Tasks submitted that have not come back."""

    def submit(self, function: Function, task: Task) -> None:
        """Begin ``function(task)`` as soon as there is room."""

    def next_completed(self) -> Completed:
        """Wait for a task to come back. What the function raises is raised here."""

    def close(self, *, at_once: bool = False) -> None:
        """Release everything; ``at_once`` gives up what is still being done."""


class InThisProcess:
    """One task at a time, here."""

    capacity = 1

    def __init__(self) -> None:
        self._waiting: deque[tuple[Function, Task]] = deque()

    @property
    def pending(self) -> int:
        """Tasks not yet done."""
        return len(self._waiting)

    def submit(self, function: Function, task: Task) -> None:
        """Keep it for `next_completed`."""
        self._waiting.append((function, task))

    def next_completed(self) -> Completed:
        """Do the first task."""
        function, task = self._waiting.popleft()
        return Completed(task, function(task))

    def close(self, *, at_once: bool = False) -> None:
        """Nothing is held."""


class LocalProcesses:
    """Spawned processes, which end when this one does, however it ends.

    Where a worker dies, the pool is built anew and the tasks that were with it are done one at a
    time, so that the one that kills is found: after `ALLOWED_DEATHS` it comes back as an error.

    Parameters
    ----------
    jobs : processes. They import the main module afresh, so a script must guard its entry with
        ``if __name__ == "__main__"``.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = as_integer(jobs, None, "jobs", minimum=1)
        self._before = {child.pid for child in multiprocessing.active_children()}
        self._pool = self._new_pool()
        self._running: dict[Future[Done], tuple[Function, Task]] = {}
        self._suspects: deque[tuple[Function, Task]] = deque()
        self._deaths: Counter[str] = Counter()

    @property
    def capacity(self) -> int:
        """One task being done and one ready for each process."""
        return 2 * self._jobs

    @property
    def pending(self) -> int:
        """Tasks with the workers, or suspected of having killed one."""
        return len(self._running) + len(self._suspects)

    def submit(self, function: Function, task: Task) -> None:
        """Hand it to the pool, or let it wait while suspects are tried."""
        if self._suspects:
            self._suspects.append((function, task))
            return
        try:
            self._running[self._pool.submit(function, task)] = (function, task)
        except BrokenProcessPool:
            self._suspects.append((function, task))

    def next_completed(self) -> Completed:
        """Wait for a task, through as many new pools as it takes."""
        while True:
            alone = not self._running
            if alone:
                function, task = self._suspects.popleft()
                with contextlib.suppress(BrokenProcessPool):
                    self._running[self._pool.submit(function, task)] = (function, task)
                if not self._running:
                    self._suspects.appendleft((function, task))
                    self._replace_pool()
                    continue
            finished, _ = wait(self._running, return_when=FIRST_COMPLETED)
            future = finished.pop()
            function, task = self._running.pop(future)
            try:
                return Completed(task, future.result())
            except BrokenProcessPool:
                if not alone:
                    self._suspects.append((function, task))
                    continue
                self._replace_pool()
                self._deaths[task.key] += 1
                if self._deaths[task.key] >= ALLOWED_DEATHS:
                    reason = f"{ALLOWED_DEATHS} worker processes died of it"
                    return Completed(task, None, WorkerDiedError(reason))
                self._suspects.appendleft((function, task))

    def close(self, *, at_once: bool = False) -> None:
        """End the processes."""
        self._pool.shutdown(wait=not at_once, cancel_futures=True)
        if at_once:
            for child in multiprocessing.active_children():
                if child.pid not in self._before:
                    child.kill()

    def _new_pool(self) -> ProcessPoolExecutor:
        # Spawned, not forked: HiGHS keeps threads, and a fork copies their locks.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._jobs, context, initializer=_begin_worker)

    def _replace_pool(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._new_pool()


def _begin_worker() -> None:
    # Ctrl-C reaches the whole group of a terminal; what becomes of the work, the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed parent cannot say goodbye, and its workers would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
