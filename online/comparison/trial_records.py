"""Trials with their schedules, as reports show them: plain data, held against one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from instances import Instance, InvalidTypeError, InvalidValueError, PreemptiveSchedule, Schedule
from instances.problem.preemptive_schedule import AnySchedule
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs
from online.simulation.run import Run

from .comparing import no_ratio, run_and_solve
from .ratios import Interval, Latency
from .records import Record
from .trial import COMPLETED, FAILED, Optimum, Trial, digest_of

if TYPE_CHECKING:
    from hindsight import SolveResult

Stay: TypeAlias = tuple[int, int, int]
"""(request index, start, end): in the batch in rounds start + 1 .. end."""

Rounds: TypeAlias = tuple[int, ...] | tuple[tuple[tuple[int, int], ...], ...]
"""A schedule as numbers: start times, or for each request first and last round of its stretches."""


@dataclass(frozen=True, eq=False)
class TrialRecord:
    """One policy on one instance, beside the best schedule known in hindsight.

    Costs are recomputed from start times, which must pass the checker.

    Attributes
    ----------
    instance : Instance or None
        As realised; None where the trial failed before there was one.
    policy : str
        Label, parameters included.
    seed : int
        Of the run.
    status : str
        ``"completed"``, or how the run ended.
    start_times : Rounds or None
        Shape (n,), of the last attempts, or the stretches of each request where some were preempted
        and kept their tokens; None unless completed.
    lost_attempts : tuple[tuple[int, int, int], ...]
        (request index, start, end) of every stay that ended in an eviction.
    served : tuple[tuple[int, int], ...]
        (request index, start) of those served by a run that did not complete.
    optimum_start_times : Rounds or None
        The same of the best schedule known; None where there is none.
    optimum_lower : int or None
        Proved lower bound on the optimum, or None.
    group : str
        What the trial has in common with those its ratio is averaged with, such as the family of
        the instance.
    note : str
        What else is to be said, such as the error of a failed trial.
    evictions : int or None
        In the run; None counts ``lost_attempts``, which leave out stays without a round.
    figures : Record or None
        Of a run in seconds, which has no bands of rounds: nothing else of it is told here.
    told_exactly : bool
        Whether the policy was told output lengths as they are.
    draw : int or None
        Which of its family the instance is; None where instances are told apart by themselves.

    Raises
    ------
    InvalidValueError
        A completed trial without instance or start times, start times of another number or
        infeasible, a preemptive schedule beside an optimum without preemption, a lower bound above
        a schedule's cost, or an attempt that cannot be.
    InvalidTypeError
        Start times that are neither rounds nor stretches.
    """

    instance: Instance | None
    policy: str
    seed: int
    status: str
    start_times: Rounds | None = None
    lost_attempts: tuple[tuple[int, int, int], ...] = ()
    served: tuple[tuple[int, int], ...] = ()
    optimum_start_times: Rounds | None = None
    optimum_lower: int | None = None
    group: str = ""
    note: str = ""
    evictions: int | None = None
    figures: Record | None = None
    told_exactly: bool = True
    draw: int | None = None

    def __repr__(self) -> str:
        name = None if self.instance is None else self.instance.name
        return f"TrialRecord({self.policy!r} on {name!r}, {self.status})"

    def __post_init__(self) -> None:
        owner = f"trial of {self.policy!r}"
        if self.figures is not None:
            return
        if self.instance is None and (self.start_times, self.optimum_start_times) != (None, None):
            raise InvalidValueError(owner, "instance", None, "is missing")
        if (self.schedule is not None) != (self.status == COMPLETED):
            reason = f"do not go with status {self.status!r}"
            raise InvalidValueError(owner, "start_times", self.start_times, reason)
        if self.schedule is not None and self.served:
            reason = "is for runs that did not complete"
            raise InvalidValueError(owner, "served", self.served, reason)
        if self.preemptive and isinstance(self.optimum, Schedule):
            reason = "is without preemption, and the policy's schedule is not"
            raise InvalidValueError(owner, "optimum", "a schedule", reason)
        lower = self.optimum_lower
        for name, found in (("start_times", self.schedule), ("optimum", self.optimum)):
            if found is None:
                continue
            if violations := found.violations():
                raise InvalidValueError(owner, name, "a schedule", f"breaks: {violations[0]}")
            if lower is not None and found.total_latency < lower:
                reason = f"exceeds the total latency {found.total_latency} of {name}"
                raise InvalidValueError(owner, "optimum_lower", lower, reason)
        n = 0 if self.instance is None else len(self.instance)
        for attempt in self.lost_attempts:
            if not (0 <= attempt[0] < n and 0 <= attempt[1] < attempt[2]):
                raise InvalidValueError(owner, "lost_attempts", attempt, "is no stay of a request")
        for stay in self.served:
            if not (0 <= stay[0] < n and stay[1] >= 0):
                raise InvalidValueError(owner, "served", stay, "is no stay of a request")

    @cached_property
    def schedule(self) -> AnySchedule | None:
        """The policy's schedule, its last attempts only."""
        return schedule_of(self.instance, self.start_times)

    @cached_property
    def optimum(self) -> AnySchedule | None:
        """The best schedule known."""
        return schedule_of(self.instance, self.optimum_start_times)

    @property
    def preemptive(self) -> bool:
        """Whether the optimum is that with preemption."""
        return PreemptiveSchedule in (type(self.schedule), type(self.optimum))

    @property
    def total_latency(self) -> Latency | None:
        """Of the policy, in rounds or seconds; None unless completed."""
        if self.figures is not None:
            return self.figures.total_latency
        return None if self.schedule is None else self.schedule.total_latency

    @property
    def optimum_upper(self) -> Latency | None:
        """Total latency of the best schedule known."""
        if self.figures is not None:
            return self.figures.optimum_upper
        return None if self.optimum is None else self.optimum.total_latency

    @property
    def is_proved(self) -> bool:
        """Whether the optimum is proved."""
        return self.compared.is_proved

    @property
    def ratio(self) -> Interval | None:
        """Total latency over the optimum; None unless completed."""
        return self.compared.ratio

    @cached_property
    def compared(self) -> Record:
        """The same trial as `online.comparison.comparing` has it, for its statistics."""
        if self.figures is not None:
            return self.figures
        instance = self.instance
        return Record(
            instance=None if instance is None else instance.name,
            digest=None if instance is None else instance.digest,
            requests=0 if instance is None else len(instance),
            memory_limit=0 if instance is None else instance.memory_limit,
            policy=self.policy,
            params={},
            seed=self.seed,
            status=self.status,
            total_latency=self.total_latency,
            evictions=len(self.lost_attempts) if self.evictions is None else self.evictions,
            optimum_upper=self.optimum_upper,
            optimum_lower=self.optimum_lower,
            reason=(self.note or None) if self.schedule is None or self.optimum is None else None,
            preemptive=self.preemptive,
            total_output_length=None if instance is None else instance.total_output_length,
            schedule_digest=None if self.schedule is None else digest_of(self.schedule),
        )


def compare_in_full(
    instances: Iterable[Instance],
    policies: AnyPolicy | Iterable[AnyPolicy],
    *,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> list[TrialRecord]:
    """Run policies on instances and solve each, keeping every schedule for a report.

    The solver starts from the best of the policies' schedules, so no ratio falls below 1. What goes
    wrong with a policy, or with the optimum, is the ``note`` of a record.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A bad argument.
    """
    chosen = policy_specs(policies)
    options: dict[str, Any] = {"time_limit": time_limit, "seed": seed, "threads": threads}
    return [
        _trial_record(spec, seed, trial, optimum)
        for instance in instances
        for spec, trial, optimum in run_and_solve(instance, chosen, **options)
    ]


def _trial_record(
    spec: PolicySpec, seed: int, trial: Trial, found: Optimum | Exception | None
) -> TrialRecord:
    # A page shows schedules: a run that has none has nothing to show.
    schedule = trial.schedule_in_rounds
    shown = schedule is not None or trial.status != COMPLETED
    status = trial.status if shown else FAILED
    lost, served = stays_of_run(status, () if trial.run is None or not shown else _stays(trial.run))
    result = None if isinstance(found, Exception) else cast("SolveResult | None", found)
    return TrialRecord(
        instance=trial.instance,
        policy=spec.label,
        seed=seed,
        status=status,
        start_times=rounds_of(schedule),
        lost_attempts=lost,
        served=served,
        evictions=None if trial.run is None else trial.run.evictions,
        note=no_ratio(trial, found) or "",
        optimum_start_times=None if result is None else rounds_of(result.schedule),
        optimum_lower=None if result is None else result.lower_bound,
    )


def stays_of_run(
    status: str, attempts: Iterable[tuple[int, int, int, bool]]
) -> tuple[tuple[Stay, ...], tuple[tuple[int, int], ...]]:
    """``lost_attempts`` and ``served`` of a run, from (request, start, end, completed) each."""
    stays = list(attempts)
    lost = [(request, begin, end) for request, begin, end, done in stays if not done]
    served = [(request, begin) for request, begin, _, done in stays if done]
    return (
        # A stay that ended before its first round held nothing.
        tuple(stay for stay in lost if stay[1] != stay[2]),
        () if status == COMPLETED else tuple(served),
    )


def schedule_of(instance: Instance | None, rounds: Rounds | None) -> AnySchedule | None:
    """From start times, or from each request's stretches: first and last round of each.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        They are neither, or not those of the instance.
    """
    if instance is None or rounds is None:
        return None
    lists = [isinstance(own, (list, tuple)) for own in rounds]
    if not any(lists):
        return Schedule(instance, cast("Sequence[int]", rounds))
    stretches = cast("Sequence[Sequence[Sequence[int]]]", rounds)
    if not all(lists) or not all(
        isinstance(one, (list, tuple)) for own in stretches for one in own
    ):
        raise InvalidTypeError("schedule", "rounds", rounds, "are neither starts nor stretches")
    return PreemptiveSchedule(instance, stretches)


def rounds_of(schedule: AnySchedule | None) -> Rounds | None:
    """What `schedule_of` makes the schedule of."""
    if schedule is None:
        return None
    if isinstance(schedule, PreemptiveSchedule):
        return tuple(tuple(own) for own in schedule.stretches)
    return tuple(schedule.start_times.tolist())


def _stays(run: Run) -> Iterable[tuple[int, int, int, bool]]:
    if not run.unit_rounds:
        # Requests held midway are no bands that grow by a token a round.
        return ()
    kept = run.attempts
    columns = (kept.request, kept.start_round, kept.end_round, kept.completed)
    return zip(*(column.tolist() for column in columns), strict=True)
