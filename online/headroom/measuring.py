"""Measure the headroom: every policy and the best possible on one log, in a limited time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hindsight.runtime.clock import Clock, never
from instances import ServiceLevel, Workload
from instances.arrays import IntArray
from instances.ctrl_c import Interruption
from instances.problem.fleet_schedule import by_replica
from instances.validation import as_integer, as_number
from online.comparison.running import find_optimum, run_policy
from online.comparison.trial import one_line
from online.policy_interface.predictions import RelativePredictions
from online.policy_interface.specs import (
    AnyPolicy,
    AnyRouter,
    PolicySpec,
    RouterSpec,
    policy_specs,
)
from online.runtime.processes import run_tasks
from online.trials.intervals import Interval, rounded_down, rounded_up

from .answer import (
    LOGGED,
    P99,
    BestPossible,
    CurvePoint,
    Headroom,
    Measured,
    PolicyRun,
    carried_over,
)
from .closed_loops import play_closed_loop
from .on_time import LEVEL_FACTORS, MEASURED, OnTimePoint, carried_on_time, scaled_level
from .waiting import OverTime, load, over_time, stretch_seconds, together

if TYPE_CHECKING:
    from hindsight.sizing import CapacityResult

SEARCH_SHARE, POLICY_SHARE, POINT_SHARE = 0.4, 0.08, 0.005
"""Of the time limit: for the search of the best possible, for a policy, for it at a point."""

TODAY_SHARE, ROUTED_SHARE, CAPACITY_SHARE = 0.1, 0.01, 0.1
"""Of the time limit: for the best schedules with today's routing, with that of another run, and for
the fewest replicas."""

STOP_SHARE, LEAVE_SHARE = 0.95, 0.99
"""Of the time limit, after which what is not done is to end, as that takes its time too; and after
which other processes are ended."""

LEAST_SECONDS = 5.0
"""What a policy may take however short the limit."""

SAMPLE = 1000
"""First requests on which today's policy is timed, where there are more."""

LONGEST_SHARE, WINDOW_SHARE = 0.2, 0.1
"""Of the time limit, for one run of today's policy: at most, and where requests are left out."""

MEMORY_FACTORS = (0.75, 1.5, 0.5, 2.0)
LOAD_FACTORS = (0.75, 1.25, 0.5, 1.5)
"""Where the curves have points beside the log itself, in order of computation."""

NEAREST = 4
"""Of these points, which come before most policies."""

SHARE = 0.99
"""What part of the requests the fewest replicas are to serve on time."""

BASELINE = PolicySpec("vllm")
"""What stands for what is there today: first come, first served."""

CHALLENGER = PolicySpec("vllm", {"order": "shortest-output"})
PROPOSED = (
    CHALLENGER,
    PolicySpec("vllm", {"order": "shortest-job"}),
    PolicySpec("vllm", {"order": "shortest-output", "ageing": 5}),
)
"""What is proposed for it; 5 tokens of ageing a second let nobody wait for minutes."""

ROUTERS = ("least-requests", "round-robin", "least-tokens")
"""Routers of a fleet unless others are asked for; the first stands for what is there today."""

BY_DEADLINE = PolicySpec("vllm", {"order": "deadline"})
"""What is proposed where there is a service level."""

ORDER_PARAMETERS = ("order", "ageing", "policy")
"""Parameters of a baseline that proposals do not take over: they propose another order."""

SEARCH, POLICY, POINT = "best possible", "policy", "point"
ON_TIME, TAIL, CAPACITY = "requests on time", "p99 latency", "fewest replicas"


@dataclass(frozen=True, eq=False)
class Task:
    """A computation of a policy, of the best possible, of a point or of the requests on time.

    Attributes
    ----------
    kind : str
        `SEARCH`, `POLICY`, `POINT`, `ON_TIME`, `TAIL` or `CAPACITY`.
    workload : Workload
        The requests.
    seed : int
        Seed of policies, predictions and searches.
    time_limit : float or None
        Seconds.
    shared : int64 array or None
        Tokens of each prompt that other requests could supply.
    specs : tuple[PolicySpec, ...]
        Policies to run.
    error : float
        Mean share of the truth by which the output lengths that they are told are off.
    faster : float
        How much faster than in the log requests arrive.
    name : str
        What messages call it.
    then : Task or None
        What is to be done after everything else, where this policy completes.
    level : ServiceLevel or None
        Service level that policies are told.
    on_time : OnTimePoint or None
        What is known at a level before anything is computed.
    router : RouterSpec or None
        What sends requests to replicas; None on one machine.
    routing_limit : float
        Seconds to enclose the least latency with a run's routing; 0 leaves it out.
    share : float
        Share of the requests that the fewest replicas must have on time.
    """

    kind: str
    workload: Workload = field(repr=False)
    seed: int
    time_limit: float | None
    shared: IntArray | None = field(default=None, repr=False)
    specs: tuple[PolicySpec, ...] = ()
    error: float = 0.0
    faster: float = 1.0
    name: str = SEARCH
    then: Task | None = None
    level: ServiceLevel | None = None
    on_time: OnTimePoint | None = None
    router: RouterSpec | None = None
    routing_limit: float = 0.0
    share: float = SHARE

    def follows(self, result: Any) -> list[Task]:
        """List what is to be done next, with this result."""
        completed = isinstance(result, PolicyRun) and result.mean_latency is not None
        return [self.then] if self.then is not None and completed else []

    def behind(self, router: RouterSpec) -> Task:
        """Make the same run behind another router."""
        return replace(self, router=router, name=f"{self.name} behind {router.label}")

    def failed(self, reason: str, *, is_error: bool) -> PolicyRun:
        """Return a run that did not complete, and why."""
        router = self.router.label if self.router else None
        return PolicyRun(self.specs[0].label, self.error, None, reason, is_error, router=router)

    def with_reuse(self) -> Task:
        """Make the same search for prompts without the tokens that other requests could supply.

        `instances.logs.prefixes` has the proof that lower bounds for these prompts hold for whole
        ones, whatever is reused.
        """
        assert self.shared is not None
        shorter = self.workload.prompt_lengths - self.shared
        return replace(self, workload=self.workload.replaced(prompt_lengths=shorter), shared=None)

    def predicted(self, error: float) -> Task:
        """Make the same run on predicted output lengths."""
        name = f"{self.name}, lengths off by {error:g}"
        return replace(self, error=error, name=name, routing_limit=0.0)


class Failure(str):
    """An exception of a task, in a line."""


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


def measure_headroom(  # noqa: PLR0913
    workload: Workload,
    policies: Sequence[AnyPolicy] | None = None,
    *,
    baseline: AnyPolicy = BASELINE,
    challenger: AnyPolicy = CHALLENGER,
    error: float = 0.5,
    measured: Measured | None = None,
    time_limit: float = 600.0,
    jobs: int = 1,
    seed: int = 0,
    level: ServiceLevel | None = None,
    routers: Sequence[AnyRouter] = ROUTERS,
    share: float = SHARE,
    shared_tokens: IntArray | None = None,
    concurrency: int | None = None,
    made_up: bool = False,
    progress: Callable[[HeadroomProgress], None] | None = None,
) -> Headroom:
    """Measure how much latency could have been saved at most, and which policy gets how much of it.

    Ctrl-C and the end of the time leave out what is not done; what is done is in the answer.

    Parameters
    ----------
    workload : Workload
        The requests, their batch time, and the number of replicas.
    policies : Sequence[AnyPolicy] or None, default None
        None takes every one that needs no parameters, and `PROPOSED`. Baseline and challenger are
        added.
    baseline : AnyPolicy, default `BASELINE`
        The policy that stands for what is there today.
    challenger : AnyPolicy, default `CHALLENGER`
        The one shown beside it at other memories and loads. The defaults of both parameters
        propose an order for the baseline's engine, with its other settings.
    error : float, default 0.5
        Error of predicted output lengths, see `RelativePredictions`; 0 leaves such runs out.
    measured : Measured or None, default None
        What the log says of its own latencies.
    time_limit : float, default 600.0
        Seconds for everything, > 0. Where it is too short for all requests, the first ones are
        taken, and the answer says how many.
    jobs : int, default 1
        Processes; 1 stays in this one.
    seed : int, default 0
        Seed of every random choice.
    level : ServiceLevel or None, default None
        Also find the most requests that can be on time, at this level and around it.
    routers : Sequence[AnyRouter], default `ROUTERS`
        Routers of several replicas; the first stands for what is there today.
    share : float, default 0.99
        Find the fewest replicas with which so large a share can be on time.
    shared_tokens : int64 array or None, default None
        Tokens of each prompt that other requests could supply, as `shared_prefixes` counts them;
        limits then hold for schedulers that reuse them. None leaves reuse of prompts out.
    concurrency : int or None, default None
        Most requests at once, where they are those of a closed loop. With ``made_up`` the loop is
        played: the baseline serves it, and a request arrives when another one ends.
    made_up : bool, default False
        Whether the arrivals of ``workload`` are not those of the log.
    progress : Callable[[HeadroomProgress], None] or None, default None
        Called at every task done and at every improvement of the interval.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        A parameter out of range, a policy that is none, or a workload without a batch time.
    """
    began = Clock()
    jobs = as_integer(jobs, None, "jobs", minimum=1)
    time_limit = as_number(time_limit, None, "time_limit", above=0)
    error = as_number(error, None, "error", minimum=0)
    workload.require_batch_time()
    seed = as_integer(seed, None, "seed", minimum=0)
    told = level is not None
    (current,), (other,) = (policy_specs([one], deadlines=told) for one in (baseline, challenger))
    others = policy_specs(policies, deadlines=told)
    if policies is None:
        others = [*PROPOSED, *([BY_DEADLINE] if told else []), *others]
        others = [_in_engine(one, current) for one in others]
    other = _in_engine(other, current) if challenger == CHALLENGER else other
    others.sort(key=_comes_late)
    chosen = {spec.label: spec for spec in (current, other, *others)}
    ways = {} if workload.replicas == 1 else {one.label: one for one in map(RouterSpec.of, routers)}
    for one in ways.values():
        one.make()
    whole = Task(SEARCH, workload, seed, time_limit, shared_tokens, level=level)
    router = next(iter(ways.values()), None)
    whole = replace(whole, router=router, share=share)
    # Engines meet every router; others do where they are named.
    late = [one for one in others if policies is None and _comes_late(one)]
    compared = (current, other)
    everywhere = [one for one in chosen.values() if ways and (one in compared or one not in late)]
    sent: list[PolicySpec | RouterSpec] = [*chosen.values(), *ways.values()]
    for each in sent if jobs > 1 else ():
        each.check_sendable()
    tasks: list[Task] = []
    results: list[tuple[Task, Any]] = []

    def say(text: str) -> None:
        if progress is not None:
            total = len(tasks) + sum(task.then is not None for task in tasks)
            progress(HeadroomProgress(len(results), max(1, total), text))

    def hear(task: Task, ends: tuple[float, float]) -> None:
        if task.kind == SEARCH:
            low, high = rounded_down(ends[0], 3), rounded_up(ends[1], 3)
            say(f"best possible in [{low}, {high}] s")
        elif task.kind == ON_TIME:
            say(f"{task.name}: {ends[0]} to {ends[1]} of {len(whole.workload)}")

    with Interruption(math.inf if jobs > 1 else 2) as pressed:
        say(f"{current.label}, first requests")
        whole = _first_requests(whole, current, concurrency if made_up else None, pressed)
        tasks += _tasks(whole, [*chosen.values()], compared, error, [*ways.values()], everywhere)
        if jobs == 1:
            # With one process the long search comes last.
            tasks.append(tasks.pop(1))
        clock = Clock(STOP_SHARE * time_limit - began.seconds(), pressed)
        run = run_tasks(
            tasks,
            _perform,
            jobs,
            pressed,
            hear=hear,
            lost=lambda task, reason: Failure(reason),
            must_stop=lambda: clock.must_stop() + (began.seconds() > LEAVE_SHARE * time_limit),
            follows=Task.follows,
        )
        with closing(run):
            for task, result in run:
                results.append((task, result))
                say(f"{task.name}: done")
        interrupted = pressed()
    return _answer(
        tasks,
        results,
        baseline=current.label,
        challenger=other.label,
        error=error,
        # Other requests of the log ran at the same time as the first ones.
        measured=measured if len(whole.workload) == len(workload) else None,
        seconds=began.seconds(),
        interrupted=interrupted,
        level=level,
        routers=tuple(ways),
        shared_tokens=whole.shared,
        concurrency=concurrency,
        made_up=made_up,
        left_out=len(workload) - len(whole.workload),
    )


def _first_requests(
    whole: Task, current: PolicySpec, loop: int | None, pressed: Callable[[], bool]
) -> Task:
    """Take as many requests as there is time for; in a closed loop, give them their arrivals."""
    began = Clock()
    count, shared = affordable(replace(whole, specs=(current,)), pressed), whole.shared
    workload = whole.workload
    if count < len(workload):
        workload, shared = workload.of(np.arange(count)), None if shared is None else shared[:count]
    if loop is not None and not pressed():
        limit = STOP_SHARE * (whole.time_limit or math.inf)
        workload = play_closed_loop(
            workload,
            loop,
            current,
            seed=whole.seed,
            level=whole.level,
            should_stop=lambda: pressed() or began.seconds() > limit,
        )
    return replace(whole, workload=workload, shared=shared)


def affordable(task: Task, pressed: Callable[[], bool]) -> int:
    """Estimate how many requests the time limit suffices for, by a run of the first ones."""
    count, size, limit = len(task.workload), SAMPLE, task.time_limit or math.inf
    if count <= size:
        return count
    while True:
        clock = Clock()
        sample = task.workload.of(np.arange(size))
        timed = replace(task, workload=sample, shared=None, time_limit=WINDOW_SHARE * limit)
        run = play(timed, pressed)
        if run.is_error or pressed():
            return count
        if run.mean_latency is not None or size == 1:
            break
        size //= 10
    fits = int(size / clock.seconds() * limit * WINDOW_SHARE)
    if count <= LONGEST_SHARE / WINDOW_SHARE * fits:
        return count
    # The estimate has no more than two digits.
    return max(1, fits - fits % int(10 ** max(0, len(str(fits)) - 2)))


def _in_engine(spec: PolicySpec, current: PolicySpec) -> PolicySpec:
    """Give a proposal for the engine of the baseline the baseline's settings, but for its order."""
    if spec.name != current.name or current.given is not None:
        return spec
    kept = {name: one for name, one in current.params.items() if name not in ORDER_PARAMETERS}
    return replace(spec, params={**kept, **spec.params})


def _comes_late(spec: PolicySpec) -> bool:
    """Tell whether a policy is no engine's and reads no deadlines, which a level is about."""
    policy = spec.make()
    return ".engines." not in type(policy).__module__ and not policy.reads_deadlines


def _on_time_tasks(whole: Task) -> list[Task]:
    """List the level itself, other levels, other loads, and the level again with more time."""
    level = whole.level
    if level is None:
        return []
    scales = [(replace(whole, kind=ON_TIME), scale) for scale in LEVEL_FACTORS]
    memory = whole.workload.memory_limit
    around = [one for one in _around(scales[0][0]) if one.workload.memory_limit == memory]
    loads = [(one, 1.0) for one in around]
    tasks = []
    for task, scale in [*scales, *loads]:
        scaled, count = scaled_level(level, scale), len(whole.workload)
        point = OnTimePoint(task.workload, scaled, scale, task.faster, count)
        name = f"{ON_TIME}, limits x{scale:g}, arrivals x{task.faster:g}"
        if task.workload.replicas != whole.workload.replicas:
            name = f"{ON_TIME}, {task.workload.replicas} replicas"
        limit = 2 * POINT_SHARE * (whole.time_limit or 0.0)
        tasks.append(replace(task, on_time=point, name=name, time_limit=limit))
    limit = SEARCH_SHARE / 2 * (whole.time_limit or 0.0)
    longer = replace(tasks[0], time_limit=limit, name=ON_TIME)
    tasks += [longer, replace(whole, kind=TAIL, time_limit=limit / 2, name=TAIL)]
    if whole.router is None:
        return tasks
    limit = CAPACITY_SHARE * (whole.time_limit or 0.0)
    return [*tasks, replace(whole, kind=CAPACITY, time_limit=limit, name=CAPACITY)]


def _tasks(
    whole: Task,
    specs: Sequence[PolicySpec],
    compared: tuple[PolicySpec, ...],
    error: float,
    routers: Sequence[RouterSpec],
    everywhere: Sequence[PolicySpec],
) -> list[Task]:
    """List the tasks by importance, but for the long search, which begins early.

    Policies run behind the first router, and ``everywhere`` behind all.
    """
    time_limit, on_time = whole.time_limit or 0.0, _on_time_tasks(whole)
    needed, others, elsewhere = [], [], []
    for spec in specs:
        task = replace(whole, kind=POLICY, specs=(spec,), name=spec.label)
        limit = max(LEAST_SECONDS, POLICY_SHARE * time_limit)
        if spec in everywhere:
            task = replace(task, routing_limit=ROUTED_SHARE * time_limit)
            elsewhere += [replace(task, time_limit=limit).behind(one) for one in routers[1:]]
        if spec in compared:
            # Without those compared there is nothing to say: they take what they need.
            needed.append(task)
        else:
            task = replace(task, time_limit=limit)
            others.append(replace(task, then=task.predicted(error)) if error else task)
    if routers:
        needed[0] = replace(needed[0], routing_limit=TODAY_SHARE * time_limit)
    around = _around(replace(whole, kind=POINT))
    enclosed = [replace(one, name=f"{SEARCH} at {one.name}") for one in around]
    around = [replace(one, specs=compared, name=f"policies at {one.name}") for one in around]
    if whole.router is not None and whole.router.name == LOGGED:
        # The log routes to its own replicas only.
        around = [one for one in around if one.workload.replicas == whole.workload.replicas]
    return [
        replace(whole, time_limit=POINT_SHARE * time_limit),
        replace(whole, time_limit=SEARCH_SHARE * time_limit / (2 if on_time else 1)),
        *on_time[:1],
        *needed,
        # An interval takes seconds, and the policies beside it minutes.
        *enclosed,
        *on_time[1:],
        *elsewhere,
        *([task.predicted(error) for task in needed] if error else []),
        *around[:NEAREST],
        *others,
        *around[NEAREST:],
    ]


def _around(task: Task) -> list[Task]:
    """List the points at other memories, as far as every request fits, and at other loads."""
    given = task.workload
    limit, rule = given.memory_limit, given.memory_rule
    sizes = zip(given.prompt_lengths.tolist(), given.output_lengths.tolist(), strict=True)
    needed = max(rule.peak_blocks(*size) for size in sizes)
    points: list[tuple[int, float, int]] = []
    replicas = given.replicas
    if replicas > 1:
        others = dict.fromkeys((replicas + 1, replicas - 1, 2 * replicas, (replicas + 1) // 2))
        points += [(limit, 1.0, one) for one in others]
    for factor, faster in zip(MEMORY_FACTORS, LOAD_FACTORS, strict=True):
        if rule.usable_blocks(round(limit * factor)) >= needed:
            points.append((round(limit * factor), 1.0, replicas))
        # What all arrives at once arrives no faster.
        if given.arrival_times[-1] > 0:
            points.append((limit, faster, replicas))
    return [
        replace(
            task,
            workload=given.replaced(
                arrival_times=given.arrival_times / faster,
                memory_limit=memory_limit,
                replicas=there,
            ),
            time_limit=POINT_SHARE * (task.time_limit or 0.0),
            faster=faster,
            name=f"M = {memory_limit}, arrivals x{faster:g}"
            if there == replicas
            else f"{there} replicas",
        )
        for memory_limit, faster, there in points
    ]


def _perform(task: Task, stop: Callable[[], bool], tell: Callable[[Any], None]) -> Any:
    """Do a task; an exception becomes its result, as minutes of others' work are not to be lost."""
    if task.shared is not None:
        # While a search runs it knows one end of the interval only.
        tell = lambda ends: None  # noqa: E731
    try:
        if task.kind in (SEARCH, ON_TIME):
            return (search if task.kind == SEARCH else attain)(task, stop, tell)
        others = {TAIL: shortest_tail, CAPACITY: fewest_replicas, POINT: point, POLICY: play}
        return others[task.kind](task, stop)
    except Exception as error:  # noqa: BLE001 (named in the answer)
        return Failure(one_line(error))


def play(task: Task, stop: Callable[[], bool] | None = None) -> PolicyRun:
    """Run a policy, and check what it did; enclose the best with the routing of a fleet's run."""
    (spec,) = task.specs
    trial = run_policy(
        task.workload,
        spec,
        task.seed,
        predictions=RelativePredictions(task.error) if task.error else None,
        time_limit=task.time_limit,
        stop=stop,
        level=task.level,
        router=task.router,
    )
    run, seconds = trial.run, stretch_seconds(task.workload)
    if trial.mean_latency is None or trial.reason is not None or run is None:
        reason = trial.reason or trial.status
        return task.failed(reason, is_error=trial.error is not None and trial.status != "refused")
    found = PolicyRun(
        spec.label,
        task.error,
        trial.mean_latency,
        latencies=run.latencies,
        first_tokens=run.per_request()["ttft"],
    )
    if not run.parts or task.router is None:
        return replace(found, over_time=over_time(run, seconds))
    nothing = OverTime(seconds, np.zeros(1), np.zeros(1))
    parts = [nothing if one is None else over_time(one, seconds) for one in run.parts]
    try:
        found = replace(found, assigned=enclose_routing(task, run.replica, stop or never))
    except Exception as error:  # noqa: BLE001 (named in the answer; the run is not lost)
        found = replace(found, reason=one_line(error), is_error=True)
    return replace(
        found,
        over_time=together(parts),
        router=task.router.label,
        assignment=run.replica,
    )


def enclose_routing(task: Task, assignment: IntArray, stop: Callable[[], bool]) -> Interval | None:
    """Enclose the least mean latency of all schedulers that leave requests on their replicas."""
    if not task.routing_limit:
        return None
    parts = [own for own in by_replica(assignment, task.workload.replicas) if len(own)]
    totals = []
    for positions in parts:
        part = replace(
            task,
            workload=task.workload.alone(positions),
            time_limit=task.routing_limit / len(parts),
            shared=None if task.shared is None else task.shared[positions],
        )
        totals.append(search(part, stop).mean_latency.times(len(positions)))
    return Interval.sum_of(totals).times(Fraction(1, len(task.workload)))


def _find(
    task: Task,
    stop: Callable[[], bool],
    tell: Callable[[tuple[float, float]], None] = lambda ends: None,
    **asked: Any,
) -> Any:
    """Search as the task says, and raise what the search raises."""
    found = find_optimum(
        task.workload,
        time_limit=task.time_limit,
        progress=lambda news: tell((news.lower_bound, news.upper_bound)),
        threads=1,
        seed=task.seed,
        should_stop=stop,
        **asked,
    )
    if isinstance(found, Exception):
        raise found
    return found


def _with_and_without_reuse(task: Task, find: Callable[[Task], Any]) -> tuple[Any, Any]:
    """Search with whole prompts for schedules, and for limits with what is left after any reuse.

    Where no reuse is known, both results are the same one.
    """
    if task.shared is None or not task.shared.any():
        found = find(task)
        return found, found
    half = replace(task, time_limit=None if task.time_limit is None else task.time_limit / 2)
    return find(half), find(half.with_reuse())


def search(
    task: Task,
    stop: Callable[[], bool],
    tell: Callable[[tuple[float, float]], None] = lambda ends: None,
) -> BestPossible:
    """Search for the best possible."""
    # A preempted request may find its own tokens again in a cache of prefixes.
    whole, limit = _with_and_without_reuse(
        task,
        lambda one: _find(
            one, stop, tell, preemption="recompute" if one.workload is task.workload else "keep"
        ),
    )
    count = len(task.workload)
    interval = Interval(limit.lower_bound / count, whole.upper_bound / count)
    without = None if limit is whole else whole.lower_bound / count
    return BestPossible(interval, limit.best_bound, limit.certified, without_reuse=without)


def point(task: Task, stop: Callable[[], bool]) -> CurvePoint:
    """Run the policies at another memory or load; without any, enclose the best possible."""
    best = None if task.specs else search(task, stop)
    runs = []
    for spec in task.specs:
        run = play(replace(task, specs=(spec,), time_limit=None), stop)
        runs.append(replace(run, over_time=None))
    loaded = load(task.workload)
    limit, replicas = task.workload.memory_limit, task.workload.replicas
    return CurvePoint(limit, task.faster, loaded, best, tuple(runs), replicas)


def attain(task: Task, stop: Callable[[], bool], tell: Callable[[Any], None]) -> OnTimePoint:
    """Enclose the most requests on time."""
    point = task.on_time
    assert point is not None
    level = point.level
    found, limit = _with_and_without_reuse(task, lambda one: _find(one, stop, tell, level=level))
    if found.schedule is not None:
        # It may be one of the requests on time alone.
        on_time = np.flatnonzero(found.schedule.on_time(point.level)).tolist()
        ids = {found.schedule.problem.ids[place] for place in on_time}
        kept = np.array([name in ids for name in task.workload.ids])
        point = replace(point, kept={("search", 0.0): kept})
    bound, certified = limit.best_bound, limit.certified
    return replace(point, upper=limit.upper_bound, bound=bound, certified=certified)


def shortest_tail(task: Task, stop: Callable[[], bool]) -> Interval:
    """Enclose the least p99 latency of every scheduler."""
    from hindsight import Tail
    from hindsight.solver import solve_until

    known, limit = _with_and_without_reuse(
        task,
        lambda one: solve_until(
            stop, one.workload, one.time_limit, goal=Tail(P99), threads=1, seed=one.seed
        ),
    )
    return Interval(Fraction(limit.lower_bound), Fraction(known.upper_bound))


def fewest_replicas(task: Task, stop: Callable[[], bool]) -> CapacityResult:
    """Enclose the fewest replicas with which enough requests can be on time."""
    from hindsight import OnTime
    from hindsight.runtime.search import Search
    from hindsight.sizing import replicas_within

    level = task.level
    assert level is not None

    def find(one: Task) -> CapacityResult:
        search = Search.checked(one.time_limit, stop, threads=1, seed=one.seed)
        return replicas_within(one.workload, OnTime(level), one.share, search)

    known, limit = _with_and_without_reuse(task, find)
    enough: CapacityResult = known
    return replace(enough, lower_bound=limit.lower_bound)


def _on_time(
    found: Headroom, tasks: Sequence[Task], results: Sequence[tuple[Task, Any]]
) -> tuple[OnTimePoint, ...]:
    """Put together what is known of the requests on time, by level and load."""
    points, log = {}, found.measured
    here, limit = (1.0, found.replicas), found.workload.memory_limit
    curves = {
        (one.faster, one.replicas): one.runs for one in found.points if one.memory_limit == limit
    }
    for point in (task.on_time for task in tasks if task.on_time is not None):
        place = (point.faster, point.replicas)
        if place == here and log is not None and not found.made_up:
            point = point.ran(MEASURED, 0.0, log.latencies, log.first_tokens)
        for run in found.runs if place == here else curves.get(place, ()):
            point = point.ran(run.policy, run.error, run.latencies, run.first_tokens)
        points[point.scale, *place] = point
    computed = [result for _, result in results if isinstance(result, OnTimePoint)]
    joined = carried_on_time([*points.values(), *computed])[: len(points)]
    return tuple(sorted(joined, key=lambda one: (one.scale, one.faster, one.replicas)))


def _same_routing(routed: Sequence[PolicyRun]) -> list[PolicyRun]:
    """Share what is known of equal assignments; a run is a schedule with its own."""
    known: dict[bytes, list[Interval]] = {}
    for run in routed:
        if run.assigned is not None and run.assignment is not None:
            intervals = known.setdefault(run.assignment.tobytes(), [])
            intervals += [run.assigned, Interval(None, run.mean_latency)]
    return [
        replace(run, assigned=Interval.common_to(known[run.assignment.tobytes()]))
        if run.assigned is not None and run.assignment is not None
        else run
        for run in routed
    ]


def _reached(
    best: BestPossible, runs: Sequence[PolicyRun], routed: Sequence[PolicyRun]
) -> BestPossible:
    """Add the schedules of runs, and the best found with their routing."""
    for run in runs:
        best = best.reached(run.mean_latency, run.policy)
    for run in routed:
        who = f"{run.policy} behind {run.router}"
        best = best.reached(run.mean_latency, who)
        if run.assigned is not None:
            best = best.reached(run.assigned.upper, f"search, routing of {who}")
    return best


def _answer(tasks: Sequence[Task], results: list[tuple[Task, Any]], **known: Any) -> Headroom:
    """Put together what the tasks came to; a text is why one came to nothing."""
    workload = tasks[0].workload
    done = dict(results)
    missing = [task.name for task in tasks if task not in done]
    for task in tasks:
        waits = task not in done or bool(task.follows(done[task]))
        if task.then is not None and task.then not in done and waits:
            missing.append(task.then.name)
    errors: list[str] = []
    best: BestPossible | None = None
    runs: list[PolicyRun] = []
    routed: list[PolicyRun] = []
    points: dict[tuple[int, float, int], CurvePoint] = {}
    for task, result in results:
        if task.kind == POLICY:
            failed = isinstance(result, Failure)
            run = task.failed(result, is_error=True) if failed else result
            runs += [run] if task.router == tasks[0].router else []
            routed += [run] if task.routing_limit else []
            # Policies without a result have a table.
            lost = failed or (run.is_error and run.mean_latency is not None)
            errors += [f"{task.name}: {run.reason}"] if lost else []
        elif isinstance(result, Failure):
            errors.append(f"{task.name}: {result}")
        elif task.kind == SEARCH:
            best = result if best is None else best.joined(result)
        elif task.kind == POINT:
            place = (result.memory_limit, result.faster, result.replicas)
            known_there = points.get(place, replace(result, best=None, runs=()))
            points[place] = known_there.joined(result)
            lacks = [run for run in result.runs if run.mean_latency is None]
            errors += [f"{task.name}, {one.policy}: {one.reason}" for one in lacks if one.is_error]
            late = ", ".join(one.policy for one in lacks if not one.is_error)
            missing += [f"{task.name}: {late}"] if late else []
    routed = _same_routing(routed)
    best = None if best is None else _reached(best, runs, routed)
    ended = [(task.kind, one) for task, one in results if not isinstance(one, Failure)]
    capacity = next((result for kind, result in ended if kind == CAPACITY), None)
    loaded = load(workload)
    own = CurvePoint(workload.memory_limit, 1.0, loaded, best, (), workload.replicas)
    last_arrival = float(workload.arrival_times[-1])
    own, *others = carried_over([own, *points.values()], last_arrival)
    names = [task.name for task in tasks if not task.error]
    found = Headroom(
        workload=workload,
        load=loaded,
        best=own.best,
        no_best=None if own.best is not None else next(iter(errors), None),
        runs=tuple(sorted(runs, key=lambda run: (run.error, names.index(run.policy)))),
        points=tuple(sorted(others, key=lambda one: (one.memory_limit, one.faster, one.replicas))),
        routed=tuple(routed),
        capacity=capacity,
        unfinished=tuple(dict.fromkeys(missing)),
        errors=tuple(dict.fromkeys(errors)),
        **known,
    )
    p99 = next((result for _, result in results if isinstance(result, Interval)), None)
    if p99 is not None:
        # A policy's schedule counts too.
        tails = [tail for tail in (p99.upper, *(run.p99 for run in runs)) if tail is not None]
        p99 = Interval(p99.lower, min(tails))
    return replace(found, on_time=_on_time(found, tasks, results), p99=p99)
