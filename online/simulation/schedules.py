"""Schedules that have the completions of a run, checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from instances import (
    FleetSchedule,
    Instance,
    PreemptiveSchedule,
    Schedule,
    SecondsSchedule,
    Workload,
)
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH


class InternalError(AssertionError):
    """The simulator produced something that its own checker refuses: a bug of this package."""


class NoScheduleError(ValueError):
    """No schedule of the kind that was asked for has the completions of this run."""


def schedule_of(run: Any) -> Any:
    """Return the schedule without pauses and evictions, see `Run.schedule`."""
    if run.parts:
        keeps = run.batch_time is None and run.keeps_tokens
        return _fleet_schedule(run, "preemptive_schedule" if keeps else "schedule")
    if run.round_end_times is not None:
        return _schedule_in_seconds(run)
    instance = _instance_in_rounds(run)
    if run.keeps_tokens:
        raise NoScheduleError(
            f"the run of {run.policy_name!r} preempted requests and kept their tokens: no "
            "schedule without preemption has its completions"
        )
    schedule = Schedule(instance, run.completion_rounds - instance.output_lengths)
    _check(run, schedule)
    return schedule


def preemptive_schedule_of(run: Any) -> Any:
    """Return the rounds in which tokens came out, see `Run.preemptive_schedule`."""
    if run.parts:
        return _fleet_schedule(run, "preemptive_schedule")
    instance = _instance_in_rounds(run)
    if not run.keeps_tokens:
        return PreemptiveSchedule.from_schedule(run.schedule)
    if run.prefill_rounds:
        raise NoScheduleError(
            f"the run of {run.policy_name!r} preempted requests, kept their tokens and had "
            "prefill rounds: each return took a round without a token, which no preemptive "
            "schedule has"
        )
    own = np.split(run.token_rounds[1], np.cumsum(instance.output_lengths)[:-1])
    schedule = PreemptiveSchedule.from_rounds(instance, own)
    _check(run, schedule)
    return schedule


def _fleet_schedule(run: Any, kind: str) -> FleetSchedule:
    parts = [None if one is None else getattr(one, kind) for one in run.parts]
    fleet: Any = run.problem
    if isinstance(fleet, Instance):
        fleet = with_tokens_every_round(fleet, run.prefill_rounds)
    return FleetSchedule(fleet, run.replica, parts)


def _instance_in_rounds(run: Any) -> Instance:
    """Return the instance whose schedules may have the run's completions."""
    run.require_completed()
    if run.round_end_times is not None:
        reason = "had rounds of unequal length"
    elif run.instance is None:
        reason = "had arrivals between rounds"
    else:
        return with_tokens_every_round(run.instance, run.prefill_rounds)
    raise NoScheduleError(
        f"the run of {run.policy_name!r} {reason}: no schedule of the round model describes it"
    )


def _schedule_in_seconds(run: Any) -> SecondsSchedule:
    run.require_completed()
    if run.keeps_tokens and run.prefill_rounds:
        raise NoScheduleError(
            f"the run of {run.policy_name!r} preempted requests, kept their tokens and had "
            "prefill rounds: no schedule in seconds has rounds like those"
        )
    assert isinstance(run.problem, Workload)
    assert run.round_end_times is not None
    actions = run.actions[run.actions[:, 2] > 0]
    starts = np.concatenate([np.zeros(1), run.round_end_times[:-1]])
    starts[run.stretches.first_round - 1] = run.stretches.start_time
    schedule = SecondsSchedule(run.problem, actions, starts)
    if run.prefill_rounds:
        # A prompt that counts as a chunk is added up in another order.
        starts, now = schedule.round_starts.copy(), 0.0
        for position, seconds in enumerate(schedule.durations.tolist()):
            starts[position] = max(starts[position], now)
            now = starts[position] + seconds
        schedule = SecondsSchedule(run.problem, actions, starts)
    violations, own = schedule.violations(), run.completion_times
    near = 1e-12 if run.prefill_rounds else 0.0
    if not np.allclose(schedule.completion_times, own, rtol=near, atol=0.0):
        raise NoScheduleError(
            f"the run of {run.policy_name!r} took other times than its batch time gives when "
            "asked again"
        )
    if violations:
        raise InternalError(f"{run.policy_name}: {violations[0]}")
    return schedule


def _check(run: Any, schedule: Schedule | PreemptiveSchedule) -> None:
    violations = schedule.violations()
    if violations:
        raise InternalError(f"{run.policy_name}: {violations[0]}")
    if not np.array_equal(schedule.completion_times, run.completion_rounds):
        raise InternalError(f"{run.policy_name}: its rounds do not give its completions")


def with_tokens_every_round(instance: Instance, prefill_rounds: int) -> Instance:
    """Return the instance that takes the same rounds and memory if every round emits a token.

    Its requests have prompts shorter by ``prefill_rounds`` and outputs longer by as many, and keep
    their ids; a prompt may become empty. Without prefill rounds the instance is returned as is.
    """
    if not prefill_rounds:
        return instance
    requests = [
        replace(
            one,
            prompt_length=one.prompt_length - prefill_rounds,
            output_length=one.output_length + prefill_rounds,
        )
        for one in instance
    ]
    metadata = {**instance.metadata, ALLOW_ZERO_PROMPT_LENGTH: True}
    machine = {"memory_rule": instance.memory_rule, "replicas": instance.replicas}
    return Instance(requests, instance.memory_limit, instance.name, metadata, **machine)  # type: ignore[arg-type]
