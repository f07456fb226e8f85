"""Policies against the hindsight optimum of the same instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
    known_bounds,
)
from instances.problem.arrival_source import ArrivalSource
from instances.problem.preemptive_schedule import AnySchedule
from instances.validation import as_flag, as_integer, as_time_limit

from .records import Record
from .specs import PolicySpec, policy_specs
from .trial import (
    COMPLETED,
    FAILED,
    Optimum,
    Trial,
    find_optimum,
    one_line,
    run_policy,
)

if TYPE_CHECKING:
    from hindsight import Progress


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
    preemptive: bool = False,
) -> list[Record]:
    """Run policies on an instance, solve it in hindsight, and put the two side by side.

    Against an arrival source every policy is measured on the instance its own run realised. The
    solver starts from the best of the policies' schedules, so no ratio falls below 1. Ctrl-C ends
    the run or the search in progress; the interval found so far stands. What goes wrong with one
    policy, or with the optimum, is the ``reason`` of a record, and the others do not suffer.

    Parameters
    ----------
    instance : Instance or ArrivalSource
        The problem, or a source that answers the policies' moves.
    policies : Iterable[str | PolicySpec] or None, default None
        Names or `PolicySpec`; None takes every policy that needs no parameters.
    time_limit : float or None, default None
        Seconds for each solve, or None.
    seed : int, default 0
        Of policies, arrival source and solver.
    threads : int or None, default None
        Of HiGHS, or None for its choice.
    progress : Callable[[Progress], None] or None, default None
        Told of every improvement of the interval.
    policy_time_limit : float or None, default None
        Seconds for each policy's run, after which it counts as failed.
    should_stop : Callable[[], bool] or None, default None
        Polled; True interrupts. None listens to Ctrl-C.
    preemptive : bool, default False
        Whether every policy is compared with the preemptive optimum. A run that preempted requests
        and kept their tokens is in any case, for the other is no bound on it;
        `Record.compared_with` names the optimum.

    Returns
    -------
    list[Record]
        A `Record` for each policy, in the order given.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A bad argument.
    """
    found = run_and_solve(
        instance,
        policies,
        time_limit=time_limit,
        seed=seed,
        threads=threads,
        progress=progress,
        policy_time_limit=policy_time_limit,
        should_stop=should_stop,
        preemptive=preemptive,
    )
    return [
        _record(spec, seed, instance, trial, optimum, preemptive=preemptive)
        for spec, trial, optimum in found
    ]


def run_and_solve(
    problem: Instance | ArrivalSource,
    policies: Iterable[str | PolicySpec] | None,
    *,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    policy_time_limit: float | None = None,
    should_stop: Callable[[], bool] | None = None,
    preemptive: bool = False,
) -> list[tuple[PolicySpec, Trial, Optimum | Exception | None]]:
    """What `compare` puts side by side: policies, their runs, and what their optima came to."""
    from hindsight.runtime.clock import Clock

    specs = policy_specs(policies)
    seed = as_integer(seed, None, "seed", minimum=0)
    time_limit = as_time_limit(time_limit)
    policy_time_limit = as_time_limit(policy_time_limit, field="policy_time_limit")
    preemptive = as_flag(preemptive, None, "preemptive")
    if not isinstance(problem, (Instance, ArrivalSource)):
        raise InvalidTypeError(None, "instance", problem, "is no Instance and no arrival source")
    clock = Clock(should_stop=should_stop)
    with clock.listening():
        stop = clock.must_stop
        trials = [
            run_policy(
                *(problem, spec, seed),
                time_limit=policy_time_limit,
                stop=stop,
                preemptive=preemptive,
            )
            for spec in specs
        ]
        # A run that left requests unserved realised only part of what an arrival source would send.
        wanted = {
            (trial.instance.digest, preemptive or trial.preemptive): trial.instance
            for trial in trials
            if trial.instance is not None and trial.status == COMPLETED
        }
        best: dict[Kind, AnySchedule] = {}
        if isinstance(problem, Instance):
            _keep_better(best, _known_schedule(problem))
            if not wanted:
                wanted[problem.digest, preemptive] = problem
        for trial in trials:
            _keep_better(best, trial.schedule)
        optima: dict[Kind, Optimum | Exception] = {}
        # The preemptive ones last: what is found without preemption is a schedule for them too.
        for kind in sorted(wanted, key=lambda kind: kind[1]):
            found = find_optimum(
                wanted[kind],
                preemptive=kind[1],
                start=best.get(kind),
                time_limit=time_limit,
                threads=threads,
                seed=seed,
                progress=progress,
                should_stop=stop,
            )
            if isinstance(found, (InvalidTypeError, InvalidValueError)):
                # A bad argument is not the solver's failure.
                raise found
            if not isinstance(found, Exception):
                _keep_better(best, found.schedule)
            optima[kind] = found
    found_of = [
        optima.get((trial.instance.digest, preemptive or trial.preemptive))
        if trial.instance is not None
        else None
        for trial in trials
    ]
    return list(zip(specs, trials, found_of, strict=True))


Kind: TypeAlias = tuple[str, bool]
"""Digest of an instance, and whether its preemptive optimum is meant."""


def _record(
    spec: PolicySpec,
    seed: int,
    problem: Instance | ArrivalSource,
    trial: Trial,
    found: Optimum | Exception | None,
    *,
    preemptive: bool,
) -> Record:
    result = None if isinstance(found, Exception) else found
    instance, run = trial.instance, trial.run
    return Record(
        instance=problem.name if instance is None else instance.name,
        digest=None if instance is None else instance.digest,
        requests=len(instance or ()) if run is None else len(run.start_rounds),
        memory_limit=problem.memory_limit,
        policy=spec.name,
        params=dict(spec.params),
        seed=seed,
        status=trial.status,
        total_latency=trial.total_latency,
        evictions=0 if run is None else run.evictions,
        optimum_upper=None if result is None else result.upper_bound,
        optimum_lower=None if result is None else result.lower_bound,
        optimum_certified=None if result is None else result.certified_lower_bound,
        stop_reason=None if result is None else result.stop_reason,
        solve_seconds=None if result is None else result.runtime,
        reason=no_ratio(trial, found),
        preemptive=preemptive or trial.preemptive,
    )


def no_ratio(trial: Trial, found: Optimum | Exception | None) -> str | None:
    """Why the trial has no ratio, in one line."""
    if trial.reason is None and isinstance(found, Exception):
        return f"no optimum: {one_line(found)}"
    return trial.reason


def lost_records(
    problem: Instance | ArrivalSource,
    specs: Sequence[PolicySpec],
    seed: int,
    reason: str,
    *,
    preemptive: bool,
) -> list[Record]:
    """The records of an instance of which nothing came back."""
    nothing = Trial(FAILED, problem if isinstance(problem, Instance) else None, reason=reason)
    return [_record(spec, seed, problem, nothing, None, preemptive=preemptive) for spec in specs]


def _known_schedule(instance: Instance) -> Schedule | None:
    """The schedule an instance file carries. Its lower bounds are not believed, only this."""
    known = known_bounds(instance)
    if known is None or known.start_times is None:
        return None
    return Schedule(instance, known.start_times)


def _keep_better(best: dict[Kind, AnySchedule], schedule: AnySchedule | None) -> None:
    """A schedule without preemption is a preemptive one as well."""
    if schedule is None:
        return
    for preemptive in {True, isinstance(schedule, PreemptiveSchedule)}:
        kind = (schedule.instance.digest, preemptive)
        if kind not in best or schedule.total_latency < best[kind].total_latency:
            best[kind] = schedule
