"""Tasks on a Dask cluster, which needs the extra ``experiments``."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any

from instances import InvalidValueError
from online.runtime.processes import WorkerDiedError

from .store import Done
from .work import Task, failure

CONNECT_SECONDS = 20
WAITING_PER_THREAD = 2
"""Tasks ready for each thread of the cluster besides the one it does."""

_log = logging.getLogger(__name__)

Function = Callable[[Task], Done]


class ClusterError(ConnectionError):
    """The cluster cannot be reached or was lost; what had come back is stored."""


class DaskCluster:
    """A cluster that is already running.

    A worker that dies is the scheduler's business: it sends the tasks to others, and gives one up
    after ``distributed.scheduler.allowed-failures`` deaths; then it comes back as an error. Workers
    with one thread each (``dask worker --nthreads 1``) are what the solvers want.

    What goes wrong is raised here, so what distributed prints about it on the error output, stack
    traces included, goes to this module's logger at the level ``DEBUG`` until `close`.

    Parameters
    ----------
    address : str
        Of the scheduler, such as ``"tcp://127.0.0.1:8786"``.

    Raises
    ------
    InvalidValueError
        Distributed is not installed, or the address is none.
    ClusterError
        Nobody answers there.
    """

    def __init__(self, address: str) -> None:
        try:
            # Its calls have no types: the name has none either.
            distributed: Any = import_module("distributed")
        except ImportError:
            reason = "needs the package 'distributed': pip install 'llm-hindsight[experiments]'"
            raise InvalidValueError(None, "scheduler", address, reason) from None
        self._distributed = distributed
        with contextlib.ExitStack() as held:
            held.enter_context(messages_rerouted())
            try:
                self._client = distributed.Client(
                    address, timeout=CONNECT_SECONDS, set_as_default=False
                )
            except ValueError as error:
                reason = f"is refused: {error}"
                raise InvalidValueError(None, "scheduler", address, reason) from None
            except OSError as error:
                raise ClusterError(f"no Dask scheduler answers at {address}: {error}") from None
            held.callback(self._client.close)
            self._held = held.pop_all()
        self._address = address
        self._tasks: dict[str, Task] = {}
        self._finished = distributed.as_completed(loop=self._client.loop)

    def map(self, function: Function, tasks: Iterable[Task]) -> Iterator[Done]:
        """Yield what a function makes of tasks, each taken when there is room for it.

        Raises
        ------
        ClusterError
            The scheduler is gone.
        What the function raises.
        """
        coming = iter(tasks)
        while True:
            for task in islice(coming, max(0, self._capacity - len(self._tasks))):
                self._submit(function, task)
            if not self._tasks:
                return
            yield self._next(function)

    @property
    def _capacity(self) -> int:
        """Tasks worth having submitted: at least a few, so that workers who join find work."""
        workers = self._client.scheduler_info(n_workers=-1).get("workers", {})
        threads: int = sum(worker["nthreads"] for worker in workers.values())
        return max(4, (1 + WAITING_PER_THREAD) * threads)

    def _submit(self, function: Function, task: Task) -> None:
        # The key is what defines the task, so two runs on one cluster share the work.
        future = self._client.submit(function, task, key=f"llm-hindsight-{task.key}", pure=True)
        self._tasks[future.key] = task
        self._finished.add(future)

    def _next(self, function: Function) -> Done:
        while True:
            future: Any = next(self._finished)
            task = self._tasks.pop(future.key)
            if future.status == "error":
                raised: BaseException = future.exception()
                if isinstance(raised, self._distributed.KilledWorker):
                    return failure(task, WorkerDiedError("the cluster's workers died of it"))
                raise raised
            if future.status == "finished":
                with contextlib.suppress(OSError, self._distributed.client.FutureCancelledError):
                    done: Done = future.result()
                    return done
            if self._client.status != "running":
                raise ClusterError(f"the Dask scheduler at {self._address} was lost")
            # Its worker died after the work was done, and took the result along.
            future.release()
            self._submit(function, task)

    def close(self) -> None:
        """Leave the cluster running, without this run's tasks."""
        self._finished.clear()
        self._held.close()


@contextlib.contextmanager
def messages_rerouted() -> Iterator[None]:
    """Log what distributed would print with this module's logger; leave other handlers alone."""

    # A new filter each time: two clusters in use at once do not end each other's.
    def reroute(record: logging.LogRecord) -> bool:
        _log.debug("%s: %s", record.name, record.getMessage(), exc_info=record.exc_info)
        return False

    printing = [
        handler
        for name in list(logging.root.manager.loggerDict)
        if name.partition(".")[0] in ("distributed", "tornado")
        for handler in logging.getLogger(name).handlers
        if type(handler) is logging.StreamHandler
    ]
    for handler in printing:
        handler.addFilter(reroute)
    try:
        yield
    finally:
        for handler in printing:
            handler.removeFilter(reroute)
