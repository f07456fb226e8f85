"""Workloads and schedules in seconds as the oracles take them, under an affine batch time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from seconds_by_definition import replay
from seconds_optimum import optimum

from instances import SecondsSchedule, Workload
from instances.batch_time import AffineTime
from instances.batch_time.seconds_schedule import COLUMNS


def exact_duration(time: AffineTime) -> Callable[[int, int], Fraction]:
    """Of a round with so many tokens processed and resident."""
    d0, d1, d2 = Fraction(time.d0), Fraction(time.d1), Fraction(time.d2)
    return lambda tokens, resident: d0 + d1 * tokens + d2 * resident


def _rows(workload: Workload) -> tuple[list[Fraction], list[int], list[int], int]:
    return (
        [Fraction(one) for one in workload.arrival_times.tolist()],
        workload.prompt_lengths.tolist(),
        workload.output_lengths.tolist(),
        workload.memory_limit,
    )


def replayed(schedule: SecondsSchedule, time: AffineTime) -> tuple[Any, list[Fraction | None]]:
    """Rules broken and completions, from a replay by definition."""
    return replay(
        *_rows(schedule.workload),
        list(zip(*(getattr(schedule, name).tolist() for name in COLUMNS), strict=True)),
        [Fraction(one) for one in schedule.round_starts.tolist()],
        exact_duration(time),
        rule=dataclasses.astuple(schedule.workload.memory_rule),
    )


def replayed_total(schedule: SecondsSchedule, time: AffineTime) -> Fraction:
    """Total latency of a schedule that breaks no rule."""
    broken, completion = replayed(schedule, time)
    assert broken == set()
    arrivals = _rows(schedule.workload)[0]
    return sum((end for end in completion if end is not None), -sum(arrivals, Fraction(0)))


def exhaustive_optimum(workload: Workload, time: AffineTime) -> Fraction | None:
    """The least total latency of every scheduler; None where there are too many states."""
    rule = dataclasses.astuple(workload.memory_rule)
    return optimum(*_rows(workload), exact_duration(time), states=6_000, rule=rule)
