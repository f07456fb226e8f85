"""A trial: a policy's run on a problem, with the bounds known on the problem's optimum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from instances import (
    FleetSchedule,
    Instance,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
    SecondsSchedule,
    ServiceLevel,
    Workload,
)
from instances.arrays import IntArray
from instances.batch_time import BatchTime
from instances.problem.preemptive_schedule import AnySchedule
from instances.service_level import AnyLevel
from online.policy_interface.specs import PolicySpec
from online.simulation.run import IncompleteRunError, Run
from online.simulation.schedules import InternalError, NoScheduleError
from online.trials.intervals import (
    NOTHING,
    ROUNDS,
    SECONDS,
    Interval,
    Latency,
    MismatchError,
    total_of,
)

if TYPE_CHECKING:
    from hindsight import Result

COMPLETED = "completed"
FAILED = "failed"
"""Status of a trial that ended with an error."""
NOT_RUN = "not run"
"""Status of a trial that an experiment asks for and its results file lacks."""

UNSERVED = {
    "livelock": "evictions would repeat for ever",
    "stalled": "it starts nothing more, with requests left unserved",
    "round-limit": "the limit on rounds came first",
    "time-limit": "its time ran out",
    "interrupted": "it was interrupted",
}
"""Reasons why a run did not complete, by its status."""

OPTIMA = ("optimum", "preemptive optimum")
"""Names of the optima that ratios in rounds refer to: without preemption, and with it."""

IN_SECONDS = "optimum in seconds"
"""Name of the optimum that ratios in seconds refer to: the least of every scheduler."""

Optimum: TypeAlias = "Result"

AnyProblem: TypeAlias = Instance | Workload
"""What an optimum is of: in rounds, or in seconds."""

TrialSchedule: TypeAlias = AnySchedule | SecondsSchedule | FleetSchedule

Stay: TypeAlias = tuple[int, int, int, bool]
"""(request index, start, end, completed): in the batch in rounds start + 1 .. end."""

NO_OPTIMUM = "no optimum: "
"""Beginning of a reason that is about the optimum, not about the run."""

OF_OPTIMUM = (
    "optimum_upper",
    "optimum_lower",
    "optimum_certified",
    "stop_reason",
    "solve_seconds",
    "lower_bound",
    "optimum_schedule",
    "reason",
)
"""Attributes of a trial that depend on the optimum compared with."""

SEPARATE = ("experiment", "version", "family", "predictions")
"""What ratios are never averaged over, named only where it tells trials apart."""


@dataclass(frozen=True)
class Trial:
    """A policy on a problem, with the bounds known on the problem's optimum.

    Attributes
    ----------
    instance, digest, requests, memory_limit : str or None, str or None, int, int
        The instance: name, content hash, n, M.
    policy, params : str, Mapping[str, Any]
        Registered name and parameters.
    seed : int
        Seed of every random choice of the run, and of the solver.
    status : str
        How the run ended: ``"completed"``, or why requests were left unserved: ``"refused"`` where
        the policy cannot take the instance, ``"time-limit"``, ``"interrupted"``, ``"failed"`` where
        it raised an error or its process died, ``"not run"`` where it has not begun, ...
    total_latency : int or Fraction or None
        Total latency of the policy; None for a run that did not complete.
    evictions : int
        Number of evictions in the policy's run.
    optimum_upper, optimum_lower, optimum_certified : int or Fraction or None
        Best schedule known, lower bound in floating point, lower bound in exact arithmetic; None
        for what is not known. In seconds the last is the largest that is certified.
    stop_reason : str or None
        Why the solver stopped: ``"proof"``, ``"time-limit"``, ``"interrupted"``, ...
    solve_seconds : float or None
        Seconds of the solver, shared by all policies on the instance; None for a trial read from a
        file, as no two runs share this figure.
    reason : str or None
        Reason why there is no ratio, in one line; None if there is one.
    preemptive : bool
        Whether the optimum is that with preemption: the policy may preempt requests and keep their
        tokens, or the comparison asked for it.
    batch_time : BatchTime or None
        Seconds of a round, where the run, the optimum and the latencies here are in seconds.
    lower_bound : str or None
        In seconds, the name of the bound that is ``optimum_lower``.
    total_output_length : int or None
        Output length of the instance, in rounds: a lower bound on every schedule's total latency.
        None in seconds and if there is no instance.
    experiment, version, position : str, str, int
        The experiment that asked for it, the version that ran it, its position from 0.
    total_weight : int or None
        Sum of the weights of the requests; None unless the instance has weights.
    family, draw, predictions : str, int or None, str
        Label of the instance's family, seed of the instance in it, what the policy was told of
        output lengths.
    problem : Instance or Workload or None
        The given problem, or what an arrival source realised.
    run : Run or None
        The run in this process; None if it raised an error, and for a trial read from a file.
    schedule : Schedule, PreemptiveSchedule, SecondsSchedule or None
        Schedule with the completions of the run; None if there is none, for the ``reason``.
    optimum_schedule : Schedule, PreemptiveSchedule, SecondsSchedule or None
        The best schedule known in hindsight, optimal if `is_proved`.
    stays : tuple[Stay, ...] or None
        See `attempts`.
    error : Exception or None
        What the policy raised, or why a run that completed has no schedule.
    traceback : str or None
        Traceback of a failed trial read from a file.
    versions : Mapping[str, Any]
        Versions that computed a trial read from a file, see `online.experiment.work.versions`.
    on_time : int or None
        Requests on time, where there is a service level and a run.
    attainable : Interval or None
        The most that any scheduler has on time; None where nothing bounds what the run did.
    level : ServiceLevel or None
        The service level, where there is one and a run.
    router : str
        Label of the router of a fleet; empty on one machine without one.
    other : Mapping[str, Any]
        The attributes `OF_OPTIMUM` for the other optimum in rounds; empty where it is unknown.
    """

    instance: str | None
    digest: str | None
    requests: int
    memory_limit: int
    policy: str
    params: Mapping[str, Any]
    seed: int
    status: str
    total_latency: Latency | None
    evictions: int
    optimum_upper: Latency | None = None
    optimum_lower: Latency | None = None
    optimum_certified: Latency | None = None
    stop_reason: str | None = None
    solve_seconds: float | None = None
    reason: str | None = None
    preemptive: bool = False
    batch_time: BatchTime | None = None
    lower_bound: str | None = None
    total_output_length: int | None = None
    experiment: str = ""
    version: str = ""
    position: int = 0
    family: str = ""
    draw: int | None = None
    predictions: str = "exact"
    total_weight: int | None = None
    problem: AnyProblem | None = field(default=None, compare=False)
    run: Any = field(default=None, compare=False)
    schedule: TrialSchedule | None = field(default=None, compare=False)
    optimum_schedule: TrialSchedule | None = field(default=None, compare=False)
    stays: tuple[Stay, ...] | None = field(default=None, compare=False)
    error: Exception | None = field(default=None, compare=False)
    traceback: str | None = field(default=None, compare=False)
    versions: Mapping[str, Any] = field(default_factory=dict, compare=False)
    on_time: int | None = None
    attainable: Interval | None = None
    level: ServiceLevel | None = None
    router: str = ""
    other: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of_schedules(
        cls,
        problem: AnyProblem | None,
        policy: str,
        schedule: TrialSchedule | None = None,
        optimum: TrialSchedule | None = None,
        *,
        status: str = COMPLETED,
        stays: Iterable[Stay] | None = None,
        optimum_lower: Latency | None = None,
        **figures: Any,
    ) -> Trial:
        """Hold schedules in rounds against a problem; their costs are recomputed.

        Parameters
        ----------
        problem : Instance or Workload or None
            None where the run failed before there was one.
        policy : str
            Name or label.
        schedule, optimum : Schedule or PreemptiveSchedule or None, default None
            The policy's, and the best known.
        status : str, default "completed"
            How the run ended.
        stays : Iterable[Stay] or None, default None
            Every stay in the batch, lost ones included.
        optimum_lower : int or None, default None
            Proved lower bound on the optimum.
        **figures : Any
            Further attributes.

        Raises
        ------
        InvalidValueError
            A completed trial without a schedule, an infeasible one, a preemptive schedule beside
            an optimum without preemption, a lower bound above a schedule's cost, or a stay that
            cannot be.
        """
        owner = f"trial of {policy!r}"
        if (schedule is not None) != (status == COMPLETED):
            reason = f"do not go with status {status!r}"
            raise InvalidValueError(owner, "start_times", schedule, reason)
        if isinstance(schedule, PreemptiveSchedule) and isinstance(optimum, Schedule):
            reason = "is without preemption, and the policy's schedule is not"
            raise InvalidValueError(owner, "optimum", "a schedule", reason)
        totals: dict[str, Latency | None] = {"start_times": None, "optimum": None}
        for name, found in (("start_times", schedule), ("optimum", optimum)):
            if found is None:
                continue
            if violations := found.violations():
                raise InvalidValueError(owner, name, "a schedule", f"breaks: {violations[0]}")
            total = totals[name] = total_of(found)
            # In seconds bounds are rounded, and a policy's own schedule may be the least.
            checked = name == "optimum" or not isinstance(found, SecondsSchedule)
            if checked and optimum_lower is not None and total < optimum_lower:
                reason = f"exceeds the total latency {total} of {name}"
                raise InvalidValueError(owner, "optimum_lower", optimum_lower, reason)
        kept = None if stays is None else tuple(stays)
        known: dict[str, Any] = {
            **facts_of(problem),
            "instance": None if problem is None else problem.name,
            "memory_limit": 0 if problem is None else problem.memory_limit,
            "params": {},
            "seed": 0,
            "total_latency": totals["start_times"],
            "evictions": sum(not done for *_, done in kept or ()),
            "optimum_upper": totals["optimum"],
            "preemptive": PreemptiveSchedule in (type(schedule), type(optimum)),
            "batch_time": None if problem is None else problem.batch_time,
        }
        trial = cls(
            policy=policy,
            status=status,
            optimum_lower=optimum_lower,
            schedule=schedule,
            optimum_schedule=optimum,
            stays=kept,
            **{**known, **figures},
        )
        for name, attempts in (("lost_attempts", trial.lost_attempts), ("served", trial.served)):
            for attempt in attempts:
                request, start, end = (*attempt, attempt[1] + 1)[:3]
                if not (0 <= request < trial.requests and 0 <= start < end):
                    raise InvalidValueError(owner, name, attempt, "is no stay of a request")
        return trial

    def __repr__(self) -> str:
        found = self.status if self.ratio is None else f"ratio {self.ratio}"
        return f"Trial({self.policy_label!r} on {self.instance!r}, {found})"

    def beside(self, found: Optimum | Exception, *, preemptive: bool = False) -> Trial:
        """Return the trial with what a search found of its optimum, or of the other one."""
        known: dict[str, Any] = dict.fromkeys(OF_OPTIMUM)
        if isinstance(found, Exception):
            known["reason"] = self.run_reason or NO_OPTIMUM + one_line(found)
        else:
            ends = (found.upper_bound, found.lower_bound, found.certified_lower_bound)
            named = found.best_bound if isinstance(found.problem, Workload) else None
            values = (*ends, found.stop_reason, found.runtime, named, found.schedule)
            known = dict(zip(OF_OPTIMUM, (*values, self.run_reason), strict=True))
        return (
            replace(self, **known) if preemptive == self.preemptive else replace(self, other=known)
        )

    @property
    def run_reason(self) -> str | None:
        """Why the run has no ratio to any optimum."""
        lacks = (self.reason or "").startswith(NO_OPTIMUM)
        return None if lacks else self.reason

    def swapped(self) -> Trial:
        """Compare with the other optimum; the preemptive one is at most that without preemption."""
        own = {name: getattr(self, name) for name in OF_OPTIMUM}
        above = {name: own[name] for name in ("optimum_upper", "optimum_schedule", "reason")}
        other = self.other or dict.fromkeys(OF_OPTIMUM) | ({} if self.preemptive else above)
        known = own["optimum_upper"] is not None or own["optimum_lower"] is not None
        other = {**other, "other": own if known else {}}
        return replace(self, preemptive=not self.preemptive, **other)

    @property
    def to_optimum(self) -> Interval | None:
        """Ratio to the optimum without preemption, which may be below 1; None where unknown."""
        return self._ratio_to(OPTIMA[0])

    @property
    def to_preemptive_optimum(self) -> Interval | None:
        """Ratio to the preemptive optimum; None where unknown."""
        return self._ratio_to(OPTIMA[1])

    def _ratio_to(self, optimum: str) -> Interval | None:
        if optimum == self.compared_with:
            return self.ratio
        return self.swapped().ratio if self.other else None

    def within(self, level: ServiceLevel, found: Result | Exception | None) -> Trial:
        """Return the trial with its requests on time, and what a search says of the most."""
        if self.run is None:
            return self
        counted = replace(self, level=level, on_time=int(self.run.on_time(level).sum()))
        if found is None:
            return counted
        if isinstance(found, Exception):
            return replace(counted, attainable=NOTHING)
        try:
            return replace(counted, attainable=attainable_beside(self.run, found))
        except (ValueError, IncompleteRunError):
            return counted

    def alone(self) -> Trial:
        """Return the figures without what they were made of, to be kept by the thousand."""
        made_of = ("problem", "run", "schedule", "optimum_schedule", "stays", "error")
        nothing: dict[str, Any] = dict.fromkeys(made_of)
        other = self.other and {**self.other, "optimum_schedule": None}
        return replace(self, **nothing, other=other)

    def figures(self) -> dict[str, Any]:
        """Return what is known of run and optimum, by name, in the order of the attributes."""
        names = [one.name for one in fields(self)]
        return {name: getattr(self, name) for name in names[: names.index("experiment")]}

    @property
    def in_seconds(self) -> bool:
        """Tell whether run, optimum and latencies are in seconds; otherwise they are in rounds."""
        return self.batch_time is not None

    @property
    def compared_with(self) -> str:
        """Name of the optimum."""
        return IN_SECONDS if self.in_seconds else OPTIMA[self.preemptive]

    @property
    def unit(self) -> str:
        """Unit of the latencies: ``"rounds"`` or ``"seconds"``."""
        return SECONDS if self.in_seconds else ROUNDS

    @property
    def mean_latency(self) -> Fraction | None:
        """Latency of the policy, per request or over the sum of weights."""
        return None if self.total_latency is None else Fraction(self.total_latency) / self.weight

    @property
    def weight(self) -> int:
        """Sum of the weights: the number of requests where none has any."""
        return self.requests if self.total_weight is None else self.total_weight

    @property
    def mean_optimum(self) -> Interval:
        """Interval of the best possible mean latency."""
        ends = (self.optimum_lower, self.optimum_upper)
        return Interval(*(None if end is None else Fraction(end) / self.weight for end in ends))

    @property
    def policy_label(self) -> str:
        """Policy with its parameters, and the router."""
        label = PolicySpec(self.policy, self.params).label
        return f"{label} under {self.router}" if self.router else label

    @property
    def is_proved(self) -> bool:
        """Tell whether the optimum is proved."""
        return self.optimum_upper is not None and self.optimum_upper == self.optimum_lower

    @property
    def ratio(self) -> Interval | None:
        """Total latency over the optimum; None where ``reason`` says why."""
        if self.total_latency is None or self.reason is not None:
            return None
        optimum = Interval.between(self.optimum_lower, self.optimum_upper)
        share = Interval.of_share(self.total_latency, optimum)
        return replace(share, compared_with=self.compared_with)

    @property
    def share_on_time(self) -> Fraction | None:
        """Share of the requests on time."""
        return None if self.on_time is None else Fraction(self.on_time, max(1, self.requests))

    @property
    def of_attainable(self) -> Interval | None:
        """Requests on time over the most possible."""
        if self.on_time is None or self.attainable is None:
            return None
        return Interval.of_share(self.on_time, self.attainable)

    @property
    def is_pending(self) -> bool:
        """Tell whether its ratio is unknown because its optimum has not been searched for yet."""
        return self.ratio == Interval(None, None)

    @property
    def waiting(self) -> Latency | None:
        """The policy's total latency beyond the output lengths, in rounds."""
        if self.total_latency is None or self.total_output_length is None:
            return None
        return self.total_latency - self.total_output_length

    @property
    def optimum_waiting(self) -> Interval:
        """Interval of the optimum's waiting, by ``optimum_lower`` and ``optimum_upper``."""
        if self.total_output_length is None:
            return Interval(None, None)
        return waiting_of_optimum(self.optimum_lower, self.optimum_upper, self.total_output_length)

    @property
    def waiting_ratio(self) -> Interval | None:
        """Ratio of the two; None without a ratio, and where the optimum's may be 0."""
        return None if self.ratio is None else waiting_ratio(self.waiting, self.optimum_waiting)

    @property
    def attempts(self) -> tuple[Stay, ...] | None:
        """Each stay in the batch, cancelled ones included; None where memory does not follow.

        It does not where requests were held midway, where tokens of preempted ones were kept, and
        in seconds.
        """
        if self.run is None or self.stays is not None:
            return self.stays
        return stays_of(self.run) if isinstance(self.run, Run) and self.run.unit_rounds else None

    @property
    def lost_attempts(self) -> tuple[tuple[int, int, int], ...]:
        """(request, start, end) of every stay that ended in an eviction.

        A stay that ended before its first round held nothing, and is left out.
        """
        stays = self.attempts or ()
        return tuple((i, start, end) for i, start, end, done in stays if not done and start != end)

    @property
    def served(self) -> tuple[tuple[int, int], ...]:
        """(request, start) of those served by a run that did not complete."""
        if self.status == COMPLETED:
            return ()
        return tuple((i, start) for i, start, _, done in self.attempts or () if done)

    def memory_profile(self) -> IntArray:
        """Tokens the policy held in rounds 0, 1, .., work later cancelled included.

        Raises
        ------
        ValueError
            The run held requests midway or kept tokens of preempted ones.
        """
        if isinstance(self.schedule, SecondsSchedule):
            return self.schedule.memory_profile()
        stays, instance = self.attempts, self.problem
        if stays is None and self.status not in (FAILED, NOT_RUN):
            raise ValueError(
                f"the run of {self.policy_label!r} held requests midway or kept tokens of "
                "preempted ones: its memory does not follow from its attempts"
            )
        profile = np.zeros(max((stay[2] for stay in stays or ()), default=0) + 1, dtype=np.int64)
        if isinstance(instance, Instance):
            for request, start, end, _ in stays or ():
                prompt = instance[request].prompt_length
                profile[start + 1 : end + 1] += prompt + np.arange(1, end - start + 1)
        return profile


def to_one_optimum(trials: Iterable[Trial]) -> list[Trial]:
    """Compare each policy of a table with one optimum.

    A policy that is compared with the preemptive optimum on some instance is on all.
    """
    given = list(trials)
    preempting = {_asked(one) for one in given if one.preemptive}
    return [
        one if one.preemptive or _asked(one) not in preempting else one.swapped() for one in given
    ]


def held_alike(trials: Iterable[Trial]) -> list[Trial]:
    """Compare each policy with one optimum, and bound each optimum by every schedule.

    An optimum is at most the total latency of each schedule of its kind, of whichever trial.
    """
    found = to_one_optimum(trials)
    best: dict[tuple[Any, ...], tuple[Latency, TrialSchedule | None]] = {}
    for one in found:
        kept = one.preemptive if one.schedule is None else is_preemptive(one.schedule)
        total = None if one.run_reason else one.total_latency
        known = [(kept, total, one.schedule)]
        for side in (one, one.swapped()) if one.other else (one,):
            known.append((side.preemptive, side.optimum_upper, side.optimum_schedule))
        for kept, total, schedule in known:
            # A schedule without preemption is a preemptive one too.
            for key in {(*_place(one), kept), (*_place(one), True)} if total is not None else ():
                if total is not None and (key not in best or total < best[key][0]):
                    best[key] = total, schedule

    def lowered(one: Trial) -> Trial:
        least = best.get((*_place(one), one.preemptive))
        if least is None or one.optimum_upper is None or least[0] >= one.optimum_upper:
            return one
        return replace(one, optimum_upper=least[0], optimum_schedule=least[1])

    alike = []
    for one in map(lowered, found):
        other = one.swapped() if one.other else one
        alike.append(one if (less := lowered(other)) is other else less.swapped())
    return alike


def _asked(trial: Trial) -> tuple[str, ...]:
    """Name the policy of a trial in its experiment, whatever the router."""
    label = PolicySpec(trial.policy, trial.params).label
    return trial.experiment, trial.version, label


def _place(trial: Trial) -> tuple[str | None, ...]:
    return trial.experiment, trial.version, trial.digest, repr(trial.batch_time)


def facts_of(problem: AnyProblem | None) -> dict[str, Any]:
    """Return the attributes of a trial that follow from its problem."""
    total = problem.total_weight if isinstance(problem, Instance) else None
    return {
        "total_weight": total if problem is not None and total != len(problem) else None,
        "digest": None if problem is None else problem.digest,
        "requests": 0 if problem is None else len(problem),
        "total_output_length": getattr(problem, "total_output_length", None),
        "problem": problem,
    }


def stays_of(run: Run) -> tuple[Stay, ...]:
    """List every stay of a run in the batch."""
    kept = run.attempts
    columns = (kept.request, kept.start_round, kept.end_round, kept.completed)
    return tuple(zip(*(column.tolist() for column in columns), strict=True))


def rounds_of(schedule: TrialSchedule | None) -> list[Any] | None:
    """List start times, or first and last round of each request's stretches; None in seconds."""
    if schedule is None or isinstance(schedule, SecondsSchedule | FleetSchedule):
        return None
    if isinstance(schedule, PreemptiveSchedule):
        return [[list(one) for one in own] for own in schedule.stretches]
    return list(schedule.start_times.tolist())


def is_preemptive(schedule: TrialSchedule) -> bool:
    """Tell whether it is a preemptive schedule in rounds, or one of some replica is."""
    parts = schedule.parts if isinstance(schedule, FleetSchedule) else (schedule,)
    return any(isinstance(part, PreemptiveSchedule) for part in parts)


def separate(trials: Iterable[Any]) -> tuple[str, ...]:
    """List the names of `SEPARATE` that tell trials apart, or rows of their tables."""
    given = list(trials)
    return tuple(name for name in SEPARATE if len({getattr(one, name) for one in given}) > 1)


def group_of(trial: Trial, names: Sequence[str]) -> str:
    """Name the group of a trial by what tells the groups apart."""
    return ", ".join(str(getattr(trial, name)) for name in names)


def by_group(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """Collect the trials whose ratios may be averaged, by what tells the groups apart."""
    names, groups = separate(trials), dict[str, list[Trial]]()
    for one in trials:
        groups.setdefault(group_of(one, names), []).append(one)
    return groups


def one_line(error: BaseException) -> str:
    """Write kind and message of an error without line breaks."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def waiting_of_optimum(
    lower: Latency | None, upper: Latency | None, total_output_length: int
) -> Interval:
    """Bound an optimum's waiting: its total latency beyond the output lengths, at least 0."""
    return Interval.between(
        None if lower is None else max(0, lower - total_output_length),
        None if upper is None else upper - total_output_length,
    )


def waiting_ratio(waiting: Latency | None, optimum: Interval) -> Interval | None:
    """Bound the ratio of a policy's waiting to an optimum's; None where that may be 0."""
    if waiting is None or not optimum.lower:
        return None
    return Interval.of_share(waiting, optimum)


def attainable_beside(run: Run, result: Result) -> Interval:
    """Bound the most requests on time, where the run itself is one of the schedules.

    In rounds the most is of schedules that run each request from start to end: of a run that held
    requests, of the schedule without pauses that has its completions (`Run.schedule`).

    Parameters
    ----------
    run : Run
        What the policy did.
    result : Result
        Of `hindsight.solve` for the goal `hindsight.OnTime`, for the same requests and batch time.

    Raises
    ------
    IncompleteRunError
        The run left requests unserved.
    NoScheduleError
        No schedule of the kind that ``result`` is of has as many requests on time as the run.
    MismatchError
        The two belong to different requests or batch times.
    """
    schedule = run.schedule
    if not schedule.problem.matches(result.problem):
        both = "the run and the requests on time"
        raise MismatchError(f"{both} belong to different requests or batch times")
    kept = int(schedule.on_time(_level_of(result)).sum())
    if run.batch_time is None and kept < run.on_time(_level_of(result)).sum():
        raise NoScheduleError(
            f"the run of {run.policy_name!r} held requests after their first tokens: without "
            "pauses fewer are on time"
        )
    if kept > result.upper_bound:
        raise InternalError(f"{run.policy_name}: {kept} on time exceed {result.upper_bound}")
    return Interval.between(max(kept, result.lower_bound), result.upper_bound)


def _level_of(result: Result) -> AnyLevel:
    """Return the service level of a result.

    Raises
    ------
    MismatchError
        It is not about requests on time.
    """
    level: AnyLevel | None = getattr(result.goal, "level", None)
    if level is None:
        raise MismatchError("the hindsight bounds are not of requests on time")
    return level
