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
from .closed_loops import play_closed_loop
from .question import Question
from .tasks import Enclose, Failure, Serve, Served, Task, result_of

QUICK = 10.0
"""Seconds of a quick answer, which takes the first requests where all would take longer."""

SHARES = {"best": 0.3, "on time": 0.15, "replicas": 0.01, "policy": 0.05}
"""Of the time limit: the longest that one computation of a kind takes."""

STOP = 0.95
"""Share of the time limit after which no computation begins, as to end takes time too."""

SAMPLES = (1000, 100, 10, 1)
"""First requests on which today's policy is timed, fewer where that takes too long."""

LONGEST_RUN, WINDOW_RUN = 0.25, 0.15
"""Of the time limit: one simulation of all requests at most, and one if requests are left out."""

PATIENCE = 2.0
"""Times that a simulation may take as long as that of today's policy, whatever its share."""

SHORT_RUN = 1.0
"""Seconds of a simulation up to which other processes are not worth their start."""

ENOUGH = Fraction(99, 100)
"""Share of the requests on time that is wanted."""

MOST_TRIED = 10
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
        whole = _Work(question, time_limit, jobs, progress, pressed)
        first = whole
        if quick or len(question.workload) > SAMPLES[0]:
            news = progress if quick else None
            first = _Work(question, min(QUICK, time_limit), jobs or 1, news, pressed)
        first.simulate()
        if quick:
            return first.answer()
        whole.say("first answer", first.answer())
        if first is not whole:
            whole.simulate()
        whole.do([*whole.bounds(), *whole.others(0.0)])
        whole.do(whole.others(question.error))
        return whole.answer()


@dataclass
class _Work:
    """What is done of a question, and what is left of its time."""

    question: Question
    time_limit: float
    jobs: int | None
    progress: Progress | None
    pressed: Interruption
    left_out: int = 0
    seconds: float = 0.0
    tasks: list[Task] = field(default_factory=list)
    results: dict[Task, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = Clock(STOP * self.time_limit, self.pressed)

    def say(self, text: str, first: Headroom | None = None) -> None:
        """Report progress."""
        if self.progress:
            self.progress(len(self.results), max(1, len(self.tasks)), text, first)

    def do(self, tasks: Iterable[Task]) -> None:
        """Compute tasks that are not done, in this order."""
        tasks = [task for task in dict.fromkeys(tasks) if task not in self.tasks]
        self.tasks += tasks
        deadline = time.monotonic() + self.clock.seconds_left()
        call = partial(_compute, self.question, deadline, None if self.jobs == 1 else 1)
        begun = takewhile(lambda _: not self.clock.must_stop(), tasks)
        for one in perform(call, begun, jobs=min(self.jobs or 1, max(1, len(tasks)))):
            result = Failure(str(one.error)) if one.error else one.result
            if result is not None:
                self.results[one.task] = result
                self.say(f"{one.task.name}: done")

    def simulate(self) -> None:
        """Simulate what the first answer needs, of as many requests as there is time for."""
        self.say(f"{self.question.baseline}, first requests")
        question, count = self.question, len(self.question.workload)
        kept, self.seconds = self._affordable(count)
        if self.jobs is None:
            self.jobs = available_cores() if self.seconds > SHORT_RUN else 1
        if kept < count:
            self.question, self.left_out = question.of_first(kept), count - kept
        if question.made_up and question.concurrency and not self.pressed():
            self.question = play_closed_loop(self.question, self.clock.must_stop)
        name, here = question.baseline, question.replicas
        errors = dict.fromkeys((0.0, question.error))
        proposed = [Serve(one, here, error) for error in errors for one in question.proposed]
        self.do([Serve(name, here), *proposed])
        while question.level and not self.clock.must_stop():
            runs = self.answer().by_replicas.items()
            wanted = next_replicas({count: run.on_time or Fraction(0) for count, run in runs})
            if wanted is None or Serve(name, wanted) in self.tasks:
                return
            self.do([Serve(name, wanted)])

    def _affordable(self, count: int) -> tuple[int, float]:
        """Estimate how many requests there is time for, and the seconds of a simulation of them."""
        limit, each = WINDOW_RUN * self.time_limit, 0.0
        if count <= SAMPLES[0]:
            return count, 0.0
        for size in SAMPLES:
            began, first = time.monotonic(), self.question.of_first(size)
            today = Serve(first.baseline, first.replicas, time_limit=limit)
            found = result_of(first, today, self.pressed, 1)
            each = (time.monotonic() - began) / size
            if found is None or (isinstance(found, Failure) and found.is_error):
                return count, 0.0
            if isinstance(found, Served):
                break
        fits = int(limit / each)
        if count <= LONGEST_RUN / WINDOW_RUN * fits:
            return count, count * each
        return max(1, fits), limit

    def bounds(self) -> Iterator[Task]:
        """List bounds by importance: the log itself, then numbers of replicas."""
        count, level, limit = self.question.replicas, self.question.level, self.time_limit
        yield Enclose(count, time_limit=SHARES["best"] * limit / (2 if level else 1))
        if level:
            yield Enclose(count, on_time=True, time_limit=SHARES["on time"] * limit)
            for one in self.answer().by_replicas:
                yield Enclose(one, on_time=True, time_limit=SHARES["replicas"] * limit)

    def others(self, error: float) -> list[Task]:
        """List all policies, on predicted lengths those that have ended on exact ones."""
        name, count = self.question.baseline, self.question.replicas
        limit = max(SHARES["policy"] * self.time_limit, PATIENCE * self.seconds)
        return [
            Serve(one, count, error, time_limit=None if one == name else limit)
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
            self.left_out,
        )


def _compute(question: Question, deadline: float, threads: int | None, task: Task) -> Any:
    """Compute a task of a question, here or in a worker process."""
    with Interruption(math.inf) as pressed:
        return result_of(question, task, lambda: pressed() or time.monotonic() > deadline, threads)


def next_replicas(shares: Mapping[int, Fraction]) -> int | None:
    """Choose the number of replicas to try after those with known shares of requests on time.

    Fewer are tried as long as enough are on time, more as long as that helps. None if the fewest
    that suffice are found, or none do.
    """
    least = min((one for one, share in shares.items() if share >= ENOUGH), default=None)
    few = [one for one in sorted(shares) if least is None or one < least]
    if not shares or len(shares) == MOST_TRIED:
        return None
    if len(shares) == 1 and max(shares) > 1:
        return max(shares) - max(1, max(shares) // 4)
    if least is None:
        most = few.pop()
        helps = all(shares[one] < shares[most] for one in few)
        return most + max(1, most // 4) if helps else None
    if few:
        return (few[-1] + least) // 2 if few[-1] + 1 < least else None
    return least - max(1, least // 4) if least > 1 else None
