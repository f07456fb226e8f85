"""Certificates of results: what is written proves what it claims."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from left_to_graphs import leave_to_graphs

import hindsight
import instances
from hindsight import check_certificate, make_certificate
from hindsight.certificates import limits, proofs
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.prices.states import StatePrices
from hindsight.prices.stops import PreemptivePrices
from hindsight.runtime import clock as clock_module
from instances import Instance, InvalidValueError, PreemptiveSchedule, Schedule, Workload
from online import AffineTime, TiledTime

LEAVES = {"worst-n7-00": 15, "adversary-sqrt-n-n33-00": 180, "worst-n9-00": 387}
LEAVES |= {"adversary-cascade-two-types-n24-00": 390, "c25-linearly-weighted-n20-01": 190_913}
HARD = Instance.from_arrays([3, 1, 2, 1, 3, 2], [6, 9, 4, 7, 3, 8], memory_limit=12)


def test_idle_gaps_and_prompts_of_length_zero() -> None:
    for prompts in ([3, 1, 2, 3, 1, 2], [0, 1, 0, 3, 0, 2]):
        lengths = prompts, [4, 5, 3, 4, 5, 3], [0, 0, 1, 500, 500, 501]
        metadata = {"allow_zero_prompt_length": True}
        instance = Instance.from_arrays(*lengths, memory_limit=8, metadata=metadata)
        result = hindsight.solve(instance)
        prices = make_certificate(result.schedule, result.proof, search=False)
        assert check_certificate(prices).lower_bound <= result.upper_bound
        assert check_certificate(make_certificate(result.schedule, result.proof)).is_optimal


def test_prices_move_with_their_blocks() -> None:
    shifts, arrivals = np.array([0, 7]), np.array([0, 2])
    memory = MemoryPrices(np.array([1, 2, 3, 4]), 5)
    moved = memory.moved(arrivals, shifts)
    assert isinstance(moved, MemoryPrices)
    assert moved.numerators.tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 4]
    Q = np.arange(16, dtype=np.int64).reshape(4, 2, 2)
    states = StatePrices(Q).moved(arrivals, shifts)
    assert isinstance(states, StatePrices)
    assert states.prices[9:].tolist() == Q[2:].tolist()
    assert memory.moved(arrivals, np.zeros(2, dtype=np.int64)) is memory
    # Row r is that of round r, which follows epoch r - 1; row 0 stays.
    by_round = np.array([[0, 0], [1, 2], [3, 4], [5, 6], [7, 8]])
    rounds = PreemptivePrices(by_round, 5).moved(arrivals, shifts)
    assert isinstance(rounds, PreemptivePrices)
    assert rounds.numerators[:, 0].tolist() == [0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 5, 7]
    assert rounds.denominator == 5


def test_proofs_of_the_other_optimum_are_not_written() -> None:
    instance = Instance.from_arrays([1, 2], [2, 2], memory_limit=5)
    schedule = Schedule(instance, [0, 2])
    stopping = PreemptiveSchedule.from_schedule(schedule)
    rounds, states = np.zeros((3, 6), dtype=np.int64), np.zeros((2, 6, 6), dtype=np.int64)
    with pytest.raises(InvalidValueError, match="for another optimum"):
        make_certificate(schedule, PreemptivePrices(rounds, 1))
    with pytest.raises(InvalidValueError, match="for another optimum"):
        make_certificate(stopping, StatePrices(states))
    # Prices of a token hold for both.
    prices = MemoryPrices(np.array([1]), 4)
    for shown, kind in ((schedule, "memory-prices"), (stopping, "preemptive-memory-prices")):
        document = make_certificate(shown, prices, search=False)
        assert document["proof"]["kind"] == kind
        assert check_certificate(document).upper_bound == schedule.total_latency


def test_a_proof_is_taken_only_where_it_can_be_checked_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a clock that the checker's own count of its work drives."""
    result = hindsight.solve(HARD)
    clock = 0.0
    spend = proofs.Proof.spend

    def spend_time(self: Any, numbers: int) -> None:
        nonlocal clock
        clock += numbers
        spend(self, numbers)

    monkeypatch.setattr(proofs.Proof, "spend", spend_time)
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(monotonic=lambda: clock))

    def written(limit: float | None) -> tuple[str, int, float]:
        nonlocal clock
        clock = 0.0
        document = make_certificate(result.schedule, result.proof, time_limit=limit)
        verdict = check_certificate(document)
        return verdict.kind, verdict.lower_bound, clock

    least = written(0)
    assert least[:2] == ("memory-prices", sum(request.output_length for request in HARD))
    whole = written(None)
    assert (whole[0], whole[1]) == ("state-search", result.upper_bound)
    kinds, bounds = [], []
    for share in (0.0, 0.05, 0.1, 0.2, 0.5, 0.9, 1.0, 1.5):
        limit = share * whole[2]
        kind, bound, taken = written(limit)
        # A look at the clock comes after the work that it stops: some at every proof.
        assert taken <= limit + 0.1 * whole[2]
        kinds.append(kind)
        bounds.append(bound)
    assert bounds == sorted(bounds)
    assert (kinds[0], kinds[-1]) == ("memory-prices", "state-search")
    assert len(set(bounds)) > 2


def test_what_the_checker_gives_up_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance.from_arrays(
        [3, 1, 3, 1, 2, 1], [4, 1, 2, 3, 6, 1], [1, 3, 1, 0, 1, 1], memory_limit=8
    )
    leave_to_graphs(monkeypatch)
    result = hindsight.solve(instance, method="paths", threads=1)
    for limit, most, kind in (
        ("LARGEST_GRAPH", limits.LARGEST_GRAPH, "path-search"),
        ("LARGEST_GRAPH", 3, "state-prices"),
        ("LARGEST_TABLE_MEMORY", 4, "memory-prices"),
    ):
        monkeypatch.setattr(limits, limit, most)
        document = make_certificate(result.schedule, result.proof, search=False)
        verdict = check_certificate(document)
        assert verdict.kind == kind
        assert verdict.is_optimal == (kind == "path-search")
    monkeypatch.setattr(limits, "LARGEST_EPOCH", 0)
    document = make_certificate(result.schedule, result.proof, search=False)
    assert document["proof"] == {"kind": "memory-prices", "scale": 1, "prices": []}
    assert document["lower_bound"] == instance.total_output_length


# In seconds.

AFFINE = AffineTime(0.5, 0.125, 0.0625)


def in_seconds(time: Any = AFFINE) -> hindsight.Result:
    rng = np.random.default_rng(5)
    workload = Workload(
        np.sort(rng.random(6)), [3] * 6, [1, 5, 2, 4, 3, 6], memory_limit=12, batch_time=time
    )
    return hindsight.relax(workload, time_limit=2)


@pytest.mark.parametrize("time", [AFFINE, TiledTime((1, 8), (0.5, 2.0), kernel=0.125)])
def test_the_result_of_a_solve_is_certified(time: Any, tmp_path: Path) -> None:
    result = in_seconds(time)
    path = tmp_path / "certificate.json"
    verdict = hindsight.write_certificate(result, path)
    assert verdict == hindsight.check_certificate(hindsight.read_certificate(path))
    assert (verdict.batch_time, verdict.upper_bound, verdict.is_optimal) == (time, None, False)
    # The same grids, but for prices rounded to 16 bits.
    assert verdict.lower_bound >= 0.995 * result.certified_lower_bound
    assert verdict.lower_bound <= result.upper_bound
    hurried = hindsight.make_certificate(result.schedule, result.proof, time_limit=0)
    assert hurried["proof"] == {"kind": "machine-bounds"}
    bare = hindsight.make_certificate(result.schedule)
    assert hurried["lower_bound"] == bare["lower_bound"] <= verdict.lower_bound


def test_searches_of_the_library_keep_as_many() -> None:
    """As their writer counted, and not one less; prices up to 2^30 as sums of loops have them."""
    folder = Path(instances.__file__).parent / "catalogue" / "certificates"
    for name, leaves in LEAVES.items():
        document = hindsight.read_certificate(folder / f"{name}.json.xz")
        assert check_certificate(document).leaves == leaves
