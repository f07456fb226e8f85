"""The trials of one problem: runs of policies, and searches for the optima to compare with."""

from __future__ import annotations

import inspect
import logging
import math
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    LibraryEntry,
    Schedule,
    ServiceLevel,
    Workload,
    known_bounds,
)
from instances.problem.arrival_source import AnySource, ArrivalSource, batch_time_of
from instances.user_modules import users_line
from instances.validation import as_choice
from online.policy_interface.policy import Policy
from online.policy_interface.specs import AnyRouter, PolicySpec, RouterSpec, Spec
from online.simulation.simulator import simulate

from .intervals import LATENCY, MAKESPAN, ON_TIME, Latency, cost_of, schedule_of, total_of
from .library import entry_of
from .predictions import PredictionSpec
from .trial import COMPLETED, FAILED, OF_OPTIMUM, REFUSED, Trial, one_line

_log = logging.getLogger(__name__)

UNSERVED = {
    "livelock": "evictions would repeat for ever",
    "stalled": "it starts nothing more, with requests left unserved",
    "round-limit": "the limit on rounds came first",
    "time-limit": "its time ran out",
}
"""Text in `Trial.reason`, by status of the run, if the run of a trial left requests unserved."""

DIED = "the worker process died: it was killed, or out of memory"
"""Text in `Trial.reason` if the worker process that ran the trial died."""

PREEMPTION = {"preemptive_total_latency": "keep", "seconds": "keep"}
"""`Trial.preemption` for an optimum from a library record, by goal of the record; else "never"."""


CHOICES = {"preemption": ("never", "keep", "recompute"), "optimum": ("solve", "records")}
"""Allowed values of two parameters of `online.sweep`, other than None."""


@dataclass(frozen=True)
class Search:
    """Parameters of a sweep: the optimum that runs are compared with, and the source of its bounds.

    Attributes
    ----------
    goal, preemption, time_limit, optimum : Any, str or None, float or None, str or None
        Arguments of `online.sweep` with these names.
    """

    goal: Any
    preemption: str | None
    time_limit: float | None
    optimum: str | None

    def __post_init__(self) -> None:
        if self.goal not in (LATENCY, MAKESPAN) and self._level is None:
            reason = "is not 'latency', 'makespan' or hindsight.OnTime with one service level"
            raise InvalidValueError(None, "goal", self.goal, reason)
        for name, known in CHOICES.items():
            if (value := getattr(self, name)) is not None:
                as_choice(value, None, name, known)

    @property
    def _level(self) -> ServiceLevel | None:
        level = getattr(self.goal, "level", None)
        return level if isinstance(level, ServiceLevel) else None

    def level(self, problem: AnySource) -> ServiceLevel | None:
        """Return the service level that the runs are judged by and that policies see.

        It is None if the goal has none. With ``optimum="records"`` it is the service level of the
        library instance.
        """
        entry = entry_of(problem) if self.optimum == "records" else None
        return self._level if entry is None else entry.level

    def check(self, problem: AnySource) -> None:
        """Raise an error if the optimum to compare with is not defined for a problem.

        Raises
        ------
        InvalidValueError
            The preemption or the goal does not exist in the problem's unit of time (rounds or
            seconds). Or ``optimum`` is ``"records"``, and the library has no record of the problem,
            or its record has another goal or preemption.
        """
        timed = batch_time_of(problem) is not None
        if self.optimum == "records":
            self._check_record(problem)
        if self.preemption == ("never" if timed else "recompute"):
            reason = f"is not available in {'seconds' if timed else 'rounds'}"
            raise InvalidValueError(None, "preemption", self.preemption, reason)
        if self.goal == MAKESPAN and timed:
            raise InvalidValueError(None, "goal", self.goal, "is not available in seconds")

    def _check_record(self, problem: AnySource) -> None:
        entry = entry_of(problem)
        if entry is None:
            reason = "is not an instance of the library: it has no record"
            raise InvalidValueError(None, "instance", problem.name, reason)
        goal, preemption = _recorded(entry)
        for name, given, usual, known in (
            ("goal", self._level or self.goal, LATENCY, entry.level or goal),
            ("preemption", self.preemption, None, preemption),
        ):
            if given not in (usual, known):
                reason = f"differs from {str(known)!r}, which the record of {entry.name} bounds"
                reason += ": choose optimum solve"
                raise InvalidValueError(None, name, str(given), reason)

    def asked(self, problem: AnySource, policy: Policy) -> dict[str, Any]:
        """Return the attributes ``goal``, ``preemption`` and ``asked`` of a `Trial`.

        These define the optimum that the trial is compared with. ``preemption`` is the argument of
        the sweep. If the argument is None, it is ``"keep"`` in seconds or for policies that may
        preempt requests and keep their tokens, else ``"never"``. ``asked`` is the argument as
        given, or empty in seconds or for None.
        """
        timed = batch_time_of(problem) is not None
        goal, given, level = self.goal, self.preemption, self.level(problem)
        if self.optimum == "records" and (entry := entry_of(problem)) is not None:
            goal, given = _recorded(entry)
        own = "keep" if timed or (policy.preempts and goal == LATENCY) else "never"
        return {
            "goal": goal if level is None else f"{ON_TIME}: {level}",
            "preemption": given or own,
            "asked": "" if timed else given or "",
        }

    def is_enough(self, stored: Trial) -> bool:
        """Return whether no further search for the optimum of a stored trial is useful.

        That is the case if the optimum is proved, if the trial has no ratio, or if an earlier
        search had at least the time limit of this sweep.
        """
        if stored.status != COMPLETED or stored.is_proved or stored.reason:
            return True
        if not stored.stop_reason or stored.stop_reason == "interrupted":
            return False
        limits = (math.inf if one is None else one for one in (stored.time_limit, self.time_limit))
        return next(limits) >= next(limits)

    def solve(self, trial: Trial, problem: Instance | Workload, start: Any) -> dict[str, Any]:
        """Search for the optimum of a trial, beginning with the schedule ``start`` if given.

        Return the attributes of `Trial` that describe the optimum (`OF_OPTIMUM`). If the search
        fails, return its attribute ``reason``.
        """
        import hindsight

        options: dict[str, Any] = {"goal": self.goal, "preemption": trial.preemption}
        if trial.goal == LATENCY:
            options["start"] = start
        elif trial.goal != MAKESPAN:
            del options["preemption"]
        try:
            best = hindsight.solve(problem, self.time_limit, threads=1, progress=False, **options)
        except Exception as error:  # noqa: BLE001 (one search must not end the others)
            _log.debug("no optimum of %s", problem.name, exc_info=True)
            return {"reason": f"no optimum: {one_line(error)}", "stop_reason": FAILED}
        return {
            "lower": best.lower_bound,
            "upper": best.upper_bound,
            "certified": best.certified_lower_bound if trial.goal == LATENCY else None,
            "bound": best.best_bound,
            "stop_reason": best.stop_reason,
            "time_limit": self.time_limit,
        }


class Asked(NamedTuple):
    """A trial that a sweep has to run, with the problem, policy, predictions and router."""

    trial: Trial
    problem: AnySource
    spec: PolicySpec
    model: PredictionSpec
    router: RouterSpec | None


@dataclass
class Task:
    """Work of a sweep on one problem: trials to run, and trials whose optimum is to be searched.

    Attributes
    ----------
    problem : Instance or Workload or ArrivalSource
        The problem.
    search : Search
        The optimum that runs are compared with, and how it is bounded.
    missing : list[Asked]
        Trials to run, which the store lacks.
    stored : list[Trial]
        Trials from the store whose optimum is to be searched again.
    known : list[Trial]
        Other trials from the store on this problem. Their bounds are used if they are for the same
        optimum.
    """

    problem: AnySource
    search: Search
    missing: list[Asked] = field(default_factory=list)
    stored: list[Trial] = field(default_factory=list)
    known: list[Trial] = field(default_factory=list)

    def perform(self) -> list[Trial]:
        """Run the missing trials, then search for each optimum once. Return all trials.

        A search begins with the best schedule of the runs.
        """
        found = [(one, None, None) for one in self.stored]
        found += [self._run(one) for one in self.missing]
        trials = [trial for trial, *_ in found]
        kinds: dict[tuple[str, str], list[int]] = {}
        for place, trial in enumerate(trials):
            if self.search.optimum == "solve" and trial.status == COMPLETED and not trial.reason:
                kinds.setdefault((trial.digest, trial.preemption), []).append(place)
        for places in kinds.values():
            bounds = self._bounds(*zip(*(found[place] for place in places), strict=True))
            for place in places:
                trials[place] = replace(trials[place], **bounds)
        return trials

    def _bounds(
        self, trials: Sequence[Trial], problems: Sequence[Any], schedules: Sequence[Any]
    ) -> dict[str, Any]:
        """Return bounds on the optimum that all of ``trials`` share, as attributes of `Trial`.

        The bounds are taken from a trial in ``known`` with the same optimum, if there is one, else
        from a search. ``problems`` and ``schedules`` are results of `_run` for the trials.
        """
        first = trials[0]
        for one in self.known:
            same = (one.digest, one.preemption) == (first.digest, first.preemption)
            if same and one.lower is not None:
                return {name: getattr(one, name) for name in OF_OPTIMUM}
        problem: Any = next((one for one in problems if one is not None), self.problem)
        starts = [schedule for schedule in schedules if schedule is not None]
        if isinstance(problem, Instance) and first.preemption == "never":
            stored = known_bounds(problem)
            if stored is not None and stored.start_times is not None:
                starts.append(Schedule(problem, stored.start_times))
        start = min(starts, key=total_of, default=None) if first.goal == LATENCY else None
        return self.search.solve(first, problem, start)

    def lost(self) -> list[Trial]:
        """Return the trials if the worker process of the task died: those to be run have failed."""
        failed = [replace(one.trial, status=FAILED, reason=DIED) for one in self.missing]
        return [*failed, *self.stored]

    def _run(self, asked: Asked) -> tuple[Trial, Any, Any]:
        """Run the policy of a trial. Return the trial with its cost or the reason of a failure.

        The second result is the problem with the requests of the run, which an arrival source may
        have chosen. The third is the schedule of the run. Each is None if the run has none.
        """
        trial, level = asked.trial, self.search.level(self.problem)
        try:
            options: dict[str, Any] = {"predictions": asked.model.made(self.problem)}
            if asked.router is not None:
                options["router"] = asked.router.make()
            options |= {"seed": trial.seed, "level": level}
            run: Any = simulate(self.problem, asked.spec.make(), **options)
        except Exception as error:  # noqa: BLE001 (whatever a policy raises)
            _log.debug("policy %s failed", trial.policy, exc_info=True)
            status = REFUSED if isinstance(error, InvalidValueError) else FAILED
            reason = one_line(error) + users_line(error)
            return replace(trial, status=status, reason=reason), None, None
        trial = replace(trial, status=run.status, evictions=run.evictions)
        if run.problem is not None:
            own = trial_of(run.problem)
            trial = replace(trial, digest=own.digest, requests=own.requests, weight=own.weight)
        if run.status != COMPLETED:
            reason = UNSERVED.get(run.status, "requests were left unserved")
            return replace(trial, reason=reason), run.problem, None
        is_latency, in_rounds = trial.goal == LATENCY, not trial.batch_time
        if run.keeps_tokens and in_rounds and is_latency and not trial.asked:
            trial = replace(trial, preemption="keep")
        try:
            schedule = schedule_of(run, trial.preemption)
            cost: Latency | None = cost_of(run, schedule, trial.goal, level)
            return replace(trial, cost=cost), run.problem, schedule
        except ValueError as error:
            # The run has no schedule of the kind over which the optimum is taken. So the trial has
            # a cost but no ratio.
            total = int(run.total_latency) if in_rounds else Fraction(run.total_latency)
            cost = total if is_latency else None
            return replace(trial, cost=cost, reason=str(error)), run.problem, None


def _recorded(entry: LibraryEntry) -> tuple[str, str]:
    """Return `Trial.goal` and `Trial.preemption` for the optimum in a record of the library."""
    goal = MAKESPAN if entry.goal == MAKESPAN else LATENCY
    return goal, PREEMPTION.get(entry.goal, "never")


def trial_of(problem: AnySource) -> Trial:
    """Return a trial with only the attributes of a problem: name, digest, sizes, batch time."""
    time = batch_time_of(problem)
    text = "" if time is None else repr(time)
    if not isinstance(problem, Instance | Workload):
        name = problem.name or str(uuid.uuid4())
        return Trial(name, "", 0, problem.memory_limit, "", batch_time=text, source=name)
    name = problem.name or problem.digest[:12]
    weight = problem.total_weight if isinstance(problem, Instance) else len(problem)
    sizes = (len(problem), problem.memory_limit)
    return Trial(name, problem.digest, *sizes, "", batch_time=text, weight=weight)


def code_of(spec: Spec[Any] | None) -> str:
    """Return a digest of the source file of a user's policy, prediction model or router.

    It is empty for a policy, model or router of this package.
    """
    own: Any = None if spec is None else spec.own
    if own is None:
        return ""
    own = own if inspect.isclass(own) or inspect.isroutine(own) else type(own)
    with suppress(OSError, TypeError):
        return sha256(Path(inspect.getsourcefile(own) or "").read_bytes()).hexdigest()[:12]
    with suppress(OSError, TypeError):
        return sha256(inspect.getsource(own).encode()).hexdigest()[:12]
    # There is no source code, so a later sweep cannot know that the policy is the same. The random
    # digest makes a later sweep run the trial again.
    return uuid.uuid4().hex[:12]


def check_problem(problem: object, routers: Sequence[RouterSpec | None] = (None,)) -> None:
    """Raise an error if policies cannot run on a problem with the given routers.

    Raises
    ------
    InvalidTypeError
        The problem is not an instance, a workload or an arrival source.
    InvalidValueError
        The problem has several replicas and no router is given, or one machine and a router is
        given. Or its arrivals are in seconds and it has no batch time.
    """
    if not isinstance(problem, Instance | Workload | ArrivalSource):
        reason = "is not an Instance, a Workload or an arrival source"
        raise InvalidTypeError(None, "instance", problem, reason)
    replicas = getattr(problem, "replicas", 1)
    if replicas == 1 and None not in routers:
        reason = "are given, but there is one machine: they need several replicas"
        raise InvalidValueError(None, "router", [*map(str, routers)], reason)
    if replicas > 1 and None in routers:
        reason = "needs a router, as router=... or --router gives"
        raise InvalidValueError(None, "replicas", replicas, reason)
    batch_time_of(problem)


def router_specs(routers: AnyRouter | Iterable[AnyRouter] | None) -> Sequence[RouterSpec | None]:
    """Return one or several routers as a list of `RouterSpec`, after a check.

    Without a router the list is ``[None]``.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A name is unknown, a parameter is invalid, or a router is given twice.
    """
    if routers is None:
        return [None]
    specs = RouterSpec.several(routers)
    for spec in specs:
        spec.make()
    return specs
