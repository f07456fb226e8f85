"""Compute an answer in a limited time: simulations first, then bounds, then the rest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
"""Seconds of a quick answer, which takes the first requests where all would take longer, and the
share of them for which simulations are planned."""

SHARES = {
    "first": 0.6,
    "simulate": 0.3,
    "best": 0.3,
    "on time": 0.15,
    "replicas": 0.01,
    "policy": 0.05,
}
"""Of the time limit: the longest that the computations of a kind take."""

STOP = 0.95
"""Share of the time limit after which no computation begins, as to end takes time too."""

SAMPLES = (1000, 100, 10, 1)
"""First requests on which today's policy is timed, fewer where that takes too long."""

PATIENCE = 2.0
"""Times that a simulation may take as long as that of today's policy, whatever its share."""

SHORT_RUN = 1.0
"""Seconds of a simulation up to which other processes are not worth their start."""

MOST_TRIED, LIKELY_TRIED = 10, 5
"""Numbers of replicas that are tried."""


Progress = Callable[[int, int, str, Headroom | None], object]
"""Called with the numbers of finished and of all tasks, what is done, and the first answer: of
simulations only, and of a long log those of its first requests."""


def measure_headroom(
    question: Question,
    time_limit: float = 600.0,
    *,
    quick: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Headroom:
    """Bound what the best scheduler could have saved, and simulate which policy saves how much.

    Ctrl-C and the end of the time leave out what is not done; the answer names it.

    Parameters
    ----------
    question : Question
        The requests, the scheduler of today, and the proposals.
    time_limit : float, default 600.0
        Seconds for everything, > 0. If it is too short for all requests, the first ones are taken,
        and the answer says how many.
    quick : bool, default False
        End after the simulations that the first answer needs, and after about `QUICK` seconds;
        nothing is bounded.
    jobs : int or None, default None
        Processes. None takes one per core if a simulation takes long, and this process otherwise.
    progress : Progress or None, default None
        Called when a task is done and when the first answer is there.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A parameter is out of range.
    """
    time_limit = as_number(time_limit, None, "time_limit", above=0)
    if jobs is not None:
        jobs = as_integer(jobs, None, "jobs", minimum=1)
    with Interruption(math.inf) as pressed:
        work = _Work(question, jobs, progress or (lambda *_: None), pressed)
        first = time_limit if quick else SHARES["simulate"] * time_limit
        work.simulate(min(QUICK, first), QUICK_SHARE, jobs or 1)
        if quick:
            return work.answer()
        if work.answer().today:
            work.say("first answer", work.answer())
        work.simulate(time_limit, SHARES["simulate"], jobs)
        work.do([*work.bounds(time_limit), *work.others(0.0, time_limit)])
        work.do(work.others(question.error, time_limit))
        return work.answer()


@dataclass
class _Work:
    """What is done of a question."""

    whole: Question
    jobs: int | None
    progress: Progress
    pressed: Interruption
    results: dict[Task, Any] = field(default_factory=dict)
    tasks: dict[Task, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.question = self.whole
        self.clock = Clock(None, self.pressed)

    def say(self, text: str, first: Headroom | None = None) -> None:
        """Report progress."""
        self.progress(len(self.results), max(1, len(self.tasks)), text, first)

    def do(self, tasks: Iterable[Task]) -> None:
        """Compute tasks that are not done, in this order."""
        tasks = [task for task in dict.fromkeys(tasks) if task not in self.results]
        self.tasks |= dict.fromkeys(tasks)
        deadline = time.monotonic() + self.clock.seconds_left()
        call = partial(_compute, self.question, deadline, None if self.jobs == 1 else 1)
        begun = takewhile(lambda _: not self.clock.must_stop(), tasks)
        for one in perform(call, begun, jobs=min(self.jobs or 1, max(1, len(tasks)))):
            result = Failure(str(one.error)) if one.error else one.result
            if result is not None:
                self.results[one.task] = result
                self.say(f"{one.task.name}: done")

    def simulate(self, limit: float, share: float, jobs: int | None) -> None:
        """Simulate what the first answer needs, of as many requests as there is time for.

        The simulations may take a share of the limit, in seconds since the beginning.
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
        """Return how many requests a simulation has time for, and the seconds that it takes."""
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

    def bounds(self, limit: float) -> Iterator[Task]:
        """List bounds by importance: the log itself, then numbers of replicas."""
        count, level = self.question.replicas, self.question.level
        yield Enclose(count, time_limit=SHARES["best"] * limit / (2 if level else 1))
        for one in dict.fromkeys([count, *self.answer().by_replicas]) if level else ():
            share = SHARES["on time" if one == count else "replicas"]
            yield Enclose(one, on_time=True, time_limit=share * limit)

    def others(self, error: float, limit: float) -> list[Task]:
        """List all policies, on predicted lengths those that have ended on exact ones."""
        name, count, today = self.question.baseline, self.question.replicas, self.answer().today
        longest = max(SHARES["policy"] * limit, PATIENCE * (today.seconds if today else 0.0))
        return [
            Serve(one, count, error, time_limit=None if one == name else longest)
            for one in self.question.specs
            if not error or isinstance(self.results.get(Serve(one, count)), Served)
        ]

    def answer(self) -> Headroom:
        """Put together what is known."""
        return Headroom(
            self.question,
            dict(self.results),
            tuple(task.name for task in self.tasks if task not in self.results),
            self.clock.seconds(),
            self.pressed(),
            len(self.whole.workload) - len(self.question.workload),
        )


def _compute(question: Question, deadline: float, threads: int | None, task: Task) -> Any:
    """Compute a task of a question, here or in a worker process."""
    with Interruption(math.inf) as pressed:
        return result_of(question, task, lambda: pressed() or time.monotonic() > deadline, threads)


def next_replicas(shares: Mapping[int, Fraction], enough: Fraction) -> int | None:
    """Choose the number of replicas to try after those with known shares of requests on time.

    More are tried as long as that helps, until enough are on time, and then fewer by bisection.
    None if the fewest that suffice are found, or none do.
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
