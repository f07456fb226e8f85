"""Compute a headroom report in limited time: simulations, bounds, then further policies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import takewhile
from typing import Any

from hindsight.runtime.clock import Clock
from hindsight.runtime.resources import available_cores
from instances.ctrl_c import Interruption
from instances.validation import as_integer, as_number
from online.workers import perform

from .answer import Headroom
from .question import Question
from .tasks import Enclose, Failure, Serve, Served, Task, result_of

QUICK, QUICK_SHARE = 10.0, 0.6
"""Time limit of a quick report, in seconds, and the share of it that simulations may take."""

SHARES = {"simulate": 0.3, "policies": 0.25, "policy": 0.05, "bounds": 1.0}
"""Longest time of each computation, as a share of the time limit (for bounds: of the time left)."""

FEWEST, REPLICAS = 0.5, 0.02
"""Shares of the time for bounds: for the fewest replicas, and for each other number."""

STOP = 0.95
"""Share of the time limit after which computations stop, so that the report is ready in time."""

SAMPLES = (1000, 100, 10, 1)
"""Numbers of first requests on which today's policy may be timed. Time decides which is used."""

PATIENCE = 2.0
"""A policy may be simulated at least this many times as long as today's policy took."""

SHORT_RUN = 1.0
"""If a simulation takes at most these seconds, simulations run without worker processes."""

MOST_TRIED, LIKELY_TRIED = 10, 5
"""Limit on how many counts of replicas are tried, and how many the time is planned for."""


Progress = Callable[[int, int, str, Headroom | None], object]
"""Called with the numbers of finished and all tasks, a text, and once the first report or None."""


def measure_headroom(
    question: Question,
    time_limit: float = 600.0,
    *,
    quick: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Headroom:
    """Bound the latency that the best scheduler could have saved, and simulate what policies save.

    After Ctrl-C or the time limit the result has the tasks finished until then, and the names of
    the others.

    Parameters
    ----------
    question : Question
        The requests, the scheduler of today, and the proposals.
    time_limit : float, default 600.0
        Seconds for the whole computation, > 0. If simulations of all requests would take too long,
        the result is for the first requests of the log and states their number.
    quick : bool, default False
        End after the simulations of today's policy and of the proposals, after about `QUICK`
        seconds, and compute no bounds.
    jobs : int or None, default None
        Number of worker processes. None takes one per core if a simulation takes longer than
        `SHORT_RUN` seconds, and this process otherwise.
    progress : Progress or None, default None
        Called after each task, and once with the first report (see `Progress`).

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A parameter is out of range.
    """
    time_limit = as_number(time_limit, None, "time_limit", above=0)
    if jobs is not None:
        jobs = as_integer(jobs, None, "jobs", minimum=1)
    with Interruption(math.inf) as pressed:
        said = progress or (lambda *_: None)
        return Measurement(question, jobs, said, pressed).run(time_limit, quick)


@dataclass
class Measurement:
    """State of the computation of a headroom report: tasks, their results, and the clock.

    ``whole`` is the question about all requests. ``question`` is the same question about the first
    requests, as many as there is time for. ``shares`` has the form of `SHARES`, ``patience`` that
    of `PATIENCE`.
    """

    whole: Question
    jobs: int | None
    progress: Progress
    pressed: Interruption
    shares: Mapping[str, float] = field(default_factory=SHARES.copy)
    patience: float = PATIENCE
    results: dict[Task, Any] = field(default_factory=dict)
    tasks: dict[Task, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.question = self.whole
        self.clock = Clock(None, self.pressed)

    def run(self, limit: float, quick: bool) -> Headroom:
        """Return the report within ``limit`` seconds. If ``quick``, it has no bounds."""
        jobs, first = self.jobs, limit if quick else self.shares["simulate"] * limit
        self.simulate(min(QUICK, first), QUICK_SHARE, jobs or 1)
        if quick:
            return self.answer()
        if self.answer().today:
            self.say("first answer", self.answer())
        self.simulate(limit, self.shares["simulate"], jobs)
        with self.clock.within(self.shares["policies"] * limit):
            self.compare(limit)
        with self.clock.within(self.shares["bounds"] * self.clock.seconds_left()):
            self.bound()
        self.compare(limit)
        return self.answer()

    def say(self, text: str, first: Headroom | None = None) -> None:
        """Call ``progress`` with the counts of finished and all tasks, ``text`` and ``first``."""
        self.progress(len(self.results), max(1, len(self.tasks)), text, first)

    def do(self, tasks: Iterable[Task]) -> None:
        """Compute those of ``tasks`` that have no result yet, in order, until time runs out."""
        tasks = [task for task in dict.fromkeys(tasks) if task not in self.results]
        self.tasks |= dict.fromkeys(tasks)
        deadline = time.monotonic() + self.clock.seconds_left()
        jobs = min(self.jobs or 1, max(1, len(tasks)))
        call = partial(_compute, self.question, deadline, None if jobs == 1 else 1)
        begun = takewhile(lambda _: not self.clock.must_stop(), tasks)
        for one in perform(call, begun, jobs=jobs):
            result = Failure(str(one.error)) if one.error else one.result
            if result is not None:
                self.results[one.task] = result
                self.say(f"{one.task.name}: done")

    def simulate(self, limit: float, share: float, jobs: int | None) -> None:
        """Simulate today's policy and the proposals on the first requests of the log.

        With a service level also simulate other numbers of replicas. As many first requests are
        simulated as take ``share`` of ``limit``.

        Parameters
        ----------
        limit : float
            Seconds after the beginning of the whole computation by which the simulations stop.
        share : float
            Share of ``limit`` that all simulations together are planned to take.
        jobs : int or None
            Number of worker processes, see `measure_headroom`.
        """
        self.clock.allow(STOP * limit - self.clock.seconds())
        question, here = self.whole, self.whole.replicas
        name, errors = question.baseline, dict.fromkeys((0.0, question.error))
        proposed = [Serve(one, here, error) for error in errors for one in question.proposed]
        runs = 1 + len(proposed) + (LIKELY_TRIED if question.level else 0)
        kept, seconds = self._affordable(share * limit / runs)
        self.jobs = jobs or (available_cores() if seconds > SHORT_RUN else 1)
        if kept > len(self.question.workload) or not self.results:
            self.question = question.of_first(kept)
            self.results.clear()
            self.tasks.clear()
        self.do([Serve(name, here), *proposed])
        while question.level and not self.clock.must_stop():
            known = {k: it.on_time or Fraction(0) for k, it in self.answer().by_replicas.items()}
            wanted = next_replicas(known, question.wanted) if known else None
            if wanted is None or Serve(name, wanted) in self.results:
                return
            self.do([Serve(name, wanted)])

    def _affordable(self, limit: float) -> tuple[int, float]:
        """Return how many first requests can be simulated in ``limit`` seconds, and the seconds.

        Seconds per request are those of a simulation of today's policy, which this method runs if
        there was none. If the log has at most 1,000 requests, all of them are simulated, and the
        second result is 0.
        """
        count, today = len(self.whole.workload), self.answer().today
        if count <= SAMPLES[0]:
            return count, 0.0
        each = 0.0 if today is None else today.seconds / len(self.question.workload)
        for size in () if each else SAMPLES:
            self.say(f"{self.whole.baseline}, first {size} requests")
            began, first = time.monotonic(), self.whole.of_first(size)
            task = Serve(first.baseline, first.replicas, time_limit=limit)
            found = result_of(first, task, self.pressed, 1)
            each = (time.monotonic() - began) / size
            if not isinstance(found, Failure) or found.is_error:
                break
        kept = min(count, max(1, int(limit / each)))
        return kept, kept * each

    def bound(self) -> None:
        """Compute bounds on every scheduler, in all the time that is left.

        With a service level, bounds on the share of requests on time come first. They begin with
        the largest number of replicas for which it is not known whether any scheduler has enough
        requests on time. Bounds on the mean latency come last.
        """
        count, level, left = self.question.replicas, self.question.level, self.clock.seconds_left
        while level and not self.clock.must_stop():
            least, most = self.answer().fewest
            task = Enclose(most - 1, on_time=True, time_limit=FEWEST * left())
            if most == least or task in self.results:
                break
            self.do([task])
        for one in self.answer().by_replicas if level else ():
            if not self.answer().attainable(one).is_exact:
                self.do([Enclose(one, on_time=True, time_limit=REPLICAS * left())])
        self.do([Enclose(count, time_limit=left())])

    def compare(self, limit: float) -> None:
        """Simulate all policies with exact output lengths, then with predicted output lengths.

        Policies whose first simulation did not complete are left out of the second.
        """
        name, count, today = self.question.baseline, self.question.replicas, self.answer().today
        needed = self.patience * (today.seconds if today else 0.0)
        longest = max(self.shares["policy"] * limit, needed)
        for error in dict.fromkeys((0.0, self.question.error)):
            self.do(
                Serve(one, count, error, time_limit=None if one == name else longest)
                for one in self.question.specs
                if not error or isinstance(self.results.get(Serve(one, count)), Served)
            )

    def answer(self) -> Headroom:
        """Return a report with the results until now and the names of unfinished tasks."""
        return Headroom(
            self.question,
            dict(self.results),
            tuple(task.name for task in self.tasks if task not in self.results),
            self.clock.seconds(),
            self.pressed(),
            len(self.whole.workload) - len(self.question.workload),
        )


def _compute(question: Question, deadline: float, threads: int | None, task: Task) -> Any:
    """Compute the result of a task until the deadline, in this process or a worker process.

    ``deadline`` is a time of `time.monotonic`. ``threads`` is the number of threads, None for all.
    """
    with Interruption(math.inf) as pressed:
        return result_of(question, task, lambda: pressed() or time.monotonic() > deadline, threads)


def next_replicas(shares: Mapping[int, Fraction], enough: Fraction) -> int | None:
    """Choose the next number of replicas to simulate, in search of the fewest that suffice.

    The number grows by a quarter until a share of at least ``enough`` is on time, or until more
    replicas do not increase the share. Then bisection finds the fewest replicas that suffice. None
    ends the search: the fewest are found, no number suffices, or `MOST_TRIED` numbers were tried.

    Parameters
    ----------
    shares : Mapping[int, Fraction]
        Share of the requests on time, by the number of replicas simulated until now.
    enough : Fraction
        Share of the requests that is to be on time.
    """
    least = min((one for one, share in shares.items() if share >= enough), default=None)
    if len(shares) >= MOST_TRIED:
        return None
    if least is None:
        *few, most = sorted(shares)
        helps = all(shares[one] < shares[most] for one in few)
        return most + max(1, most // 4) if helps else None
    below = max((one for one in shares if one < least), default=0)
    return (below + least) // 2 if below + 1 < least else None
