"""What requests ask for, by hand and beside the bounds that are proved."""

from __future__ import annotations

import pytest

import instances
from hindsight.prices.machines import machine_bounds
from instances import MemoryRule, Workload
from instances.batch_time import AffineTime, TiledTime, preset
from online.headroom.batch_times import find_batch_time
from online.headroom.waiting import load, own_seconds


def test_two_requests_by_hand() -> None:
    time = AffineTime(1.0, 0.5, 0.25)
    workload = Workload([5.0, 15.0], [3, 1], [2, 1], memory_limit=10, batch_time=time)
    # Rounds of (3 tokens, 4 held), (1, 5); of (1, 2).
    assert own_seconds(workload).tolist() == [1 + 1.5 + 1 + 1 + 0.5 + 1.25, 1 + 0.5 + 0.5]
    # 0.5 a token processed, 0.25 + 1 / 10 a token held: 4 and 9, 1 and 2.
    assert load(workload) == pytest.approx((0.5 * 4 + 0.35 * 9 + 0.5 + 0.35 * 2) / 10)


def test_what_is_stored_next_is_held_a_round_later() -> None:
    rule = MemoryRule(emitted_token="next")
    time = AffineTime(1.0, 0.5, 0.25)
    columns = ([0.0, 10.0], [3, 1], [2, 1])
    workload = Workload(*columns, memory_limit=10, memory_rule=rule, batch_time=time)
    assert own_seconds(workload).tolist() == [1 + 1.5 + 0.75 + 1 + 0.5 + 1.0, 1 + 0.5 + 0.25]
    proved = machine_bounds(workload, time)["own time"].total
    # The bound knows such requests as ones with a token less of prompt.
    assert float(proved) == own_seconds(workload).sum() - 2 * 0.5


def test_all_at_once_have_no_load() -> None:
    at_once = Workload([0.0, 0.0], [3, 1], [2, 1], memory_limit=10, batch_time=AffineTime(1.0))
    assert load(at_once) is None


@pytest.mark.parametrize(
    "time",
    [
        preset("llama-2-70b-2xa100").batch_time,
        preset("llama-2-70b-a100-tp1").batch_time,
        TiledTime([1, 10, 50], [1.0, 1.5, 9.0]),
    ],
)
def test_own_time_is_the_bound_of_that_name(time: AffineTime | TiledTime) -> None:
    workload = instances.generate("conversations", 1, n=40, rate=5).with_batch_time(time)
    proved = machine_bounds(workload, time)["own time"].total
    # The bound takes one minorant for all requests, this the best for each.
    assert float(proved) <= own_seconds(workload).sum() * (1 + 1e-12)
    if isinstance(time, AffineTime):
        assert own_seconds(workload).sum() == pytest.approx(float(proved), rel=1e-12)


def test_a_preset_in_steps_is_told_in_a_line() -> None:
    found, told = find_batch_time("llama-2-70b-a100-tp1", None)  # type: ignore[arg-type]
    assert found == preset("llama-2-70b-a100-tp1").batch_time
    assert told == "a table over tokens in tiles of 8, and attention (llama-2-70b-a100-tp1)"
