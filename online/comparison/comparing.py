"""Policies against the hindsight optimum of the same instances.

`hindsight` is imported inside the functions that solve: ``import online`` loads no solver.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from instances import Instance, InvalidTypeError, InvalidValueError, Schedule, known_bounds
from instances.problem.arrival_source import ArrivalSource
from instances.validation import as_integer, as_time_limit
from online.policy_interface.policy import Policy, make_policy, policy_names, policy_parameters
from online.simulation.simulator import simulate

from .ratios import Interval

if TYPE_CHECKING:
    from hindsight import Progress, SolveResult

_log = logging.getLogger(__name__)


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
        where the policy cannot take the instance, ``"time-limit"``, ``"interrupted"``,
        ``"failed"`` where it raised an error or its process died, ...
    total_latency : of the policy; None for a run that did not complete.
    evictions : in the policy's run.
    optimum_upper, optimum_lower, optimum_certified : best schedule known, lower bound in floating
        point, lower bound in exact arithmetic; None for what is not known.
    stop_reason : why the solver stopped: ``"proof"``, ``"time-limit"``, ``"interrupted"``, ...
    solve_seconds : the solver's, shared by all policies on the instance.
    reason : why there is no ratio, in one line; None where there is one.
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
    reason: str | None = None

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
        """Total latency over the optimum; None where ``reason`` says why."""
        if self.total_latency is None or self.reason is not None:
            return None
        return Interval.of_quotient(self.total_latency, self.optimum_upper, self.optimum_lower)


@dataclass(frozen=True)
class PolicySummary:
    """A policy over all its records. Those without a ratio are counted and enter no statistic.

    Attributes
    ----------
    policy : label.
    trials, failed : records, and those without a ratio: `Record.reason` says why.
    proved : records with a ratio whose optimum is proved.
    mean_ratio : mean of the ratios.
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
        """Records with a ratio."""
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
    should_stop: Callable[[], bool] | None = None,
) -> list[Record]:
    """Run policies on an instance, solve it in hindsight, and put the two side by side.

    Against an arrival source every policy is measured on the instance its own run realised. The
    solver starts from the best of the policies' schedules, so no ratio falls below 1. Ctrl-C ends
    the run or the search in progress; the interval found so far stands. What goes wrong with one
    policy, or with the optimum, is the ``reason`` of a record, and the others do not suffer.

    Parameters
    ----------
    policies : names or `PolicySpec`; None takes every policy that needs no parameters.
    time_limit : seconds for each solve, or None.
    seed : of policies, arrival source and solver.
    threads : of HiGHS, or None for its choice.
    progress : told of every improvement of the interval.
    policy_time_limit : seconds for each policy's run, after which it counts as failed.
    should_stop : polled; True interrupts. None listens to Ctrl-C.

    Returns
    -------
    list : a `Record` for each policy, in the order given.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError: a bad argument.
    """
    from hindsight.runtime.interruption import stop_or_interruption

    specs = policy_specs(policies)
    seed = as_integer(seed, None, "seed", minimum=0)
    time_limit = as_time_limit(time_limit)
    policy_time_limit = as_time_limit(policy_time_limit, field="policy_time_limit")
    if not isinstance(instance, (Instance, ArrivalSource)):
        raise InvalidTypeError(None, "instance", instance, "is no Instance and no arrival source")
    with stop_or_interruption(should_stop) as stop:
        attempts = [_attempt(instance, spec, seed, policy_time_limit, stop) for spec in specs]
        starts: dict[str, Schedule] = {}
        # A run that left requests unserved realised only part of what an arrival source would send.
        instances = {
            attempt.instance.digest: attempt.instance
            for attempt in attempts
            if attempt.instance is not None and attempt.status == "completed"
        }
        if isinstance(instance, Instance):
            _keep_better(starts, _known_schedule(instance))
            instances[instance.digest] = instance
        for attempt in attempts:
            _keep_better(starts, attempt.schedule)

        def search(digest: str) -> SolveResult | str:
            start = starts.get(digest)
            return _optimum(instances[digest], time_limit, threads, seed, start, progress, stop)

        optima = {digest: search(digest) for digest in instances}
    records = []
    for spec, attempt in zip(specs, attempts, strict=True):
        realised = attempt.instance
        found = None if realised is None else optima.get(realised.digest)
        records.append(_record(spec, seed, instance, attempt, found))
    return records


@dataclass(frozen=True)
class _Attempt:
    """What came of a policy's run: a schedule, or the reason why there is none."""

    status: str
    instance: Instance | None
    requests: int
    evictions: int = 0
    total_latency: int | None = None
    schedule: Schedule | None = None
    reason: str | None = None


UNSERVED = {
    "livelock": "evictions would repeat for ever",
    "stalled": "it starts nothing more, with requests left unserved",
    "round-limit": "the limit on rounds came first",
    "time-limit": "its time ran out",
    "interrupted": "it was interrupted",
}
"""Why a run did not complete, by its status."""


def _attempt(
    instance: Instance | ArrivalSource,
    spec: PolicySpec,
    seed: int,
    time_limit: float | None,
    stop: Callable[[], bool],
) -> _Attempt:
    """Run a policy. Whatever it raises is its own failure and nobody else's."""
    deadline = math.inf if time_limit is None else time.monotonic() + time_limit
    known = instance if isinstance(instance, Instance) else None
    try:
        run = simulate(
            instance,
            spec.make(),
            seed=seed,
            should_stop=lambda: stop() or time.monotonic() >= deadline,
        )
        status: str = run.status
        if status == "time-limit" and stop() and time.monotonic() < deadline:
            status = "interrupted"
        reached = (status, run.instance, len(run.start_rounds), run.evictions)
        if status != "completed":
            return _Attempt(*reached, reason=UNSERVED[status])
        try:
            schedule = run.schedule
        except ValueError as error:
            return _Attempt(*reached, int(run.total_latency), reason=str(error))
        return _Attempt(*reached, schedule.total_latency, schedule)
    except Exception as error:  # noqa: BLE001 (whatever a policy raises)
        _log.debug("policy %s failed", spec.label, exc_info=True)
        status = "refused" if isinstance(error, InvalidValueError) else "failed"
        return _Attempt(status, known, 0 if known is None else len(known), reason=one_line(error))


def _optimum(
    instance: Instance,
    time_limit: float | None,
    threads: int | None,
    seed: int,
    start: Schedule | None,
    progress: Callable[[Progress], None] | None,
    stop: Callable[[], bool],
) -> SolveResult | str:
    """What is known of the optimum, or why nothing is."""
    import hindsight

    raised = False

    def tell(news: Progress) -> None:
        nonlocal raised
        try:
            if progress is not None:
                progress(news)
        except BaseException:
            raised = True
            raise

    try:
        return hindsight.solve(
            instance, time_limit, threads, seed, start=start, callback=tell, should_stop=stop
        )
    except Exception as error:
        # Neither a bad argument nor what the caller's own function raised is the solver's failure.
        if raised or isinstance(error, (InvalidTypeError, InvalidValueError)):
            raise
        _log.debug("no optimum of %s", instance.name, exc_info=True)
        return f"no optimum: {one_line(error)}"


def one_line(error: BaseException) -> str:
    """Kind and message of an error, without line breaks."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _record(
    spec: PolicySpec,
    seed: int,
    problem: Instance | ArrivalSource,
    attempt: _Attempt,
    found: SolveResult | str | None,
) -> Record:
    reason = found if isinstance(found, str) else None
    result = None if isinstance(found, str) else found
    # An instance without a name may have been realised by a source that has one.
    named = problem if attempt.instance is None else attempt.instance
    return Record(
        instance=named.name,
        digest=None if attempt.instance is None else attempt.instance.digest,
        requests=attempt.requests,
        memory_limit=problem.memory_limit,
        policy=spec.name,
        params=dict(spec.params),
        seed=seed,
        status=attempt.status,
        total_latency=attempt.total_latency,
        evictions=attempt.evictions,
        optimum_upper=None if result is None else result.upper_bound,
        optimum_lower=None if result is None else result.lower_bound,
        optimum_certified=None if result is None else result.certified_lower_bound,
        stop_reason=None if result is None else result.stop_reason,
        solve_seconds=None if result is None else result.runtime,
        reason=attempt.reason or reason,
    )


def lost_records(
    problem: Instance | ArrivalSource, specs: Sequence[PolicySpec], seed: int, reason: str
) -> list[Record]:
    """The records of an instance of which nothing came back."""
    known = problem if isinstance(problem, Instance) else None
    nothing = _Attempt("failed", known, 0 if known is None else len(known), reason=reason)
    return [_record(spec, seed, problem, nothing, None) for spec in specs]


def summarise(records: Sequence[Record]) -> list[PolicySummary]:
    """One summary for each policy, in order of appearance."""
    by_policy: dict[str, list[Record]] = {}
    for record in records:
        by_policy.setdefault(record.policy_label, []).append(record)
    return [_summary(policy, found) for policy, found in by_policy.items()]


def _summary(policy: str, records: list[Record]) -> PolicySummary:
    completed = [record for record in records if record.ratio is not None]
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
