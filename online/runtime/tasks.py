"""Tasks in turn or on several cores, until they are done or have to stop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from instances.ctrl_c import Interruption

from . import processes
from .processes import POLL_SECONDS, WorkerDiedError, WorkerPool

Task = TypeVar("Task")
Result = TypeVar("Result")

Work: TypeAlias = Callable[[Task, Callable[[], bool], Callable[[Any], None]], Result]
"""Does a task; told when to stop, and whom to tell of what is found on the way."""


def run_tasks(
    tasks: Sequence[Task],
    work: Work[Task, Result],
    jobs: int,
    pressed: Interruption,
    *,
    hear: Callable[[Task, Any], None],
    lost: Callable[[Task, str], Result],
    must_stop: Callable[[], bool] | None = None,
    follows: Callable[[Task, Result], Iterable[Task]] = lambda task, result: (),
) -> Generator[tuple[Task, Result], None, None]:
    """Each task with what comes of it, as it comes; what has been begun is ended.

    Close the generator before an error of the caller's goes on, or workers are left behind.

    Parameters
    ----------
    tasks : Sequence[Task]
        In the order in which they are begun.
    work : Work
        In workers it must be importable, or be sent by value.
    jobs : int
        Processes; 1 stays in this one.
    pressed : Interruption
        Ctrl-C; a second one leaves what has been begun.
    hear : Callable[[Task, Any], None]
        Told of news on the way.
    lost : Callable[[Task, str], Result]
        The result of a task whose worker died, for this reason.
    must_stop : Callable[[], bool] or None, default None
        Whether nothing more is to be begun; None stops when ``pressed``.
    follows : Callable[[Task, Result], Iterable[Task]], optional
        What is to be done next, after everything else.
    """
    ended = pressed if must_stop is None else must_stop
    if jobs == 1:
        queue = deque(tasks)
        while queue:
            task = queue.popleft()
            try:
                result = work(task, ended, partial(hear, task))
            except KeyboardInterrupt:
                return
            queue += follows(task, result)
            yield task, result
            if ended():
                return
        return
    # What took hours and killed its worker is not tried again.
    with WorkerPool[Task, Result | None](jobs, allowed_deaths=1, hear=hear) as pool:
        here = partial(_in_worker, work)
        for task in tasks:
            pool.submit(here, task)
        told = False
        while pool.pending and pressed.presses < 2:
            if not told and ended():
                pool.stop()
                told = True
            for back in pool.wait(POLL_SECONDS):
                died = isinstance(back.error, WorkerDiedError)
                done = lost(back.task, str(back.error)) if died else back.value()
                if done is None:
                    continue
                for task in () if told else follows(back.task, done):
                    pool.submit(here, task)
                yield back.task, done


def _in_worker(work: Work[Task, Result], task: Task) -> Result | None:
    """A task in a worker; None when told to stop before it began."""
    if processes.should_stop():
        return None
    return work(task, processes.should_stop, processes.tell)
