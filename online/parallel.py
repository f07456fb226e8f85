"""`compare_many`: policies against the hindsight optimum of many instances, on several cores."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instances import Instance
from instances.arrival_source import ArrivalSource
from instances.validation import as_integer, as_time_limit

from .comparison import PolicySpec, Record, compare, policy_specs

if TYPE_CHECKING:
    from hindsight import Progress

POLL_SECONDS = 0.2
"""How often news from the workers is passed on."""

Problem = Instance | ArrivalSource
Job = tuple[int, Problem, list[PolicySpec], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ComparisonProgress:
    """News from `compare_many`.

    Attributes
    ----------
    finished, total : instances.
    instance : the one the news is about.
    gap : (upper - lower) / upper of its interval so far; None when it is finished.
    """

    finished: int
    total: int
    instance: str | None
    gap: float | None


@dataclass(frozen=True)
class Comparison:
    """What `compare_many` found.

    Attributes
    ----------
    records : for each finished instance a record for each policy, in the order given, whatever
        the order in which they finished.
    total : instances asked for.
    finished : instances with records.
    interrupted : whether Ctrl-C ended it early.
    """

    records: tuple[Record, ...]
    total: int
    finished: int
    interrupted: bool


Listener = Callable[[ComparisonProgress], None]


def compare_many(
    instances: Iterable[Problem],
    policies: Iterable[str | PolicySpec] | None = None,
    *,
    jobs: int = 1,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Listener | None = None,
    policy_time_limit: float | None = None,
) -> Comparison:
    """`compare` on each instance, in ``jobs`` processes.

    Results do not depend on ``jobs``, except through the time limit. Ctrl-C ends the running
    searches, whose intervals stand, and skips the rest.

    Parameters
    ----------
    jobs : processes; 1 stays in this one. New processes import the main module afresh, so a
        script must guard its entry with ``if __name__ == "__main__"``.
    time_limit : seconds for each instance, or None.
    threads : of HiGHS in each process; None is one where ``jobs`` > 1, else HiGHS's choice.
    progress : told of every improvement and every finished instance, in this process.
    policy_time_limit : seconds for each policy's run on each instance, or None.

    Raises
    ------
    What `compare` raises; for the policies before anything is run.
    """
    jobs = as_integer(jobs, None, "jobs", minimum=1)
    specs = policy_specs(policies)
    problems = list(instances)
    jobs = min(jobs, max(1, len(problems)))
    if jobs > 1 and threads is None:
        threads = 1
    options = {
        "time_limit": as_time_limit(time_limit),
        "seed": seed,
        "threads": threads,
        "policy_time_limit": as_time_limit(policy_time_limit, field="policy_time_limit"),
    }
    todo: list[Job] = [(k, problem, specs, options) for k, problem in enumerate(problems)]
    report = _Reporter(problems, progress)
    if jobs == 1:
        interrupted = _in_turn(todo, report)
    else:
        interrupted = _Pool(jobs, report).run(todo)
    done = report.done
    records = tuple(record for position in sorted(done) for record in done[position])
    return Comparison(records, len(problems), len(done), interrupted)


class _Reporter:
    """Collects records and passes news on."""

    def __init__(self, problems: Sequence[Problem], listener: Listener | None) -> None:
        self.names = [problem.name for problem in problems]
        self.listener = listener
        self.done: dict[int, list[Record]] = {}

    def finish(self, position: int, records: list[Record]) -> None:
        self.done[position] = records
        self._tell(position, None)

    def improve(self, position: int, gap: float) -> None:
        self._tell(position, gap)

    def _tell(self, position: int, gap: float | None) -> None:
        if self.listener is not None:
            name = self.names[position]
            self.listener(ComparisonProgress(len(self.done), len(self.names), name, gap))


def _in_turn(todo: list[Job], report: _Reporter) -> bool:
    """Everything in this process; True when interrupted."""
    for position, problem, specs, options in todo:

        def hear(news: Progress, position: int = position) -> None:
            report.improve(position, news.gap)

        try:
            records = compare(problem, specs, progress=hear, **options)
        except KeyboardInterrupt:
            return True
        report.finish(position, records)
        if any(record.stop_reason == "interrupted" for record in records):
            return True
    return False


class _Pool:
    """Worker processes that ignore Ctrl-C except inside a search, which it ends."""

    def __init__(self, jobs: int, report: _Reporter) -> None:
        self.jobs = jobs
        self.report = report
        # Spawned, not forked: HiGHS keeps threads, and a fork copies their locks.
        self.context = multiprocessing.get_context("spawn")
        self.stop = self.context.Event()
        self.news = self.context.SimpleQueue()

    def run(self, todo: list[Job]) -> bool:
        """Everything in workers; True when interrupted."""
        before = {child.pid for child in multiprocessing.active_children()}
        interrupted = False
        with ProcessPoolExecutor(
            self.jobs, self.context, initializer=_begin_worker, initargs=(self.stop, self.news)
        ) as executor:
            futures = {executor.submit(_work, job): job[0] for job in todo}
            pending = set(futures)
            try:
                while pending:
                    try:
                        if interrupted:
                            self._interrupt_workers(before)
                        finished, pending = wait(pending, POLL_SECONDS)
                        self._collect(finished, futures)
                    except KeyboardInterrupt:
                        if interrupted:
                            self._kill_workers(before)
                            return True
                        interrupted = True
                        self.stop.set()
                        pending = {future for future in pending if not future.cancel()}
            except BaseException:
                # One instance failed: the others are not waited for.
                self.stop.set()
                executor.shutdown(wait=False, cancel_futures=True)
                self._kill_workers(before)
                raise
        return interrupted

    def _collect(
        self, finished: set[Future[list[Record] | None]], futures: dict[Future[Any], int]
    ) -> None:
        while not self.news.empty():
            self.report.improve(*self.news.get())
        for future in sorted(finished, key=futures.__getitem__):
            records = None if future.cancelled() else future.result()
            if records is not None:
                self.report.finish(futures[future], records)

    def _workers(self, before: set[int | None]) -> list[Any]:
        return [child for child in multiprocessing.active_children() if child.pid not in before]

    def _interrupt_workers(self, before: set[int | None]) -> None:
        # Repeated until all have answered: a worker just short of its search ignores the signal.
        for child in self._workers(before):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGINT)

    def _kill_workers(self, before: set[int | None]) -> None:
        for child in self._workers(before):
            child.terminate()


_worker: dict[str, Any] = {}


def _begin_worker(stop: Any, news: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker.update(stop=stop, news=news)


def _work(job: Job) -> list[Record] | None:
    """One instance in a worker; None when told to stop before it began."""
    position, problem, specs, options = job
    if _worker["stop"].is_set():
        return None

    def hear(news: Progress) -> None:
        _worker["news"].put((position, news.gap))

    return compare(problem, specs, progress=hear, **options)
