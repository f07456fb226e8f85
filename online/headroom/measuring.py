"""Compute an answer in a limited time: simulations first, then bounds, then the rest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hindsight.runtime.resources import available_cores
from instances.ctrl_c import Interruption
from instances.validation import as_integer, as_number
from online.workers import perform

from .answer import Headroom
from .closed_loops import play_closed_loop
from .measured import Served
from .question import Place, Question
from .tasks import Enclose, Failure, Serve, Task, result_of

QUICK = 10.0
"""Seconds of a quick answer, which takes the first requests where all would take longer."""

SHARES = {"best": 0.3, "on time": 0.15, "place": 0.01, "policy": 0.05}
"""Of the time limit: the longest that one computation of a kind takes."""

STOP = 0.95
"""Share of the time limit after which no computation begins, as to end takes time too."""

SAMPLE = 1000
"""First requests on which today's policy is timed, if there are more."""

LONGEST_RUN, WINDOW_RUN = 0.25, 0.15
"""Of the time limit: one simulation of all requests at most, and one if requests are left out."""

SHORT_RUN = 1.0
"""Seconds of a simulation up to which other processes are not worth their start."""

MEMORY_FACTORS = (0.75, 1.5, 0.5, 2.0)
LOAD_FACTORS = (0.75, 1.25, 0.5, 1.5)
"""Where the curves have points other than the log itself, in order of computation."""

ENOUGH = 0.99
"""Share of the requests on time up to which more replicas are tried."""

MOST_TRIED = 8
"""Numbers of replicas that are tried."""


@dataclass(frozen=True)
class HeadroomProgress:
    """Progress report of a computation.

    Attributes
    ----------
    done, total : int
        Tasks.
    text : str
        The last task done.
    first : Headroom or None
        The first answer: simulations only, of a long log those of its first requests.
    """

    done: int
    total: int
    text: str
    first: Headroom | None = None


def measure_headroom(
    question: Question,
    time_limit: float = 600.0,
    *,
    quick: bool = False,
    jobs: int | None = None,
    progress: Callable[[HeadroomProgress], None] | None = None,
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
    progress : Callable[[HeadroomProgress], None] or None, default None
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
        if quick or len(question.workload) > SAMPLE:
            news = progress if quick else None
            first = _Work(question, min(QUICK, time_limit), jobs or 1, news, pressed)
            first.simulate()
            if quick:
                return first.answer()
            whole.say("first answer", first.answer())
            whole.simulate()
        else:
            whole.simulate()
            whole.say("first answer", whole.answer())
        whole.do(_bounds(whole.question, whole.results, time_limit))
        whole.do(_rest(whole.question, time_limit))
        return whole.answer()


@dataclass
class _Work:
    """What is done of a question, and what is left of its time."""

    question: Question
    time_limit: float
    jobs: int | None
    progress: Callable[[HeadroomProgress], None] | None
    pressed: Interruption
    left_out: int = 0
    began: float = field(default_factory=time.monotonic)
    tasks: list[Task] = field(default_factory=list)
    results: dict[Task, Any] = field(default_factory=dict)

    @property
    def deadline(self) -> float:
        """When no task is to begin any more."""
        return self.began + STOP * self.time_limit

    def must_stop(self) -> bool:
        """Return whether no task is to begin any more."""
        return self.pressed() or time.monotonic() > self.deadline

    def say(self, text: str, first: Headroom | None = None) -> None:
        """Report progress."""
        if self.progress:
            total = max(1, len(self.tasks))
            self.progress(HeadroomProgress(len(self.results), total, text, first))

    def do(self, tasks: Iterable[Task]) -> None:
        """Compute tasks in this order, then those that follow from their results."""
        jobs = self.jobs or 1
        work = _Call(self.question, self.deadline, None if jobs == 1 else 1)
        while tasks := [task for task in dict.fromkeys(tasks) if task not in self.tasks]:
            self.tasks += tasks
            following: list[Task] = []
            for one in perform(work, self._until_the_end(tasks), jobs=jobs):
                self.results[one.task] = one.result or Failure(str(one.error))
                self.say(f"{one.task.name}: done")
                following += self._following(one.task)
            tasks = following

    def _until_the_end(self, tasks: Iterable[Task]) -> Iterator[Task]:
        for task in tasks:
            if self.must_stop():
                return
            yield task

    def _following(self, task: Task) -> Iterator[Task]:
        """List the tasks that a result leads to: predicted lengths, and numbers of replicas."""
        question, result = self.question, self.results[task]
        if not isinstance(task, Serve) or not isinstance(result, Served):
            return
        is_early = task.policy in (question.baseline, *question.proposed)
        if not is_early and not task.error and question.error:
            yield replace(task, error=question.error)
        if question.level and task == Serve(question.baseline, task.place):
            yield from self._other_replicas(task.place)

    def _other_replicas(self, place: Place) -> Iterator[Serve]:
        """Try more replicas as long as that puts more on time, and fewer as long as enough are."""
        here, count = self.question.here, place.replicas
        if replace(place, replicas=here.replicas) != here:
            return
        tried = (self.served(replace(here, replicas=one)) for one in range(1, count + 1))
        *fewer, share = [float(it.on_time or 0) for it in tried if it is not None]
        counts = [count - max(1, count // 4)]
        if place != here and (count > here.replicas or share < ENOUGH):
            counts = []
        if count >= here.replicas and share < ENOUGH and (place == here or share > max(fewer)):
            counts.append(count + max(1, count // 4))
        known = {one.place.replicas for one in self.tasks if isinstance(one, Serve)}
        for one in counts if len(known) < MOST_TRIED else []:
            if one > 0:
                yield Serve(self.question.baseline, Place(here.memory_limit, 1.0, one))

    def served(self, place: Place) -> Served | None:
        """Return the simulation of today's policy at a place, if it completed."""
        found = self.results.get(Serve(self.question.baseline, place))
        return found if isinstance(found, Served) else None

    def simulate(self) -> None:
        """Simulate what the first answer needs, of as many requests as there is time for."""
        self.say(f"{self.question.baseline}, first requests")
        question, count = self.question, len(self.question.workload)
        kept, seconds = self._affordable(count)
        if self.jobs is None:
            self.jobs = available_cores() if seconds > SHORT_RUN else 1
        if kept < count:
            self.question, self.left_out = question.of_first(kept), count - kept
        if question.made_up and question.concurrency and not self.pressed():
            self.question = play_closed_loop(self.question, self.must_stop)
        here = self.question.here
        errors = dict.fromkeys((0.0, question.error))
        proposed = [Serve(name, here, error) for error in errors for name in question.proposed]
        self.do([Serve(question.baseline, here), *proposed])

    def _affordable(self, count: int) -> tuple[int, float]:
        """Estimate how many requests there is time for, and the seconds of a simulation of them."""
        size = SAMPLE
        while count > size:
            began, first = time.monotonic(), self.question.of_first(size)
            today = Serve(first.baseline, first.here, time_limit=WINDOW_RUN * self.time_limit)
            found = result_of(first, today, self.pressed, 1)
            each = (time.monotonic() - began) / size
            if self.pressed() or (isinstance(found, Failure) and found.is_error):
                break
            fits = int(WINDOW_RUN * self.time_limit / each)
            if isinstance(found, Failure) and size > 1:
                size //= 10
            elif count <= LONGEST_RUN / WINDOW_RUN * fits:
                return count, count * each
            else:
                # The estimate has no more than two digits.
                kept = max(1, fits - fits % int(10 ** max(0, len(str(fits)) - 2)))
                return kept, kept * each
        return count, 0.0

    def answer(self) -> Headroom:
        """Put together what is known."""
        return Headroom(
            self.question,
            dict(self.results),
            tuple(task.name for task in self.tasks if task not in self.results),
            time.monotonic() - self.began,
            self.pressed(),
            self.left_out,
        )


@dataclass(frozen=True)
class _Call:
    """Compute a task of a question, here or in a worker process."""

    question: Question
    deadline: float
    threads: int | None

    def __call__(self, task: Task) -> Any:
        with Interruption(math.inf) as pressed:
            return result_of(
                self.question,
                task,
                lambda: pressed() or time.monotonic() > self.deadline,
                self.threads,
            )


def _bounds(question: Question, results: dict[Task, Any], time_limit: float) -> Iterator[Task]:
    """List bounds by importance: the log itself, numbers of replicas, other places."""
    here, short = question.here, SHARES["place"] * time_limit
    yield Enclose(here, time_limit=SHARES["best"] * time_limit / (2 if question.level else 1))
    if question.level:
        yield Enclose(here, on_time=True, time_limit=SHARES["on time"] * time_limit)
        for task in results:
            yield Enclose(task.place, on_time=True, time_limit=short)
    for name in [*question.ways][1:]:
        yield Serve(question.baseline, here, router=name)
    for place in _places(question):
        yield Enclose(place, time_limit=short)
        for name in (question.baseline, *question.proposed[:1]):
            yield Serve(name, place, time_limit=SHARES["policy"] * time_limit)


def _rest(question: Question, time_limit: float) -> Iterator[Task]:
    """List today's policy on predicted lengths, and the other policies."""
    here, limit = question.here, SHARES["policy"] * time_limit
    yield Serve(question.baseline, here, question.error)
    for name in question.specs:
        if name not in question.proposed:
            yield Serve(name, here, time_limit=limit)


def _places(question: Question) -> list[Place]:
    """List other memories, as far as every request fits, other loads, and other replicas."""
    here, load = question.here, question.workload
    limit, count, rule = here.memory_limit, here.replicas, load.memory_rule
    sizes = zip(load.prompt_lengths.tolist(), load.output_lengths.tolist(), strict=True)
    needed = max(rule.peak_blocks(*size) for size in sizes)
    places = [Place(limit, 1.0, one) for one in (count + 1, count - 1) if one and count > 1]
    for factor, faster in zip(MEMORY_FACTORS, LOAD_FACTORS, strict=True):
        if rule.usable_blocks(round(limit * factor)) >= needed:
            places.append(Place(round(limit * factor), 1.0, count))
        # Requests that all arrive at once arrive no faster.
        if load.arrival_times[-1] > 0:
            places.append(Place(limit, faster, count))
    return places
