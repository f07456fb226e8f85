"""Where tasks are done: in this process or on the local cores. See `dask_cluster` for a cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from online.runtime.processes import POLL_SECONDS, WorkerDiedError, WorkerPool

from .store import Done
from .work import Task

Function = Callable[[Task], Done]


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
    capacity : int
        Tasks worth having submitted at once.
    pending : int
        Tasks submitted that have not come back.
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
        """Wait for a task to come back. What the function raises is raised here.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C, once all that has come back was handed on.
        """

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
    """A pool of this machine's processes (`online.runtime.processes`).

    They end when this one does.
    A task of which workers keep dying comes back as an error.

    Parameters
    ----------
    jobs : int
        Processes. They import the main module afresh, so a script must guard its entry with ``if
        __name__ == "__main__"``.
    should_stop : Callable[[], bool], optional
        Polled; True ends the wait for more.
    """

    def __init__(self, jobs: int, should_stop: Callable[[], bool] = lambda: False) -> None:
        self._should_stop = should_stop
        self._pool: WorkerPool[Task, Done] = WorkerPool(jobs)
        self._jobs = jobs
        self._back: deque[Completed] = deque()

    @property
    def capacity(self) -> int:
        """One task being done and one ready for each process."""
        return 2 * self._jobs

    @property
    def pending(self) -> int:
        """Tasks not yet handed back."""
        return self._pool.pending + len(self._back)

    def submit(self, function: Function, task: Task) -> None:
        """Hand it to the pool."""
        self._pool.submit(function, task)

    def next_completed(self) -> Completed:
        """Wait for a task.

        Raises
        ------
        KeyboardInterrupt
            To be stopped, with nothing left that has come back.
        """
        while not self._back:
            stopped = self._should_stop()
            found = self._pool.wait(0 if stopped else POLL_SECONDS)
            if stopped and not found:
                raise KeyboardInterrupt
            for back in found:
                died = back.error if isinstance(back.error, WorkerDiedError) else None
                done = None if died else back.value()
                self._back.append(Completed(back.task, done, died))
        return self._back.popleft()

    def close(self, *, at_once: bool = False) -> None:
        """End the processes."""
        self._pool.close()
