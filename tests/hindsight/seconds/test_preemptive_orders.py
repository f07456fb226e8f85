"""Preemptive schedules in seconds: tokens kept or recomputed, and results that say which."""

from __future__ import annotations

import numpy as np
import pytest

import hindsight
from hindsight.runtime.clock import never
from hindsight.seconds.order_search import SecondsOrders
from instances import InvalidValueError, SecondsSchedule, Workload
from instances.batch_time import AffineTime


def drawn(seed: int, n: int, time: AffineTime) -> Workload:
    """Return requests of which many arrive while the cache is full."""
    rng = np.random.default_rng(seed)
    s, o = rng.integers(1, 12, n), rng.integers(1, 40, n)
    limit = int((s + o).max()) + int(rng.integers(0, 20))
    arrivals = np.sort(rng.integers(0, 200, n)) / 8
    return Workload(arrivals, s, o, memory_limit=limit, batch_time=time)


def opened(workload: Workload, *, recomputes: bool) -> tuple[SecondsSchedule, float]:
    """Return the best preemptive schedule of the opening, and the total that the search saw."""
    orders = SecondsOrders(workload, 0, recomputes)
    orders.openings(never)
    assert orders._preemptive is not None
    found = orders._preemptive
    return SecondsSchedule(workload, found.table()), found.total


def found(workload: Workload, *, recomputes: bool) -> SecondsSchedule:
    """Return the best preemptive schedule of the opening, also where another one is better."""
    return opened(workload, recomputes=recomputes)[0]


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
    assert "recompute their tokens" in again._repr_html_()


def test_a_start_that_keeps_tokens_is_refused_where_they_are_recomputed() -> None:
    time = AffineTime(1.0, 0.125, 0.0)
    workload = Workload([0.0, 2.0], [4, 12], [12, 1], memory_limit=16, batch_time=time)
    start = found(workload, recomputes=False)
    hindsight.solve(workload, 0.5, start=start)
    with pytest.raises(InvalidValueError, match="processes again"):
        hindsight.solve(workload, 0.5, start=start, preemption="recompute")
