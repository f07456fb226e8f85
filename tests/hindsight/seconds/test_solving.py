"""`solve` and `relax` with a batch time: options, batch times of any kind, and limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hindsight
from instances import Instance, Workload
from online import AffineTime

TIME = AffineTime(0.5, 0.25, 0.125)
NO_BOUND = "no cost is negative"


def test_relax_has_the_bounds_of_solve_without_annealing() -> None:
    rng = np.random.default_rng(2)
    s, o = rng.integers(20, 120, 30), rng.integers(5, 30, 30)
    workload = Workload(np.zeros(30), s, o, memory_limit=1_000)
    time = AffineTime(0.05, 0.00028, 1.1e-7)
    lines: list[hindsight.Progress] = []
    result = hindsight.relax(workload.replaced(batch_time=time), progress=lines.append, threads=2)
    names = "own time", "one machine", "mean busy times", "round-length prices"
    assert set(result.bounds) == {NO_BOUND, *names}
    assert result.best_bound == "round-length prices"
    assert result.certified
    assert tuple(lines) == result.log
    assert {line.phase for line in lines} >= {"schedules", "bounds", "evaluation"}
    assert all(line.lower_bound <= line.upper_bound for line in lines)
    assert result.first_token_bound > 0
    first = result.schedule.first_token_times - workload.arrival_times
    assert result.first_token_bound <= first.mean()
    assert result.gap < 0.5


def test_an_instance_counts_its_rounds_as_seconds_in_order_of_arrival() -> None:
    instance = Instance.from_arrays([3, 1, 2], [1, 3, 2], [2, 0, 1], memory_limit=5)
    result = hindsight.solve(Workload.from_instance(instance, TIME), 0.2)
    assert result.problem.ids == (1, 2, 0)
    assert result.problem.arrival_times.tolist() == [0.0, 1.0, 2.0]
    assert result.schedule.is_feasible


class Slow:
    """A batch time of nobody's knowledge."""

    def durations(self, stretch: Any) -> Any:
        return np.full(stretch.rounds, 1.0 + 0.25 * stretch.requests**2)


class Quicker(AffineTime):
    """A subclass may compute something else."""

    def durations(self, stretch: Any) -> Any:
        return super().durations(stretch) / 2


def test_of_an_unknown_batch_time_only_what_holds_is_said() -> None:
    workload = Workload([0.0, 0.5], [3, 2], [2, 3], memory_limit=8)
    for unknown in (Slow(), Quicker(0.5, 0.25, 0.125)):
        result = hindsight.solve(workload.replaced(batch_time=unknown), 0.2)
        assert set(result.bounds) == {NO_BOUND}
        assert result.mean_latency_interval[0] == result.first_token_bound == 0
        assert result.schedule.is_feasible
        assert result.status == "feasible"


def test_a_stop_and_a_spent_limit_leave_an_interval() -> None:
    workload, time = Workload([0.0, 0.5], [2, 3], [3, 2], memory_limit=6), TIME
    for arguments, reason in (
        ({"progress": lambda _: True}, "interrupted"),
        ({"time_limit": 0}, "time-limit"),
    ):
        result = hindsight.solve(workload.replaced(batch_time=time), **arguments)  # type: ignore[arg-type]
        assert result.stop_reason == reason
        assert 0 < result.mean_latency_interval[0] <= result.mean_latency_interval[1]


@pytest.mark.parametrize(
    ("d0", "d1", "d2"), [(1e-3, 1e-5, 1e-6), (1e9, 1e8, 0.0)], ids=["milliseconds", "decades"]
)
def test_prices_of_rounds_of_any_length(d0: float, d1: float, d2: float) -> None:
    machine = {"memory_limit": 20, "batch_time": AffineTime(d0, d1, d2)}
    result = hindsight.relax(Workload([0.0] * 6, [5] * 6, [4] * 6, **machine))
    assert result.stop_reason == "stalled"
    lower, upper = result.mean_latency_interval
    assert 0.5 * upper < lower < upper
