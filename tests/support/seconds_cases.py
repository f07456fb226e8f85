"""Workloads and schedules in seconds as the oracles take them, under an affine batch time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from seconds_by_definition import replay
from seconds_optimum import optimum

from instances import SecondsSchedule, Workload
from instances.batch_time import AffineTime, PiecewiseLinearTime
from instances.batch_time.seconds_schedule import COLUMNS


def exact_duration(time: Any) -> Callable[[int, int], Fraction]:
    """Return the seconds of a round with so many tokens processed and resident."""
    if isinstance(time, PiecewiseLinearTime):
        return lambda tokens, resident: Fraction(time.at(tokens)) + Fraction(time.d2) * resident
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


def exhaustive_optimum(
    workload: Workload,
    time: Any,
    *,
    states: int = 6_000,
    first_tokens: bool = False,
    keeps: bool = False,
) -> Fraction | None:
    """Return the least total latency of every scheduler; None where there are too many states.

    With ``first_tokens`` it is the least sum of the times to first token: a request that has
    emitted its first token can be dropped, as if it were complete. With ``keeps`` a request that
    leaves the cache may come back with its tokens; otherwise it processes them again.
    """
    arrivals, prompts, outputs, limit = _rows(workload)
    outputs = [1] * len(outputs) if first_tokens else outputs
    rule = dataclasses.astuple(workload.memory_rule)
    return optimum(
        arrivals,
        prompts,
        outputs,
        limit,
        exact_duration(time),
        states=states,
        rule=rule,
        keeps=keeps,
    )


def drawn_workload(
    rng: np.random.Generator, requests: tuple[int, int], outputs: int, arrives: bool
) -> Workload:
    """Return a tiny workload; arrivals between rounds, all numbers exact in floats."""
    n = int(rng.integers(*requests))
    s, o = rng.integers(1, 4, n), rng.integers(1, outputs, n)
    times = np.sort(rng.integers(0, 24, n)) / 8 if arrives else np.zeros(n)
    return Workload(times, s, o, memory_limit=int(max((s + o).max(), rng.integers(4, 10))))
