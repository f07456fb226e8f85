"""Trials of a results file as what a report shows."""

from __future__ import annotations

from collections.abc import Sequence

from instances import Schedule
from online.experiment import Result

from .records import TrialRecord

SEPARATE = ("experiment", "version", "family", "predictions")
"""What ratios are never averaged over, named where it tells trials apart."""


def records_of_results(results: Sequence[Result]) -> list[TrialRecord]:
    """One record for each trial that has been run, in order; the others are left out.

    Raises
    ------
    InvalidValueError
        A stored schedule that does not pass the checker.
    """
    ran = [result for result in results if result.trial is not None]
    names = [name for name in SEPARATE if len({getattr(each, name) for each in ran}) > 1]
    return [_record(result, names) for result in ran]


def _record(result: Result, names: Sequence[str]) -> TrialRecord:
    trial, optimum = result.trial, result.optimum
    assert trial is not None
    return TrialRecord(
        instance=result.instance,
        policy=result.policy,
        seed=trial.seed,
        status=trial.status,
        start_times=_starts(result.schedule),
        lost_attempts=result.lost_attempts,
        served=result.served,
        evictions=trial.evictions,
        optimum_start_times=_starts(result.optimum_schedule),
        optimum_lower=None if optimum is None else optimum.lower_bound,
        group=", ".join(str(getattr(result, name)) for name in names),
        note=result.reason or "",
    )


def _starts(schedule: Schedule | None) -> tuple[int, ...] | None:
    return None if schedule is None else tuple(schedule.start_times.tolist())
