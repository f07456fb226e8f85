"""The whole question: every policy and the best possible on one log, in a limited time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from hindsight.runtime.clock import Clock
from hindsight.runtime.interruption import interruption
from hindsight.seconds.solving import as_workload
from instances import Workload
from instances.batch_time import BatchTime
from instances.validation import as_integer, as_number
from online.comparison.ratios import rounded_down, rounded_up
from online.comparison.trial import one_line
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs
from online.runtime.processes import run_tasks

from .answer import Headroom, Measured
from .demand import load
from .runs import (
    BestPossible,
    CurvePoint,
    PolicyRun,
    Setting,
    joined_by_memory,
    play,
    point,
    search,
)

SEARCH_SHARE, POLICY_SHARE, POINT_SHARE = 0.4, 0.08, 0.005
"""Of the time limit: for the search of the best possible, for a policy, for it at a point."""

STOP_SHARE = 0.95
"""Of the time limit, after which what is not done is left out: to end takes its time too."""

LEAST_SECONDS = 5.0
"""What a policy may take however short the limit."""

MEMORY_FACTORS = (0.75, 1.5, 0.5, 2.0)
LOAD_FACTORS = (0.75, 1.25, 0.5, 1.5)
"""Where the curves have points beside the log itself, in order of computation."""

NEAREST = 4
"""Of these points, which come before most policies."""

BASELINE = PolicySpec("vllm")
"""What stands for what is there today: first come, first served."""

CHALLENGER = PolicySpec("vllm", {"order": "shortest-output"})
PROPOSED = (
    CHALLENGER,
    PolicySpec("vllm", {"order": "shortest-job"}),
    PolicySpec("vllm", {"order": "shortest-output", "ageing": 5}),
)
"""What is proposed for it; 5 tokens of ageing a second let nobody wait for minutes."""

SEARCH, POLICY, POINT = "best possible", "policy", "point"


@dataclass(frozen=True, eq=False)
class Task:
    """One computation.

    Attributes
    ----------
    kind : str
        `SEARCH`, `POLICY` or `POINT`.
    setting : Setting
        What it is about.
    time_limit : float
        Seconds.
    specs : tuple[PolicySpec, ...]
        Policies to run.
    error : float
        Of the output lengths that they are told.
    faster : float
        How much faster than in the log requests arrive.
    name : str
        What messages call it.
    then : Task or None
        What is to be done after everything else, where this comes to something.
    """

    kind: str
    setting: Setting = field(repr=False)
    time_limit: float
    specs: tuple[PolicySpec, ...] = ()
    error: float = 0.0
    faster: float = 1.0
    name: str = SEARCH
    then: Task | None = None

    def follows(self, result: Any) -> list[Task]:
        """What is to be done next, with this result: nothing where it came to nothing."""
        came = isinstance(result, PolicyRun) and result.mean_latency is not None
        return [self.then] if self.then is not None and came else []


@dataclass(frozen=True)
class HeadroomProgress:
    """News of a computation.

    Attributes
    ----------
    done, total : int
        Tasks.
    text : str
        What is known of the best possible, or what has been done last.
    """

    done: int
    total: int
    text: str


def measure_headroom(
    workload: Workload,
    batch_time: BatchTime,
    policies: Sequence[AnyPolicy] | None = None,
    *,
    baseline: AnyPolicy = BASELINE,
    challenger: AnyPolicy = CHALLENGER,
    error: float = 0.5,
    measured: Measured | None = None,
    time_limit: float = 600.0,
    jobs: int = 1,
    seed: int = 0,
    progress: Callable[[HeadroomProgress], None] | None = None,
) -> Headroom:
    """How much latency could have been saved at most, and which policy gets how much of it.

    Ctrl-C and the end of the time leave out what is not done; what is done is in the answer.

    Parameters
    ----------
    workload : Workload
        The requests.
    batch_time : BatchTime
        Seconds of a round.
    policies : Sequence[AnyPolicy] or None, default None
        None takes every one that needs no parameters, and `PROPOSED`. Baseline and challenger are
        added.
    baseline : AnyPolicy, default `BASELINE`
        The policy that stands for what is there today.
    challenger : AnyPolicy, default `CHALLENGER`
        The one shown beside it at other memories and loads.
    error : float, default 0.5
        Of the predicted output lengths, see `RelativePredictions`; 0 leaves such runs out.
    measured : Measured or None, default None
        What the log says of its own latencies.
    time_limit : float, default 600.0
        Seconds for everything, > 0.
    jobs : int, default 1
        Processes; 1 stays in this one.
    seed : int, default 0
        Of every random choice.
    progress : Callable[[HeadroomProgress], None] or None, default None
        Told of every task done and of every improvement of the interval.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        A parameter out of range, or a policy that is none.
    """
    jobs = as_integer(jobs, None, "jobs", minimum=1)
    time_limit = as_number(time_limit, None, "time_limit", above=0)
    error = as_number(error, None, "error", minimum=0)
    workload = as_workload(workload)
    setting = Setting(workload, batch_time, as_integer(seed, None, "seed", minimum=0))
    (current,), (other,) = policy_specs([baseline]), policy_specs([challenger])
    others = [*(PROPOSED if policies is None else ()), *policy_specs(policies)]
    others.sort(key=_is_no_engine)
    chosen = {spec.label: spec for spec in (current, other, *others)}
    tasks = _tasks(setting, list(chosen.values()), (current, other), error, time_limit)
    if jobs == 1:
        # Where nothing runs beside it, the long search comes last.
        tasks.append(tasks.pop(1))
    collected = _Collected(tasks, progress)
    for spec in chosen.values() if jobs > 1 else ():
        spec.check_sendable()
    with interruption(math.inf if jobs > 1 else 2) as pressed:
        clock = Clock(STOP_SHARE * time_limit, pressed)
        run = run_tasks(
            tasks,
            _perform,
            jobs,
            pressed,
            hear=collected.hear,
            lost=lambda task, reason: reason,
            must_stop=clock.must_stop,
            follows=Task.follows,
        )
        with closing(run):
            for task, result in run:
                collected.take(task, result)
        interrupted = pressed()
    return collected.answer(
        setting,
        baseline=current.label,
        challenger=other.label,
        error=error,
        measured=measured,
        seconds=clock.seconds(),
        interrupted=interrupted,
    )


def _is_no_engine(spec: PolicySpec) -> bool:
    return ".engines." not in type(spec.make()).__module__


def _tasks(
    setting: Setting,
    specs: Sequence[PolicySpec],
    compared: tuple[PolicySpec, ...],
    error: float,
    time_limit: float,
) -> list[Task]:
    """In the order in which they matter, but for the long search, which begins early."""
    for_policy = max(LEAST_SECONDS, POLICY_SHARE * time_limit)
    for_point = POINT_SHARE * time_limit
    # Without those compared there is nothing to say: they take what they need.
    needed_runs, others = (
        [
            Task(POLICY, setting, limit, (spec,), name=spec.label)
            for spec in specs
            if (spec in compared) is is_compared
        ]
        for is_compared, limit in ((True, time_limit), (False, for_policy))
    )
    around = _around(setting, compared, for_point)
    return [
        Task(SEARCH, setting, for_point),
        Task(SEARCH, setting, SEARCH_SHARE * time_limit),
        *needed_runs,
        *(_predicted(task, error) for task in needed_runs if error),
        *around[:NEAREST],
        *(replace(task, then=_predicted(task, error)) if error else task for task in others),
        *around[NEAREST:],
    ]


def _around(setting: Setting, compared: tuple[PolicySpec, ...], time_limit: float) -> list[Task]:
    """Other memories, as far as every request fits, and other loads."""
    workload = setting.workload
    limit = workload.memory_limit
    sizes = zip(workload.prompt_lengths.tolist(), workload.output_lengths.tolist(), strict=True)
    rule = workload.memory_rule
    needed = max(rule.peak_blocks(*size) for size in sizes)
    points = [
        point
        for factor, faster in zip(MEMORY_FACTORS, LOAD_FACTORS, strict=True)
        for point in ((round(limit * factor), 1.0), (limit, faster))
        # What all arrives at once arrives no faster.
        if rule.usable_blocks(point[0]) >= needed
        and (point[1] == 1 or workload.arrival_times[-1] > 0)
    ]
    return [
        Task(
            POINT,
            setting.at(M, faster),
            time_limit,
            compared,
            faster=faster,
            name=f"M = {M}, arrivals x{faster:g}",
        )
        for M, faster in points
    ]


def _predicted(task: Task, error: float) -> Task:
    """The same run on predicted output lengths."""
    return replace(task, error=error, name=_told(task.name, error))


def _told(policy: str, error: float) -> str:
    return f"{policy}, lengths off by {error:g}" if error else policy


def _perform(
    task: Task, stop: Callable[[], bool], tell: Callable[[Any], None]
) -> PolicyRun | CurvePoint | BestPossible | str:
    """What comes of a task, or why nothing does: minutes of others' work do not go with it."""
    try:
        if task.kind == SEARCH:
            return search(task.setting, task.time_limit, stop, tell)
        if task.kind == POINT:
            return point(task.setting, task.faster, task.specs, task.time_limit, stop)
        (spec,) = task.specs
        return play(task.setting, spec, task.error, task.time_limit, stop)
    except Exception as error:  # noqa: BLE001 (told where its result would stand)
        return one_line(error)


class _Collected:
    """Results as they come in."""

    def __init__(
        self, tasks: Sequence[Task], listener: Callable[[HeadroomProgress], None] | None
    ) -> None:
        self._tasks = tasks
        self._listener = listener
        self._best: BestPossible | None = None
        self._why: str | None = None
        self._runs: list[PolicyRun] = []
        self._points: list[CurvePoint] = []
        self._left = [*tasks, *(task.then for task in tasks if task.then is not None)]
        self._total = len(self._left)

    def hear(self, task: Task, ends: tuple[float, float]) -> None:
        """A search has found something better."""
        if task.kind == SEARCH:
            low, high = rounded_down(ends[0], 3), rounded_up(ends[1], 3)
            self._tell(f"best possible in [{low}, {high}] s")

    def take(self, task: Task, result: Any) -> None:
        """A task is done."""
        self._left.remove(task)
        if task.then is not None and not task.follows(result):
            self._left.remove(task.then)
        if task.kind == SEARCH:
            if isinstance(result, str):
                self._why = result
            else:
                self._best = result if self._best is None else self._best.joined(result)
        elif task.kind == POINT:
            if isinstance(result, str):
                self._left.append(replace(task, name=f"{task.name}: {result}"))
            else:
                self._points.append(result)
                missing = [run.policy for run in result.runs if run.mean_latency is None]
                missing += [SEARCH] if result.best is None else []
                if missing:
                    self._left.append(replace(task, name=f"{task.name}: {', '.join(missing)}"))
        elif isinstance(result, str):
            (spec,) = task.specs
            self._runs.append(PolicyRun(spec.label, task.error, None, result))
        else:
            self._runs.append(result)
        self._tell(f"{task.name}: done")

    def answer(self, setting: Setting, **known: Any) -> Headroom:
        """What has come in."""
        best = self._best
        for run in self._runs:
            if best is not None:
                best = best.reached(run.mean_latency, run.policy)
        best, points = joined_by_memory(best, setting.workload.memory_limit, self._points)
        names = [task.name for task in self._tasks if not task.error]
        return Headroom(
            workload=setting.workload,
            batch_time=setting.batch_time,
            load=load(setting.workload, setting.batch_time),
            best=best,
            no_best=None if best is not None else self._why,
            runs=tuple(sorted(self._runs, key=lambda run: (run.error, names.index(run.policy)))),
            points=tuple(sorted(points, key=lambda one: (one.memory_limit, one.faster))),
            unfinished=tuple(dict.fromkeys(task.name for task in self._left)),
            **known,
        )

    def _tell(self, text: str) -> None:
        if self._listener is not None:
            done = self._total - len(self._left)
            self._listener(HeadroomProgress(done, self._total, text))
