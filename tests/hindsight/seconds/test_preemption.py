"""Preemptive schedules in seconds: tokens kept or recomputed, and results that say which."""

from __future__ import annotations

import numpy as np
import pytest

import hindsight
from hindsight.runtime.clock import never
from hindsight.schedules.keys import KeySearch
from instances import InvalidValueError, SecondsSchedule, Workload
from online import AffineTime


def drawn(seed: int, n: int, time: AffineTime) -> Workload:
    """Return requests of which many arrive while the cache is full."""
    rng = np.random.default_rng(seed)
    s, o = rng.integers(1, 12, n), rng.integers(1, 40, n)
    limit = int((s + o).max()) + int(rng.integers(0, 20))
    arrivals = np.sort(rng.integers(0, 200, n)) / 8
    return Workload(arrivals, s, o, memory_limit=limit, batch_time=time)


def found(workload: Workload, *, recomputes: bool) -> SecondsSchedule:
    """Return the best schedule of the openings."""
    keys = KeySearch(workload, 0, recomputes=recomputes)
    keys.open(never)
    schedule = keys.schedule()
    assert isinstance(schedule, SecondsSchedule)
    return schedule


def test_who_leaves_the_cache_keeps_tokens_or_processes_them_again() -> None:
    # The long request is stopped by the short one, which does not fit beside it.
    time = AffineTime(1.0, 0.125, 0.0)
    workload = Workload([0.0, 2.0], [4, 12], [12, 1], memory_limit=16, batch_time=time)
    kept, again = (found(workload, recomputes=one) for one in (False, True))
    assert kept.keeps_tokens
    assert not again.keeps_tokens
    assert kept.total_latency < again.total_latency


def test_a_result_says_which_optimum_it_is_about() -> None:
    workload = drawn(1, 12, AffineTime(0.25, 0.125, 0.0))
    kept = hindsight.solve(workload, 0.5)
    again = hindsight.solve(workload, 0.5, preemption="recompute")
    assert (kept.preemption, again.preemption) == ("keep", "recompute")
    assert not again.schedule.keeps_tokens
    assert kept.lower_bound <= again.upper_bound


def test_a_start_that_keeps_tokens_is_refused_where_they_are_recomputed() -> None:
    time = AffineTime(1.0, 0.125, 0.0)
    workload = Workload([0.0, 2.0], [4, 12], [12, 1], memory_limit=16, batch_time=time)
    start = found(workload, recomputes=False)
    hindsight.solve(workload, 0.5, start=start)
    with pytest.raises(InvalidValueError, match="processes again"):
        hindsight.solve(workload, 0.5, start=start, preemption="recompute")
