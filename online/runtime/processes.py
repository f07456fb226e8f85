"""Tasks done in this process or in workers on several cores, and how that ends.

Every worker has a pipe of its own to its parent, and shares nothing with the others, so that

* Ctrl-C, which a terminal sends to the whole group and a notebook to the kernel alone, means the
  same in both: SIGINT is blocked in a worker from its first instruction on (on Windows it is
  ignored), and what becomes of the work, the parent decides (`WorkerPool.stop`,
  `WorkerPool.close`);
* the end of the parent, however it comes, ends the pipe and with it the worker;
* a worker that dies takes along its own task and nothing else.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import resource_tracker, util
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeAlias, TypeVar

from instances import InvalidValueError
from instances.ctrl_c import Interruption
from instances.user_modules import import_sources, imported_sources
from instances.validation import as_integer

ALLOWED_DEATHS = 3
"""Workers that may die of a task before it counts as failed."""

LAST_SECONDS = 0.5
"""What a worker that is to end may take to clean up."""

POLL_SECONDS = 0.2
"""How often Ctrl-C is asked for while the workers say nothing."""

STOP = b""
"""The message that gives up what a worker does; any other is a pickled function and task."""

Task = TypeVar("Task")
Result = TypeVar("Result")

Work: TypeAlias = Callable[[Task, Callable[[], bool], Callable[[Any], None]], Result]
"""Does a task; told when to stop, and whom to tell of what is found on the way."""


class WorkerDiedError(RuntimeError):
    """The process that did a task ended without a word: killed, out of memory, crashed."""


@dataclass(frozen=True)
class Completed(Generic[Task, Result]):
    """A task that came back: with what it returned, or with what it raised or died of."""

    task: Task
    result: Result | None
    error: BaseException | None = None

    def value(self) -> Result:
        """Return what the task returned; what it raised is raised here."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # None is what it returned, then


@dataclass
class _Job(Generic[Task]):
    function: Callable[[Task], Any]
    task: Task
    deaths: int = 0


class _Worker:
    """A process and this end of its pipe. It is told nothing before it says that it listens."""

    def __init__(self, jobs: int) -> None:
        # Spawned, not forked: HiGHS keeps threads, and a fork copies their locks.
        context = multiprocessing.get_context("spawn")
        self.connection, other_end = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(other_end, imported_sources(), jobs), daemon=True
        )
        with _ctrl_c_blocked():
            self.process.start()
        other_end.close()
        self.listens = False
        self.job: _Job[Any] | None = None

    def begin(self, job: _Job[Any]) -> None:
        self.job = job
        # By value, where no module can be imported that has a class: a notebook, a script.
        import cloudpickle

        self.send(cloudpickle.dumps((job.function, job.task)))

    def send(self, message: bytes) -> None:
        # To a worker that has died nothing can be said: that it has is read from the pipe.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send_bytes(message)

    def death(self) -> str:
        """Tell how the process ended, once its pipe has."""
        self.end()
        code = self.process.exitcode or 0
        if code >= 0:
            return f"exit status {code}"
        return f"signal {-code}, {signal.strsignal(-code) or 'unknown'}"

    def end(self, seconds: float = 2 * LAST_SECONDS) -> None:
        """End it, whatever it does: at the end of its pipe it goes, unless it hangs."""
        self.connection.close()
        self.process.join(seconds)
        self.process.kill()
        self.process.join()


class WorkerPool(Generic[Task, Result]):
    """Tasks done on several processes, in any order; to be closed, or used in a ``with`` block.

    Parameters
    ----------
    jobs : int
        Processes, started as they are needed. They import the main module afresh, so a script must
        guard its entry with ``if __name__ == "__main__"``.
    allowed_deaths : int, default ALLOWED_DEATHS
        Workers that may die of a task before it comes back with a `WorkerDiedError`.
    hear : Callable[[Task, Any], None] or None, default None
        Called with a task and what it said with `tell`.
    """

    def __init__(
        self,
        jobs: int,
        *,
        allowed_deaths: int = ALLOWED_DEATHS,
        hear: Callable[[Task, Any], None] | None = None,
    ) -> None:
        self._jobs = as_integer(jobs, None, "jobs", minimum=1)
        self._allowed_deaths = allowed_deaths
        self._hear = hear
        self._waiting: deque[_Job[Task]] = deque()
        self._workers: list[_Worker] = []
        self._stopped = False
        self._stillborn = 0

    def __enter__(self) -> WorkerPool[Task, Result]:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def pending(self) -> int:
        """Tasks that have not come back."""
        return len(self._waiting) + sum(worker.job is not None for worker in self._workers)

    def submit(self, function: Callable[[Task], Result], task: Task) -> None:
        """Have ``function(task)`` done as soon as there is room; both are pickled."""
        self._waiting.append(_Job(function, task))
        self._assign()

    def wait(self, timeout: float | None = None) -> list[Completed[Task, Result]]:
        """Return what comes back next: nothing where there was only news, or none in time.

        Raises
        ------
        WorkerDiedError
            Processes cannot be started.
        """
        self._assign()
        ready = wait([worker.connection for worker in self._workers], timeout)
        heard = [self._read(worker) for worker in [*self._workers] if worker.connection in ready]
        back = [completed for completed in heard if completed is not None]
        self._assign()
        return back

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield results in the order of the tasks; what one raises is raised in its turn."""
        for numbered in enumerate(tasks):
            self.submit(partial(_of_second, function), numbered)  # type: ignore[arg-type]
        back: dict[int, Completed[Any, Result]] = {}
        for place in range(len(tasks)):
            while place not in back:
                back.update({each.task[0]: each for each in self.wait()})  # type: ignore[index]
            yield back.pop(place).value()

    def unordered(
        self,
        function: Callable[[Task], Result],
        tasks: Iterable[Task],
        should_stop: Callable[[], bool],
    ) -> Iterator[Completed[Task, Result]]:
        """Yield tasks as they come back; each is taken when there is room for it.

        Raises
        ------
        KeyboardInterrupt
            ``should_stop`` says so, and nothing is left that has come back.
        """
        coming = iter(tasks)
        while True:
            # One task being done and one ready for each process.
            for task in islice(coming, 2 * self._jobs - self.pending):
                self.submit(function, task)
            if not self.pending:
                return
            stopped = should_stop()
            back = self.wait(0 if stopped else POLL_SECONDS)
            if stopped and not back:
                raise KeyboardInterrupt
            yield from back

    def stop(self) -> None:
        """Give up what waits, and let `should_stop` say so to what is being done."""
        self._stopped = True
        self._waiting.clear()
        for worker in self._workers:
            worker.send(STOP)

    def close(self) -> None:
        """End the processes, whatever they do."""
        deadline = time.monotonic() + 2 * LAST_SECONDS
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.end(max(0.0, deadline - time.monotonic()))
        self._workers.clear()
        self._waiting.clear()

    def _assign(self) -> None:
        for worker in self._workers:
            if worker.listens and worker.job is None and self._waiting:
                worker.begin(self._waiting.popleft())
        starting = sum(not worker.listens for worker in self._workers)
        wanted = min(len(self._waiting) - starting, self._jobs - len(self._workers))
        self._workers += [_Worker(self._jobs) for _ in range(wanted)]

    def _read(self, worker: _Worker) -> Completed[Task, Result] | None:
        try:
            kind, content = worker.connection.recv()
        except (EOFError, OSError):
            return self._bury(worker)
        job = worker.job
        if job is None:
            self._stillborn = 0
            worker.listens = True
            return None
        if kind == "news":
            if self._hear is not None:
                self._hear(job.task, content)
            return None
        worker.job = None
        return Completed(job.task, *content)

    def _bury(self, worker: _Worker) -> Completed[Task, Result] | None:
        self._workers.remove(worker)
        how, job = worker.death(), worker.job
        if job is None:
            self._stillborn += not worker.listens
            if self._stillborn > self._jobs:
                raise WorkerDiedError(
                    f"workers die before they begin ({how}): a script that uses several processes "
                    'must guard its entry with if __name__ == "__main__"'
                )
            return None
        job.deaths += 1
        if job.deaths < self._allowed_deaths and not self._stopped:
            self._waiting.append(job)
            return None
        died = "the worker" if job.deaths == 1 else f"{job.deaths} workers"
        return Completed(job.task, None, WorkerDiedError(f"{died} died ({how})"))


def _of_second(function: Callable[[Task], Result], numbered: tuple[int, Task]) -> Result:
    return function(numbered[1])


def run_tasks(
    tasks: Sequence[Task],
    work: Work[Task, Result],
    jobs: int,
    pressed: Interruption,
    *,
    hear: Callable[[Task, Any], None],
    lost: Callable[[Task, str], Result],
    must_stop: Callable[[], int] | None = None,
    follows: Callable[[Task, Result], Iterable[Task]] = lambda task, result: (),
) -> Generator[tuple[Task, Result], None, None]:
    """Yield each task with what comes of it, as it comes; what has been begun is ended.

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
    must_stop : Callable[[], int] or None, default None
        Whether nothing more is to be begun; 2 also leaves what other processes have begun. None
        stops when ``pressed``.
    follows : Callable[[Task, Result], Iterable[Task]], optional
        What is to be done next, after everything else.
    """
    ended: Callable[[], int] = pressed if must_stop is None else must_stop
    if jobs == 1:
        queue = deque(tasks)
        while queue:
            task = queue.popleft()
            try:
                result = work(task, lambda: ended() > 0, partial(hear, task))
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
        while pool.pending and pressed.presses < 2 and ended() < 2:
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
    """Do a task in a worker; return None when told to stop before it began."""
    if should_stop():
        return None
    return work(task, should_stop, tell)


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Start processes that never see Ctrl-C; here one is only put off.

    Windows has no mask that a process inherits: workers there ignore Ctrl-C once they have begun.
    """
    mask = getattr(signal, "pthread_sigmask", None)
    if mask is None:
        yield
        return
    # It would unblock the signal when it starts, which it does beside the first worker.
    resource_tracker.ensure_running()
    before = mask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        mask(signal.SIG_SETMASK, before)


# --- in a worker -------------------------------------------------------------------------------

_stop = threading.Event()
_speaking = threading.Lock()
_parent: Connection | None = None


def should_stop() -> bool:
    """Tell whether the parent has given up the task being done."""
    return _stop.is_set()


def tell(news: object) -> None:
    """Say something about the task being done."""
    _say(pickle.dumps(("news", news)))


def _serve(connection: Connection, sources: Sequence[str], jobs: int) -> None:
    global _parent
    _parent = connection
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Here, as whoever starts workers need not load what they do.
    from hindsight.runtime.resources import share_memory

    share_memory(jobs)
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, tasks), daemon=True).start()
    for source in sources:
        # What is missing then is told by the task that needs it.
        with suppress(InvalidValueError):
            import_sources([source])
    _say(pickle.dumps(("begin", None)))
    while True:
        _say(_perform(tasks.get()))


def _listen(connection: Connection, tasks: queue.SimpleQueue[bytes]) -> None:
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, OSError):
            # The parent is gone, or wants no more: nobody waits for what is being done.
            _end()
        if message == STOP:
            _stop.set()
        else:
            tasks.put(message)


def _end() -> None:
    limit = threading.Timer(LAST_SECONDS, os._exit, [1])
    limit.daemon = True
    limit.start()
    # Libraries keep semaphores in the system, and would be told off for leaving them there.
    util._run_finalizers()  # type: ignore[attr-defined]
    os._exit(0)


def _perform(message: bytes) -> bytes:
    try:
        function, task = pickle.loads(message)  # noqa: S301 (from the parent)
        return pickle.dumps(("done", (function(task), None)))
    except BaseException as error:  # noqa: BLE001 (raised by the parent)
        error.add_note("in a worker:\n" + traceback.format_exc())
        try:
            answer = pickle.dumps(("done", (None, error)))
            pickle.loads(answer)  # noqa: S301 (just written)
        except Exception:  # noqa: BLE001 (not every exception can be pickled)
            told = RuntimeError(f"{type(error).__name__}: {error}")
            return pickle.dumps(("done", (None, told)))
        return answer


def _say(message: bytes) -> None:
    assert _parent is not None
    try:
        with _speaking:
            _parent.send_bytes(message)
    except (BrokenPipeError, ConnectionResetError):
        # Whoever listens to the same pipe ends the process.
        threading.Event().wait()
