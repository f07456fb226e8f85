"""Workloads in seconds drawn at random, their optima, and schedules replayed by definition."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from tiny_problems import InSeconds, check_in_seconds, replayed

from instances import SecondsSchedule, Workload

__all__ = ["drawn_workload", "exhaustive_optimum", "replayed", "replayed_total"]


def replayed_total(schedule: SecondsSchedule, time: Any) -> Fraction:
    """Total latency of a schedule that breaks no rule."""
    return sum(check_in_seconds(schedule.workload, time, schedule), Fraction(0))


def exhaustive_optimum(
    workload: Workload,
    time: Any,
    *,
    states: int = 6_000,
    first_tokens: bool = False,
    keeps: bool = False,
) -> Fraction | None:
    """Return the least total latency of every scheduler; None where there are too many states.

    With ``first_tokens`` it is the least sum of the times to first token. With ``keeps`` a request
    that leaves the cache may come back with its tokens; otherwise it processes them again.
    """
    case = InSeconds.of(workload, time, "keep" if keeps else "recompute")
    return case.least_first_tokens(states) if first_tokens else case.least_total_latency(states)


def drawn_workload(
    rng: np.random.Generator, requests: tuple[int, int], outputs: int, arrives: bool
) -> Workload:
    """Return a tiny workload; arrivals between rounds, all numbers exact in floats."""
    n = int(rng.integers(*requests))
    s, o = rng.integers(1, 4, n), rng.integers(1, outputs, n)
    times = np.sort(rng.integers(0, 24, n)) / 8 if arrives else np.zeros(n)
    return Workload(times, s, o, memory_limit=int(max((s + o).max(), rng.integers(4, 10))))
