"""Build schedules with the completion times of a run, and check that they are valid."""

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
    """Error: the schedule built from a run breaks a rule. This is a bug of this package."""


class NoScheduleError(ValueError):
    """Error: no schedule of the requested kind has the completion times of the run."""


def _refused(run: Any, reason: str) -> NoScheduleError:
    return NoScheduleError(f"the run of {run.policy_name!r} {reason}")


def schedule_of(run: Any) -> Any:
    """Build the schedule that `Run.schedule` returns, and check it."""
    run.require_completed()
    instance = _served_as(run.instance, run.prefill_rounds)
    if instance is not None and run.keeps_tokens:
        reason = "no schedule without preemption has its completions"
        raise _refused(run, f"preempted requests and kept their tokens: {reason}")
    if run.parts:
        return _of_fleet(run, instance, "schedule")
    if instance is None:
        return _in_seconds(run)
    return _checked(run, Schedule(instance, run.completion_rounds - instance.output_lengths))


def preemptive_schedule_of(run: Any) -> Any:
    """Build the schedule that `Run.preemptive_schedule` returns, and check it.

    It emits each output token in the same round as the run.
    """
    run.require_completed()
    instance = _served_as(run.instance, run.prefill_rounds)
    if run.parts:
        return _of_fleet(run, instance, "preemptive_schedule")
    if instance is None:
        reason = "had rounds of unequal length: no schedule of the round model describes it"
        raise _refused(run, reason)
    if not run.keeps_tokens:
        return PreemptiveSchedule.from_schedule(run.schedule)
    if run.prefill_rounds:
        reason = "kept tokens and had prefill rounds: each return took a round without a token"
        raise _refused(run, reason)
    own = np.split(run.token_rounds[1], np.cumsum(instance.output_lengths)[:-1])
    return _checked(run, PreemptiveSchedule.from_rounds(instance, own))


def _of_fleet(run: Any, instance: Instance | None, kind: str) -> FleetSchedule:
    parts = [None if one is None else getattr(one, kind) for one in run.parts]
    return FleetSchedule(instance or run.problem, run.replica, parts)


def _in_seconds(run: Any) -> Any:
    if run.prefill_rounds:
        reason = "had prefill rounds, which no schedule in seconds has"
        raise _refused(run, reason)
    assert isinstance(run.problem, Workload)
    return _checked(run, SecondsSchedule(run.problem, run.actions, run.rounds.starts))


def _checked(run: Any, schedule: Any) -> Any:
    if not np.array_equal(schedule.completion_times, run.completion_times):
        raise _refused(run, "took other times than its batch time gives when asked again")
    if violations := schedule.violations():
        raise InternalError(f"{run.policy_name}: {violations[0]}")
    return schedule


def _served_as(instance: Instance | None, prefill_rounds: int) -> Instance | None:
    """Return an instance without prefill rounds whose requests take the same rounds and memory.

    Its prompts are shorter by ``prefill_rounds`` tokens, and its outputs are longer by as many. So
    every round of a request emits a token. Requests keep their ids. A prompt may become empty.
    """
    if instance is None or not prefill_rounds:
        return instance
    k = prefill_rounds
    requests = [
        replace(one, prompt_length=one.prompt_length - k, output_length=one.output_length + k)
        for one in instance
    ]
    metadata = {**instance.metadata, ALLOW_ZERO_PROMPT_LENGTH: True}
    return instance.replaced(requests=requests, metadata=metadata)
