"""Certificates: what is written proves what it claims, and what was tampered with does not."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import drawn_instance
from effort import examples, sweep
from hypothesis import given, settings
from preemptive_by_definition import preemptive_optimum
from strategies import instances as any_instances

import hindsight
from hindsight import check_certificate, read_certificate
from hindsight.bounds.idle_gaps import compress
from hindsight.certificates import proofs
from hindsight.certificates.format import MalformedCertificateError
from hindsight.certificates.writing import bound_of_prices, make_certificate, state_prices_of
from hindsight.configurations.proofs import PathPrices, StatePrices
from hindsight.exact_search.branch_and_bound import prove_by_windows, suits_tree
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.preemption.prices import PreemptivePrices, preemptive_price_bound
from hindsight.runtime import clock as clock_module
from hindsight.strategies.configurations import Configurations
from hindsight.strategies.paths import Paths
from instances import (
    Instance,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
    generate,
)


def tiny(seed: int) -> Instance:
    last = 5 if seed % 2 else None
    return drawn_instance([71, seed], (2, 5), (5, 12), prompts=(1, 3), last_arrival=last)


HARD = Instance.from_arrays([3, 1, 2, 1, 3, 2], [6, 9, 4, 7, 3, 8], memory_limit=12)
"""The root's prices do not prove its optimum: the tree has splits."""


def optimal_schedule(instance: Instance) -> Schedule:
    return Schedule(instance, optimal_total_latency(instance)[1])


@pytest.mark.parametrize("seed", sweep(range(20)))
def test_prices_of_a_solve_round_trip(seed: int, tmp_path: Path) -> None:
    instance = tiny(seed)
    result = hindsight.solve(instance)
    path = tmp_path / "certificate.json"
    written = hindsight.write_certificate(result, path, search=False, tree=False)
    assert check_certificate(read_certificate(path)) == written
    assert written.lower_bound <= result.upper_bound == optimal_total_latency(instance)[0]
    if result.root_bound is not None and not compress(instance).shifts.any():
        assert written.lower_bound >= result.root_bound


def test_a_tree_with_splits_proves_what_prices_do_not() -> None:
    schedule = optimal_schedule(HARD)
    assert not check_certificate(make_certificate(schedule, tree=False)).is_optimal
    document = make_certificate(schedule)
    assert any(isinstance(node, list) for node in document["proof"]["tree"])
    assert check_certificate(document).is_optimal


def test_a_suboptimal_schedule_is_certified_as_an_interval() -> None:
    optimum, starts = optimal_total_latency(HARD)
    later = Schedule(HARD, [t + 1 for t in starts])
    tree = prove_by_windows(HARD, later)
    assert tree.lower_bound <= optimum
    assert not tree.is_complete
    verdict = check_certificate(make_certificate(later))
    assert verdict.lower_bound <= optimum < verdict.upper_bound


@given(any_instances(max_requests=4, max_memory=9))
@settings(max_examples=examples(25))
def test_any_instance_can_be_certified(instance: Instance) -> None:
    optimum, starts = optimal_total_latency(instance)
    document = json.loads(json.dumps(make_certificate(Schedule(instance, starts))))
    verdict = check_certificate(document)
    assert (verdict.lower_bound, verdict.upper_bound) == (optimum, optimum)


def test_a_prompt_of_length_zero() -> None:
    instance = Instance.from_arrays(
        [0, 0, 1, 0], [3, 4, 3, 2], memory_limit=5, metadata={"allow_zero_prompt_length": True}
    )
    assert check_certificate(make_certificate(optimal_schedule(instance))).is_optimal


def test_idle_gaps() -> None:
    instance = Instance.from_arrays(
        [3, 1, 2, 3, 1, 2], [4, 5, 3, 4, 5, 3], [0, 0, 1, 500, 500, 501], memory_limit=8
    )
    result = hindsight.solve(instance)
    verdict = check_certificate(make_certificate(result.schedule, result.proof, tree=False))
    assert verdict.lower_bound <= verdict.upper_bound == result.upper_bound
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
    assert states.without_gaps(arrivals, shifts).prices.tolist() == Q.tolist()
    # Prices of epochs that end within the gap, and of none.
    assert StatePrices(Q).without_gaps(arrivals, shifts).prices.tolist() == Q[:2].tolist()
    assert len(StatePrices(Q[:0]).without_gaps(arrivals, shifts).prices) == 0
    assert memory.moved(arrivals, np.zeros(2, dtype=np.int64)) is memory
    # Row r is that of round r, which follows epoch r - 1; row 0 stays.
    by_round = np.array([[0, 0], [1, 2], [3, 4], [5, 6], [7, 8]])
    rounds = PreemptivePrices(by_round, 5).moved(arrivals, shifts)
    assert isinstance(rounds, PreemptivePrices)
    assert rounds.numerators[:, 0].tolist() == [0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 5, 7]
    assert rounds.denominator == 5


@pytest.mark.parametrize("kind", ["state-prices", "path-search"])
def test_prices_are_read_back(kind: str) -> None:
    instance = generate("arrival-model-2", 0, n=8)
    method = Paths(Configurations(moves=10, move_slice=10, states=1))
    result = hindsight.solve(instance, method=method, threads=1)
    assert isinstance(result.proof, PathPrices)
    known = result.proof if kind == "path-search" else result.proof.prices
    document = make_certificate(result.schedule, known, search=False, tree=False)
    assert document["proof"]["kind"] == kind
    prices = state_prices_of(document)
    assert prices is not None
    assert prices.prices.shape[1:] == (instance.memory_limit + 1,) * 2
    proved = bound_of_prices(instance, prices)
    assert bound_of_prices(instance, result.proof.prices) - 1 <= proved <= result.lower_bound
    assert state_prices_of(make_certificate(result.schedule, None)) is None
    document["proof"]["prices"][0].pop()
    with pytest.raises(MalformedCertificateError, match="prices"):
        state_prices_of(document)
    with pytest.raises(MalformedCertificateError, match="instance"):
        state_prices_of({"proof": document["proof"]})


@pytest.mark.parametrize("seed", sweep(range(8)))
def test_preemptive_results_are_certified_by_their_prices(seed: int, tmp_path: Path) -> None:
    """The verified lower bound is that of prices alone; the solver's may be above it."""
    instance = tiny(seed)
    if len(instance) > 4:
        instance = Instance(instance.requests[:4], instance.memory_limit)
    rows = [(q.arrival_time, q.prompt_length, q.output_length) for q in instance]
    result = hindsight.solve(instance, preemptive=True)
    verdict = hindsight.write_certificate(result, tmp_path / "c.json")
    assert verdict.preemptive
    assert (
        verdict.upper_bound == result.upper_bound == preemptive_optimum(rows, instance.memory_limit)
    )
    assert verdict.lower_bound <= result.lower_bound
    if result.proof is not None:
        assert isinstance(result.proof, PreemptivePrices)
        assert verdict.lower_bound >= preemptive_price_bound(instance, result.proof)
    assert check_certificate(read_certificate(tmp_path / "c.json")) == verdict


def test_proofs_of_the_other_optimum_are_not_written() -> None:
    instance = Instance.from_arrays([1, 2], [2, 2], memory_limit=5)
    schedule = Schedule(instance, [0, 2])
    stopping = PreemptiveSchedule.from_schedule(schedule)
    rounds, states = np.zeros((3, 6), dtype=np.int64), np.zeros((2, 6, 6), dtype=np.int64)
    with pytest.raises(InvalidValueError, match="of another optimum"):
        make_certificate(schedule, PreemptivePrices(rounds, 1))
    with pytest.raises(InvalidValueError, match="of another optimum"):
        make_certificate(stopping, StatePrices(states))
    # Prices of a token hold for both.
    prices = MemoryPrices(np.array([1]), 4)
    for shown, kind in ((schedule, "memory-prices"), (stopping, "preemptive-memory-prices")):
        document = make_certificate(shown, prices, search=False, tree=False)
        assert document["proof"]["kind"] == kind
        assert check_certificate(document).upper_bound == schedule.total_latency


def test_a_time_limit_leaves_a_valid_tree() -> None:
    tree = prove_by_windows(HARD, optimal_schedule(HARD), time_limit=0)
    assert tree.leaves >= 1
    assert tree.lower_bound <= optimal_total_latency(HARD)[0]


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
        document = make_certificate(result.schedule, result.proof, tree=False, time_limit=limit)
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


def test_many_requests_get_memory_prices() -> None:
    rng = np.random.default_rng(3)
    instance = Instance.from_arrays(
        rng.integers(1, 60, 1500), rng.integers(1, 200, 1500), memory_limit=4000
    )
    result = hindsight.solve(instance, time_limit=0)
    assert not suits_tree(instance, result.schedule)
    verdict = check_certificate(make_certificate(result.schedule, result.proof))
    assert verdict.kind == "memory-prices"
    assert 0 < verdict.lower_bound <= result.upper_bound


def test_an_infeasible_schedule_gets_no_certificate() -> None:
    with pytest.raises(InvalidValueError, match="infeasible"):
        make_certificate(Schedule(HARD, [0] * len(HARD)))
    with pytest.raises(InvalidValueError, match="not feasible"):
        prove_by_windows(HARD, Schedule(HARD, [0] * len(HARD)))


@pytest.mark.parametrize("seed", sweep(range(30)))
def test_searches_of_solves_prove_the_optimum(seed: int) -> None:
    instance = tiny(seed)
    result = hindsight.solve(instance)
    document = make_certificate(result.schedule, result.proof)
    assert check_certificate(document).is_optimal
    assert document["lower_bound"] == optimal_total_latency(instance)[0]
