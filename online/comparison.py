"""Policies against the hindsight optimum of the same instances.

`hindsight` is imported inside the functions that solve: ``import online`` loads no solver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from instances import Instance, InvalidTypeError, InvalidValueError, Schedule, known_bounds
from instances.arrival_source import ArrivalSource
from instances.validation import as_integer, as_time_limit

from .policy import Policy, make_policy, policy_names, policy_parameters
from .ratios import Interval
from .run import Run
from .simulator import simulate

if TYPE_CHECKING:
    from hindsight import Progress, SolveResult


@dataclass(frozen=True)
class PolicySpec:
    """A policy by registered name, with its parameters."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """``name`` or ``name(key=value, ...)``."""
        settings = ", ".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        return f"{self.name}({settings})" if settings else self.name

    def make(self) -> Policy:
        """A fresh policy.

        Raises
        ------
        UnknownNameError: no such policy; the message lists those that are.
        InvalidValueError, InvalidTypeError: a parameter missing, unknown or out of range.
        """
        return make_policy(self.name, **self.params)


def parameterless_policies() -> list[str]:
    """Names of the policies that can be made without parameters, sorted.

    Without those that pause requests: their runs have no competitive ratio.
    """
    return [
        name
        for name in policy_names()
        if all(p.default is not p.empty for p in policy_parameters(name).values())
        and not make_policy(name).pauses
    ]


def policy_specs(policies: Iterable[str | PolicySpec] | None) -> list[PolicySpec]:
    """Check and normalise a choice of policies; None takes every one that needs no parameters.

    Raises
    ------
    UnknownNameError: no such policy; the message lists those that are.
    InvalidValueError, InvalidTypeError: bad parameters, a policy given twice, or none at all.
    """
    if isinstance(policies, (str, PolicySpec)):
        policies = [policies]
    chosen = parameterless_policies() if policies is None else policies
    specs = [spec if isinstance(spec, PolicySpec) else PolicySpec(spec) for spec in chosen]
    seen: set[str] = set()
    for spec in specs:
        spec.make()
        if spec.label in seen:
            raise InvalidValueError(None, "policies", spec.label, "is given twice")
        seen.add(spec.label)
    if not specs:
        raise InvalidValueError(None, "policies", [], "is empty: at least one is needed")
    return specs


@dataclass(frozen=True)
class Record:
    """One policy on one instance, beside what is known of the instance's optimum.

    Attributes
    ----------
    instance, digest, requests, memory_limit : the instance: name, content hash, n, M.
    policy, params : registered name and parameters.
    seed : of every random choice of the run, and of the solver.
    status : how the run ended: ``"completed"``, or why requests were left unserved: ``"refused"``
        where the policy cannot take the instance, ``"time-limit"``, ...
    total_latency : of the policy, recomputed from start times; None for a failed run.
    evictions : in the policy's run.
    optimum_upper, optimum_lower, optimum_certified : best schedule known, lower bound in floating
        point, lower bound in exact arithmetic; None for what is not known.
    stop_reason : why the solver stopped: ``"proof"``, ``"time-limit"``, ``"interrupted"``, ...
    solve_seconds : the solver's, shared by all policies on the instance.
    """

    instance: str | None
    digest: str | None
    requests: int
    memory_limit: int
    policy: str
    params: Mapping[str, Any]
    seed: int
    status: str
    total_latency: int | None
    evictions: int
    optimum_upper: int | None
    optimum_lower: int | None
    optimum_certified: int | None
    stop_reason: str | None
    solve_seconds: float | None

    @property
    def policy_label(self) -> str:
        """Policy with its parameters."""
        return PolicySpec(self.policy, self.params).label

    @property
    def is_proved(self) -> bool:
        """Whether the optimum is proved."""
        return self.optimum_upper is not None and self.optimum_upper == self.optimum_lower

    @property
    def ratio(self) -> Interval | None:
        """Total latency over the optimum; None for a failed run."""
        if self.total_latency is None:
            return None
        return Interval.of_quotient(self.total_latency, self.optimum_upper, self.optimum_lower)


@dataclass(frozen=True)
class PolicySummary:
    """A policy over all its records. Failed runs are counted and enter no statistic.

    Attributes
    ----------
    policy : label.
    trials, failed : records, and those without a complete run.
    proved : completed runs whose optimum is proved.
    mean_ratio : mean of the ratios of the completed runs.
    max_ratio : largest of them.
    ratio_of_totals : sum of total latencies over sum of optima.
    """

    policy: str
    trials: int
    failed: int
    proved: int
    mean_ratio: Interval
    max_ratio: Interval
    ratio_of_totals: Interval

    @property
    def completed(self) -> int:
        """Runs that served every request."""
        return self.trials - self.failed


def compare(
    instance: Instance | ArrivalSource,
    policies: Iterable[str | PolicySpec] | None = None,
    *,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    policy_time_limit: float | None = None,
) -> list[Record]:
    """Run policies on an instance, solve it in hindsight, and put the two side by side.

    Against an arrival source every policy is measured on the instance its own run realised. The
    solver starts from the best of the policies' schedules, so no ratio falls below 1. Ctrl-C ends
    the search; the interval found so far stands.

    Parameters
    ----------
    policies : names or `PolicySpec`; None takes every policy that needs no parameters.
    time_limit : seconds for each solve, or None.
    seed : of policies, arrival source and solver.
    threads : of HiGHS, or None for its choice.
    progress : told of every improvement of the interval.
    policy_time_limit : seconds for each policy's run, after which it counts as failed.

    Returns
    -------
    list : a `Record` for each policy, in the order given.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError: a bad argument.
    PolicyError: a policy broke a rule.
    hindsight.SolverError: HiGHS failed.
    """
    import hindsight

    specs = policy_specs(policies)
    seed = as_integer(seed, None, "seed", minimum=0)
    time_limit = as_time_limit(time_limit)
    policy_time_limit = as_time_limit(policy_time_limit, field="policy_time_limit")
    if not isinstance(instance, (Instance, ArrivalSource)):
        raise InvalidTypeError(None, "instance", instance, "is no Instance and no arrival source")
    runs = [_run(instance, spec, seed, policy_time_limit) for spec in specs]
    starts: dict[str, Schedule] = {}
    instances: dict[str, Instance] = {}
    if isinstance(instance, Instance):
        _keep_better(starts, _known_schedule(instance))
    if isinstance(instance, Instance):
        instances[instance.digest] = instance
    for run in runs:
        if run is None:
            continue
        if run.instance is not None:
            instances[run.instance.digest] = run.instance
        if run.status == "completed":
            _keep_better(starts, run.schedule)
    # A run that left requests unserved realised only part of what an arrival source would send.
    served = {
        run.instance.digest
        for run in runs
        if run is not None and run.instance and run.status == "completed"
    }
    wanted = set(instances) if isinstance(instance, Instance) else served
    results = {
        digest: hindsight.solve(
            found, time_limit, threads, seed, start=starts.get(digest), callback=progress
        )
        for digest, found in instances.items()
        if digest in wanted
    }
    records = []
    for spec, run in zip(specs, runs, strict=True):
        if run is None:
            assert isinstance(instance, Instance)
            records.append(_refused(spec, instance, seed, results[instance.digest]))
        else:
            found = None if run.instance is None else results.get(run.instance.digest)
            records.append(_record(spec, run, found))
    return records


def _run(
    instance: Instance | ArrivalSource, spec: PolicySpec, seed: int, time_limit: float | None
) -> Run | None:
    """None where the policy refuses the instance, which is then known to be a valid one."""
    should_stop = None
    if time_limit is not None:
        deadline = time.monotonic() + time_limit

        def should_stop() -> bool:
            return time.monotonic() >= deadline

    try:
        return simulate(instance, spec.make(), seed=seed, should_stop=should_stop)
    except InvalidValueError:
        if isinstance(instance, ArrivalSource):
            raise
        return None


def _refused(spec: PolicySpec, instance: Instance, seed: int, result: SolveResult) -> Record:
    return Record(
        instance=instance.name,
        digest=instance.digest,
        requests=len(instance),
        memory_limit=instance.memory_limit,
        policy=spec.name,
        params=dict(spec.params),
        seed=seed,
        status="refused",
        total_latency=None,
        evictions=0,
        optimum_upper=result.upper_bound,
        optimum_lower=result.lower_bound,
        optimum_certified=result.certified_lower_bound,
        stop_reason=result.stop_reason,
        solve_seconds=result.runtime,
    )


def summarise(records: Sequence[Record]) -> list[PolicySummary]:
    """One summary for each policy, in order of appearance."""
    by_policy: dict[str, list[Record]] = {}
    for record in records:
        by_policy.setdefault(record.policy_label, []).append(record)
    return [_summary(policy, found) for policy, found in by_policy.items()]


def _summary(policy: str, records: list[Record]) -> PolicySummary:
    completed = [record for record in records if record.total_latency is not None]
    ratios = [record.ratio for record in completed if record.ratio is not None]
    lowers, uppers = [r.lower for r in ratios], [r.upper for r in ratios]
    total = sum(r.total_latency for r in completed if r.total_latency is not None)
    totals = Interval.of_quotient(
        total,
        _sum([record.optimum_upper for record in completed]),
        _sum([record.optimum_lower for record in completed]),
    )
    return PolicySummary(
        policy=policy,
        trials=len(records),
        failed=len(records) - len(completed),
        proved=sum(record.is_proved for record in completed),
        mean_ratio=Interval(_mean(lowers), _mean(uppers)),
        # The largest ratio is at least every lower end and at most the largest upper end.
        max_ratio=Interval(
            max((end for end in lowers if end is not None), default=None),
            None if None in uppers else max((end for end in uppers if end), default=None),
        ),
        ratio_of_totals=totals,
    )


def _sum(bounds: list[int | None]) -> int | None:
    known = [bound for bound in bounds if bound is not None]
    return sum(known) if known and len(known) == len(bounds) else None


def _mean(ends: list[Fraction | None]) -> Fraction | None:
    known = [end for end in ends if end is not None]
    return sum(known, Fraction(0)) / len(known) if known and len(known) == len(ends) else None


def _known_schedule(instance: Instance) -> Schedule | None:
    """The schedule an instance file carries. Its lower bounds are not believed, only this."""
    known = known_bounds(instance)
    if known is None or known.start_times is None:
        return None
    return Schedule(instance, known.start_times)


def _keep_better(starts: dict[str, Schedule], schedule: Schedule | None) -> None:
    if schedule is None:
        return
    digest = schedule.instance.digest
    if digest not in starts or schedule.total_latency < starts[digest].total_latency:
        starts[digest] = schedule


def _record(spec: PolicySpec, run: Run, result: SolveResult | None) -> Record:
    return Record(
        instance=None if run.instance is None else run.instance.name,
        digest=None if run.instance is None else run.instance.digest,
        requests=len(run.start_rounds),
        memory_limit=run.memory_limit,
        policy=spec.name,
        params=dict(spec.params),
        seed=run.seed,
        status=run.status,
        total_latency=run.schedule.total_latency if run.status == "completed" else None,
        evictions=run.evictions,
        optimum_upper=None if result is None else result.upper_bound,
        optimum_lower=None if result is None else result.lower_bound,
        optimum_certified=None if result is None else result.certified_lower_bound,
        stop_reason=None if result is None else result.stop_reason,
        solve_seconds=None if result is None else result.runtime,
    )
