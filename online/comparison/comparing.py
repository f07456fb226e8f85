"""Policies against the hindsight optimum of the same instances.

`hindsight` is imported inside the functions that solve: ``import online`` loads no solver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instances import Instance, InvalidTypeError, InvalidValueError, Schedule, known_bounds
from instances.problem.arrival_source import ArrivalSource
from instances.validation import as_integer, as_time_limit
from online.simulation.run import Run
from online.simulation.simulator import simulate

from .records import Record
from .specs import PolicySpec, policy_specs

if TYPE_CHECKING:
    from hindsight import Progress, SolveResult

_log = logging.getLogger(__name__)


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

    Returns
    -------
    list[Record]
        A `Record` for each policy, in the order given.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A bad argument.
    """
    from hindsight.runtime.clock import Clock

    specs = policy_specs(policies)
    seed = as_integer(seed, None, "seed", minimum=0)
    time_limit = as_time_limit(time_limit)
    policy_time_limit = as_time_limit(policy_time_limit, field="policy_time_limit")
    if not isinstance(instance, (Instance, ArrivalSource)):
        raise InvalidTypeError(None, "instance", instance, "is no Instance and no arrival source")
    clock = Clock(should_stop=should_stop)
    with clock.listening():
        stop = clock.must_stop
        attempts = [attempt_run(instance, spec, seed, policy_time_limit, stop) for spec in specs]
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
class Attempt:
    """What came of a policy's run.

    Attributes
    ----------
    status : str
        As in `Record`.
    instance : Instance or None
        The one given, or what an arrival source realised.
    run : Run or None
        None where it raised an error.
    total_latency : int or None
        None where it did not complete.
    schedule : Schedule or None
        None where there is none, for the ``reason``.
    """

    status: str
    instance: Instance | None
    run: Run | None = None
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


def attempt_run(
    instance: Instance | ArrivalSource,
    spec: PolicySpec,
    seed: int,
    time_limit: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Attempt:
    """Run a policy. Whatever it raises is its own failure and nobody else's."""
    from hindsight.runtime.clock import Clock

    clock = Clock(time_limit, stop)
    known = instance if isinstance(instance, Instance) else None
    try:
        run = simulate(
            instance,
            spec.make(),
            seed=seed,
            should_stop=clock.must_stop,
        )
        status: str = run.status
        if status == "time-limit" and clock.is_interrupted:
            status = "interrupted"
        if status != "completed":
            return Attempt(status, run.instance, run, reason=UNSERVED[status])
        try:
            schedule = run.schedule
        except ValueError as error:
            total = int(run.total_latency)
            return Attempt(status, run.instance, run, total, reason=str(error))
        return Attempt(status, run.instance, run, schedule.total_latency, schedule)
    except Exception as error:  # noqa: BLE001 (whatever a policy raises)
        _log.debug("policy %s failed", spec.label, exc_info=True)
        status = "refused" if isinstance(error, InvalidValueError) else "failed"
        return Attempt(status, known, reason=one_line(error))


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
            instance, time_limit, threads, seed, start=start, progress=tell, should_stop=stop
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
    attempt: Attempt,
    found: SolveResult | str | None,
) -> Record:
    reason = found if isinstance(found, str) else None
    result = None if isinstance(found, str) else found
    instance, run = attempt.instance, attempt.run
    requests = len(instance or ()) if run is None else len(run.start_rounds)
    return Record(
        instance=problem.name if instance is None else instance.name,
        digest=None if instance is None else instance.digest,
        requests=requests,
        memory_limit=problem.memory_limit,
        policy=spec.name,
        params=dict(spec.params),
        seed=seed,
        status=attempt.status,
        total_latency=attempt.total_latency,
        evictions=0 if run is None else run.evictions,
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
    nothing = Attempt("failed", problem if isinstance(problem, Instance) else None, reason=reason)
    return [_record(spec, seed, problem, nothing, None) for spec in specs]


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
