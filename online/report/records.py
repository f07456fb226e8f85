"""What a report shows of a trial: plain data, wherever it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from instances import Instance, InvalidValueError, Schedule
from online.comparison.comparing import attempt_run
from online.comparison.ratios import Interval
from online.comparison.records import Record
from online.comparison.specs import PolicySpec, policy_specs
from online.experiment.recheck import COMPLETED, recheck, stays_of_run
from online.experiment.store import FAILED
from online.simulation.run import Run


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
    start_times : tuple[int, ...] or None
        Shape (n,), of the last attempts; None unless completed.
    lost_attempts : tuple[tuple[int, int, int], ...]
        (request index, start, end) of every stay that ended in an eviction.
    served : tuple[tuple[int, int], ...]
        (request index, start) of those served by a run that did not complete.
    optimum_start_times : tuple[int, ...] or None
        Shape (n,), of the best schedule known; None where there is none.
    optimum_lower : int or None
        Proved lower bound on the optimum, or None.
    group : str
        What the trial has in common with those its ratio is averaged with, such as the family of
        the instance.
    note : str
        What else is to be said, such as the error of a failed trial.
    evictions : int or None
        In the run; None counts ``lost_attempts``, which leave out stays without a round.

    Raises
    ------
    InvalidValueError
        A completed trial without instance or start times, start times of another number or
        infeasible, a lower bound above a schedule's cost, or an attempt that cannot be.
    """

    instance: Instance | None
    policy: str
    seed: int
    status: str
    start_times: tuple[int, ...] | None = None
    lost_attempts: tuple[tuple[int, int, int], ...] = ()
    served: tuple[tuple[int, int], ...] = ()
    optimum_start_times: tuple[int, ...] | None = None
    optimum_lower: int | None = None
    group: str = ""
    note: str = ""
    evictions: int | None = None

    def __post_init__(self) -> None:
        owner = f"trial of {self.policy!r}"
        given = (self.start_times, self.optimum_start_times)
        if self.instance is None and given != (None, None):
            raise InvalidValueError(owner, "instance", None, "is missing")
        recheck(
            owner,
            self.instance,
            self.status,
            self.schedule,
            self.optimum,
            self.optimum_lower,
            self.lost_attempts,
            self.served,
        )

    @cached_property
    def schedule(self) -> Schedule | None:
        """The policy's schedule, its last attempts only."""
        return _schedule(self.instance, self.start_times)

    @cached_property
    def optimum(self) -> Schedule | None:
        """The best schedule known."""
        return _schedule(self.instance, self.optimum_start_times)

    @property
    def total_latency(self) -> int | None:
        """Of the policy, in rounds; None unless completed."""
        return None if self.schedule is None else self.schedule.total_latency

    @property
    def optimum_upper(self) -> int | None:
        """Total latency of the best schedule known."""
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
            optimum_certified=None,
            stop_reason=None,
            solve_seconds=None,
            reason=(self.note or None) if self.schedule is None or self.optimum is None else None,
        )


def compare_in_full(
    instances: Iterable[Instance],
    policies: Iterable[str | PolicySpec],
    *,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> list[TrialRecord]:
    """Run policies on instances and solve each, keeping every schedule for a report.

    The solver starts from the best of the policies' schedules, so no ratio falls below 1. What goes
    wrong with a policy is the ``note`` of its record.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A bad argument.
    hindsight.SolverError
        HiGHS failed.
    """
    import hindsight

    specs = policy_specs(policies)
    records = []
    for instance in instances:
        attempts = [attempt_run(instance, spec, seed) for spec in specs]
        served = [one.schedule for one in attempts if one.schedule is not None]
        start = min(served, key=lambda schedule: schedule.total_latency, default=None)
        result = hindsight.solve(instance, time_limit, threads, seed, start=start)
        for spec, attempt in zip(specs, attempts, strict=True):
            # A page shows schedules: a run that has none has nothing to show.
            shown = attempt.schedule is not None or attempt.status != COMPLETED
            status = attempt.status if shown else FAILED
            stays = () if attempt.run is None or not shown else _attempts(attempt.run)
            lost, done = stays_of_run(status, stays)
            records.append(
                TrialRecord(
                    instance=instance,
                    policy=spec.label,
                    seed=seed,
                    status=status,
                    start_times=_list(attempt.schedule),
                    lost_attempts=lost,
                    served=done,
                    evictions=None if attempt.run is None else attempt.run.evictions,
                    note=attempt.reason or "",
                    optimum_start_times=tuple(result.schedule.start_times.tolist()),
                    optimum_lower=result.lower_bound,
                )
            )
    return records


def _schedule(instance: Instance | None, starts: tuple[int, ...] | None) -> Schedule | None:
    return None if instance is None or starts is None else Schedule(instance, starts)


def _list(schedule: Schedule | None) -> tuple[int, ...] | None:
    return None if schedule is None else tuple(schedule.start_times.tolist())


def _attempts(run: Run) -> Iterable[tuple[int, int, int, bool]]:
    if not run.unit_rounds:
        # Requests held midway are no bands that grow by a token a round.
        return ()
    kept = run.attempts
    columns = (kept.request, kept.start_round, kept.end_round, kept.completed)
    return zip(*(column.tolist() for column in columns), strict=True)
