"""Policies against the hindsight optimum of the same instances: one, or many on several cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    ServiceLevel,
    Workload,
)
from instances.problem.arrival_source import AnySource, ArrivalSource, batch_time_of
from instances.progress import listener
from instances.validation import as_flag, as_integer, as_time_limit
from online.policy_interface.router import Router
from online.policy_interface.specs import AnyPolicy, AnyRouter, RouterSpec, policy_specs
from online.runtime.processes import run_tasks
from online.runtime.table import Table

from .ratio_tables import Records
from .running import Listener, asked_trial, find_optimum, run_policy
from .trial import COMPLETED, AnyProblem, Trial, held_alike

if TYPE_CHECKING:
    from hindsight import Progress


@dataclass(frozen=True, slots=True)
class ComparisonProgress:
    """News from `compare_many`.

    Attributes
    ----------
    finished, total : int
        Instances.
    instance : str or None
        The one the news is about.
    gap : float or None
        (upper - lower) / upper of its interval so far; None when it is finished.
    """

    finished: int
    total: int
    instance: str | None
    gap: float | None

    def __str__(self) -> str:
        gap = "done" if self.gap is None else f"gap {math.ceil(self.gap * 1e4) / 100:g} %"
        return f"{self.finished}/{self.total}, {self.instance}: {gap}"

    @property
    def share(self) -> float:
        """Share of all instances that are finished."""
        return self.finished / max(1, self.total)


@dataclass(frozen=True)
class Comparison:
    """Outcome of `compare_many`.

    Attributes
    ----------
    records : tuple[Trial, ...]
        For each finished instance a trial for each policy, in the order given, whatever the order
        in which they finished.
    total : int
        Instances asked for.
    finished : int
        Instances with records.
    interrupted : bool
        Whether Ctrl-C ended it early.
    """

    records: tuple[Trial, ...]
    total: int
    finished: int
    interrupted: bool

    def __repr__(self) -> str:
        told = f"{self.finished} of {self.total} instances, {len(self.records)} records"
        return f"Comparison({told}{', interrupted' if self.interrupted else ''})"

    def frame(self) -> Any:
        """Make a data frame, as `Records.frame` does."""
        return Records(self.records).frame()

    def summary(self) -> Table:
        """Summarise, as `Records.summary` does."""
        return Records(self.records).summary()


def compare(  # noqa: PLR0913
    instance: AnySource,
    policies: AnyPolicy | Iterable[AnyPolicy] | None = None,
    *,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Listener | bool | None = None,
    policy_time_limit: float | None = None,
    should_stop: Callable[[], bool] | None = None,
    preemptive: bool = False,
    level: ServiceLevel | None = None,
    routers: AnyRouter | Iterable[AnyRouter] | None = None,
) -> Records:
    """Run policies on an instance, solve it in hindsight, and put the two side by side.

    Of a workload all latencies are in seconds, and the optimum is the least of every scheduler,
    whatever it may do: no policy is without a ratio because of what it does.

    Against an arrival source every policy is measured on the instance its own run realised. The
    policies' schedules are upper bounds of the optimum, so no ratio falls below 1. Ctrl-C ends
    the run or the search in progress; the interval found so far stands. What goes wrong with one
    policy, or with the optimum, is the ``reason`` of a trial, and the others do not suffer.

    Parameters
    ----------
    instance : Instance, Workload or ArrivalSource
        The problem, such as a `Workload` with its batch time, or a source that answers the
        policies' moves.
    policies : AnyPolicy or Iterable[AnyPolicy] or None, default None
        Names, text such as ``"my_rules.py:LeastVolume(alpha=0.2)"``, `PolicySpec`, classes of
        policies, functions that make one, objects, of which every run has a copy; None takes every
        registered policy that needs no parameters.
    time_limit : float or None, default None
        Seconds for each solve, or None.
    seed : int, default 0
        Of policies, arrival source and solver.
    threads : int or None, default None
        Of HiGHS, or None for its choice.
    progress : Listener or bool or None, default None
        Told of every improvement of the interval; True shows it, in a notebook or a terminal.
    policy_time_limit : float or None, default None
        Seconds for each policy's run, after which it counts as failed.
    should_stop : Callable[[], bool] or None, default None
        Polled; True interrupts. None listens to Ctrl-C.
    preemptive : bool, default False
        Whether every policy is compared with the preemptive optimum. A policy that may preempt
        requests and keep their tokens (`Policy.preempts`, or some run of the table did) is in any
        case, on all instances, for the other optimum is not a bound on it.
        `Trial.compared_with` names the optimum. Not in seconds.
    level : ServiceLevel or None, default None
        Counts the requests on time too, and searches, for as long again, for the most that any
        scheduler has on time (`hindsight.OnTime`). Policies are told, and None of them takes
        those that need a level too.
    routers : AnyRouter or Iterable[AnyRouter] or None, default None
        Routers of a fleet, each with every policy; None where there is one machine.

    Returns
    -------
    Records
        A list with a `Trial` for each policy, in the order given.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A bad argument.

    Examples
    --------
    >>> import online
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> [str(one.ratio.text(3)) for one in online.compare(instance, ["mc-sf", "fcfs"])]
    ['1.000', '1.286']
    """
    from hindsight.runtime.clock import Clock

    specs = policy_specs(policies, deadlines=level is not None)
    seed = as_integer(seed, None, "seed", minimum=0)
    time_limit = as_time_limit(time_limit)
    policy_time_limit = as_time_limit(policy_time_limit, field="policy_time_limit")
    preemptive = as_flag(preemptive, None, "preemptive")
    ways = router_specs(routers)
    check_problem(instance, ways)
    in_rounds = batch_time_of(instance) is None
    if preemptive and not in_rounds:
        raise InvalidValueError(None, "preemptive", True, "has no meaning in seconds")
    if preemptive and isinstance(instance, Instance):
        instance.refuse_weights("is not 1: preemptive=True counts every request alike")
    check_level(level)
    options: dict[str, Any] = {"time_limit": time_limit, "threads": threads, "seed": seed}
    known = instance if isinstance(instance, AnyProblem) else None
    clock = Clock(should_stop=should_stop)
    with clock.listening(), listener(progress) as told:
        stop = clock.must_stop
        trials = [
            run_policy(
                instance,
                spec,
                seed,
                time_limit=policy_time_limit,
                stop=stop,
                level=level,
                router=router,
            )
            for spec in specs
            for router in ways
        ]
        if in_rounds:
            declared = [preemptive or spec.make().preempts for spec in specs for _ in ways]
            trials = held_alike(
                replace(one, preemptive=one.preemptive or may_preempt)
                for one, may_preempt in zip(trials, declared, strict=True)
            )
        # A run that left requests unserved realised only part of what an arrival source would send.
        wanted = {
            (trial.problem.digest, trial.preemptive): trial.problem
            for trial in trials
            if trial.problem is not None and trial.status == COMPLETED
        }
        if known is not None and not wanted:
            wanted[known.digest, preemptive] = known
        options |= {"progress": told, "should_stop": stop}
        optima = {kind: _optimum(problem, kind[1], options) for kind, problem in wanted.items()}
        if level is not None:
            problems = {digest: problem for (digest, _), problem in wanted.items()}
            most = {
                digest: find_optimum(problem, level=level, **options)
                for digest, problem in problems.items()
            }
            trials = [trial.within(level, most.get(trial.digest or "")) for trial in trials]
    for (digest, kind), found in optima.items():
        trials = [
            one.beside(found, preemptive=kind) if one.digest == digest else one for one in trials
        ]
    return Records(held_alike(trials))


def check_level(level: object) -> None:
    """Refuse what is no service level of all requests."""
    if level is not None and not isinstance(level, ServiceLevel):
        raise InvalidTypeError(None, "level", level, "is no ServiceLevel")


def router_specs(
    routers: AnyRouter | Iterable[AnyRouter] | None,
) -> Sequence[RouterSpec | None]:
    """Check and normalise a choice of routers; None alone stands for no router.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        No such router, bad parameters, or one given twice.
    """
    if routers is None:
        return [None]
    one = isinstance(routers, str | RouterSpec | Router) or not isinstance(routers, Iterable)
    given: Any = [routers] if one else routers
    specs = [RouterSpec.of(router) for router in given]
    labels = [spec.label for spec in specs]
    for spec in specs:
        spec.make()
        if labels.count(spec.label) > 1:
            raise InvalidValueError(None, "routers", spec.label, "is given twice")
    return specs or [None]


def check_problem(problem: object, routers: Sequence[RouterSpec | None] = (None,)) -> None:
    """Refuse what policies cannot be compared on.

    Raises
    ------
    InvalidTypeError
        Neither an instance nor an arrival source.
    InvalidValueError
        Several replicas and no router, a router of one machine, a workload without a batch time.
    """
    replicas = getattr(problem, "replicas", 1)
    if replicas == 1 and None not in routers:
        reason = "are given, but there is one machine: they need several replicas"
        raise InvalidValueError(None, "routers", [*map(str, routers)], reason)
    if replicas > 1 and None in routers:
        reason = "needs a router, as routers=... or --router gives"
        raise InvalidValueError(None, "replicas", replicas, reason)
    if not isinstance(problem, Instance | Workload | ArrivalSource):
        raise InvalidTypeError(None, "instance", problem, "is no Instance and no arrival source")
    batch_time_of(problem)


def _optimum(problem: AnyProblem, preemptive: bool, options: dict[str, Any]) -> Any:
    """Search for an optimum; a bad argument is raised, unless weights are what it is about."""
    found = find_optimum(problem, preemptive=preemptive, **options)
    # A bad argument is not the solver's failure, and a preemptive policy is not a bad argument.
    is_argument = isinstance(found, (InvalidTypeError, InvalidValueError))
    if is_argument and not (preemptive and getattr(problem, "is_weighted", False)):
        raise found
    return found


def compare_many(  # noqa: PLR0913
    instances: Iterable[AnySource],
    policies: AnyPolicy | Iterable[AnyPolicy] | None = None,
    *,
    jobs: int = 1,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[ComparisonProgress], None] | bool | None = None,
    policy_time_limit: float | None = None,
    preemptive: bool = False,
    level: ServiceLevel | None = None,
    routers: AnyRouter | Iterable[AnyRouter] | None = None,
) -> Comparison:
    """`compare` on each instance, in ``jobs`` processes.

    Results do not depend on ``jobs``, except through the time limit. Ctrl-C ends the running
    searches, whose intervals stand, and skips the rest; a second one ends them without. A worker
    process that dies takes along its instance, whose records say so.

    Parameters
    ----------
    instances : Iterable[Instance, Workload or ArrivalSource]
        Instances, workloads, or arrival sources.
    policies : AnyPolicy or Iterable[AnyPolicy] or None, default None
        As in `compare`.
    jobs : int, default 1
        Processes; 1 stays in this one. New processes import the main module afresh, so a script
        must guard its entry with ``if __name__ == "__main__"``.
    time_limit : float or None, default None
        Seconds for each instance, or None.
    seed : int, default 0
        Of every random choice.
    threads : int or None, default None
        Of HiGHS in each process; None is one where ``jobs`` > 1, else HiGHS's choice.
    progress : Listener or bool or None, default None
        Told of every improvement and every finished instance, in this process; True shows that, in
        a notebook or a terminal.
    policy_time_limit : float or None, default None
        Seconds for each policy's run on each instance, or None.
    preemptive : bool, default False
        As in `compare`.
    level : ServiceLevel or None, default None
        As in `compare`.
    routers : AnyRouter or Iterable[AnyRouter] or None, default None
        As in `compare`.

    Raises
    ------
    What `compare` raises; for the policies before anything is run.
    InvalidValueError
        A policy cannot be sent to another process.
    """
    from instances.ctrl_c import Interruption

    jobs = as_integer(jobs, None, "jobs", minimum=1)
    specs = policy_specs(policies, deadlines=level is not None)
    problems = list(instances)
    ways = router_specs(routers)
    for problem in problems:
        check_problem(problem, ways)
    check_level(level)
    jobs = min(jobs, max(1, len(problems)))
    for spec in (*specs, *ways) if jobs > 1 else ():
        if spec is not None:
            spec.check_sendable()
    options = {
        "policies": specs,
        "time_limit": as_time_limit(time_limit),
        "seed": seed,
        "threads": 1 if jobs > 1 and threads is None else threads,
        "policy_time_limit": as_time_limit(policy_time_limit, field="policy_time_limit"),
        "preemptive": as_flag(preemptive, None, "preemptive"),
        "level": level,
        "routers": None if None in ways else ways,
    }
    todo = list(enumerate(problems))
    done: dict[int, list[Trial]] = {}
    # Nothing that workers do is broken off here; this process would be, by what it does itself.
    with Interruption(2 if jobs == 1 else math.inf) as pressed, listener(progress) as told:

        def hear(job: Job, gap: float | None) -> None:
            if told is not None:
                told(ComparisonProgress(len(done), len(problems), job[1].name, gap))

        work, lost = partial(_compared, options), partial(_lost, options)
        run = run_tasks(todo, work, jobs, pressed, hear=hear, lost=lost)
        with closing(run):
            for job, found in run:
                done[job[0]] = found
                hear(job, None)
        trials = held_alike(trial for _, found in sorted(done.items()) for trial in found)
        # Preemptive optima of instances on which a policy did not preempt, but on others.
        late = {
            trial.digest: trial.problem
            for trial in trials
            if trial.preemptive and trial.status == COMPLETED and trial.problem is not None
            if trial.stop_reason is None and trial.reason is None
        }
        limits = {name: options[name] for name in ("time_limit", "seed", "threads")}
        search = run_tasks(
            list(late.items()),
            partial(_sought, limits),
            min(jobs, max(1, len(late))),
            pressed,
            hear=hear,
            lost=lambda task, reason: RuntimeError(reason),
        )
        with closing(search):
            for (digest, _), result in search:
                trials = [
                    one.beside(result, preemptive=True) if one.digest == digest else one
                    for one in trials
                ]
        interrupted = pressed() or len(done) < len(problems)
    records = tuple(trial.alone() for trial in held_alike(trials))
    return Comparison(records, len(problems), len(done), interrupted)


Job: TypeAlias = tuple[Any, AnySource]
"""Place or digest, and problem."""


def _compared(
    options: dict[str, Any],
    job: Job,
    should_stop: Callable[[], bool],
    tell: Callable[[float], None],
) -> list[Trial]:
    def hear(news: Progress) -> None:
        tell(news.gap)

    found = compare(job[1], progress=hear, should_stop=should_stop, **options)
    return [replace(trial.alone(), problem=trial.problem) for trial in found]


def _sought(
    limits: dict[str, Any],
    task: tuple[str | None, AnyProblem],
    should_stop: Callable[[], bool],
    tell: Callable[[float], None],
) -> Any:
    return find_optimum(
        task[1],
        preemptive=True,
        should_stop=should_stop,
        progress=lambda news: tell(news.gap),
        **limits,
    )


def _lost(options: dict[str, Any], job: Job, reason: str) -> list[Trial]:
    """Return the trials of an instance of which nothing came back."""
    asked = partial(
        asked_trial,
        job[1],
        seed=options["seed"],
        preemptive=options["preemptive"],
    )
    return [
        replace(asked(spec), reason=reason, router=router.label if router else "").alone()
        for spec in options["policies"]
        for router in router_specs(options["routers"])
    ]
