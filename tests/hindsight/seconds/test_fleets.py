"""Several replicas in seconds, against the best of all assignments by the exhaustive search."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from effort import sweep
from seconds_cases import drawn_workload, exhaustive_optimum, replayed_total

import hindsight
from hindsight.runtime.clock import never
from hindsight.seconds import solving
from hindsight.seconds.fleet_orders import FleetOrders
from hindsight.seconds.machine_bounds import first_token_bounds, machine_bounds
from hindsight.seconds.minorants import AffineMinorant
from hindsight.seconds.partitions import least_division
from hindsight.seconds.results import Preemption
from hindsight.seconds.round_length_prices import RoundLengthPrices, priced_bound
from instances import (
    FleetSchedule,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    Workload,
    generate,
)
from instances.batch_time import LLAMA_2_70B_2XA100, AffineTime

FULL = AffineTime(1.0, 0.5, 0.25)
"""With it a prompt of 3 and one token fill a memory of 4 for 3.5 seconds."""


def tiny(seed: int) -> tuple[Workload, AffineTime]:
    """Two to four requests on two or three replicas."""
    rng = np.random.default_rng(seed)
    workload = drawn_workload(rng, (2, 5), 3, seed % 3 > 0).with_replicas(2 + seed % 2)
    d0, d1, d2 = rng.integers(1, 9) / 8, rng.integers(0, 9) / 16, rng.integers(0, 5) / 32
    return workload, AffineTime(float(d0), float(d1), float(d2))


def least_total(fleet: Workload, time: Any, **options: Any) -> Fraction | None:
    """Try every assignment; None where a machine has too many states."""
    columns = fleet.arrival_times, fleet.prompt_lengths, fleet.output_lengths
    rows = list(zip(*(one.tolist() for one in columns), strict=True))
    found: dict[tuple[int, ...], Fraction | None] = {(): Fraction(0)}
    totals = []
    for assignment in itertools.product(range(fleet.replicas), repeat=len(rows)):
        total = Fraction(0)
        for replica in range(fleet.replicas):
            own = tuple(i for i, one in enumerate(assignment) if one == replica)
            if own not in found:
                a, s, o = zip(*(rows[i] for i in own), strict=True)
                machine = Workload(a, s, o, memory_limit=fleet.memory_limit)
                found[own] = exhaustive_optimum(machine, time, **options)
            best = found[own]
            if best is None:
                return None
            total += best
        totals.append(total)
    return min(totals)


@pytest.mark.parametrize("seed", sweep(range(200), one_in=10))
def test_no_bound_is_above_the_best_assignment(seed: int) -> None:
    fleet, time = tiny(seed)
    first = least_total(fleet, time, states=4_000, first_tokens=True)
    assert first is not None
    assert all(bound.total <= first for bound in first_token_bounds(fleet, time).values())
    best = least_total(fleet, time, states=4_000, keeps=True)
    if best is None:
        pytest.skip("too many states")
    assert all(bound.total <= best for bound in machine_bounds(fleet, time).values())
    rng = np.random.default_rng(seed)
    minorant = AffineMinorant(*map(Fraction, (time.d0, time.d1, time.d2)))
    for trial in range(8):
        step = 2.0 ** -int(rng.integers(4, 7))
        cells = int(rng.uniform(2, 20) / (4 * step)) + 1
        scale = len(fleet) / fleet.replicas * float(rng.choice([0.1, 0.3, 1, 2]))
        shape = (rng.random(cells), np.linspace(1, 0, cells))[trial % 2]
        prices = RoundLengthPrices(4 * step, scale * shape, rng.random(cells))
        bound, values = priced_bound(fleet, minorant, prices, step)
        assert bound.total <= best
        paid = fleet.replicas * Fraction(4 * step) * sum(map(Fraction, prices.price.tolist()))
        assert bound.total == sum(map(Fraction, values.tolist())) - paid


@pytest.mark.parametrize("seed", sweep(range(100), one_in=10))
def test_few_requests_are_proved_and_the_optimum_is_that_of_all_assignments(seed: int) -> None:
    fleet, time = tiny(seed)
    preemption: Preemption = "recompute" if seed % 2 else "keep"
    best = least_total(fleet, time, keeps=preemption == "keep")
    result = hindsight.solve(fleet, 10, 1, batch_time=time, preemption=preemption)
    schedule = result.schedule
    assert isinstance(schedule, FleetSchedule)
    assert schedule.is_feasible
    assert result.upper_bound == sum(replayed_total(one, time) for one in schedule.machines)
    assert result.status == "optimal"
    assert result.certified
    if best is not None:
        assert result.lower_bound == best == result.upper_bound


def test_two_machines_serve_two_full_caches_at_once() -> None:
    one = Workload([0.0] * 3, [3] * 3, [1] * 3, memory_limit=4)
    totals = {K: hindsight.solve(one.with_replicas(K), batch_time=FULL) for K in (1, 2, 3, 5)}
    expected = {1: Fraction(21), 2: Fraction(14), 3: Fraction(21, 2), 5: Fraction(21, 2)}
    assert {K: found.lower_bound for K, found in totals.items()} == expected
    assert {K: found.upper_bound for K, found in totals.items()} == expected
    bounds = machine_bounds(one.with_replicas(2), FULL)
    # A machine of twice the speed is done after 1.75, 3.5 and 5.25 seconds.
    assert bounds["one machine"].total == Fraction(21, 2)
    # The moment of each is that of its own round, half of 3.5 seconds.
    least = Fraction(3, 2) * Fraction(7, 2) + sum(Fraction(7, 8) * k for k in (1, 3, 5))
    assert least - Fraction(1, 2**58) < bounds["mean busy times"].total <= least


def test_one_machine_with_the_memory_of_all_is_no_relaxation() -> None:
    fleet = Workload([0.0, 0.0], [3, 3], [1, 1], memory_limit=4, replicas=2)
    pooled = Workload([0.0, 0.0], [3, 3], [1, 1], memory_limit=8)
    best = hindsight.solve(fleet, batch_time=FULL).upper_bound
    assert machine_bounds(pooled, FULL)["mean busy times"].total > best


@pytest.mark.parametrize("rule", [None, MemoryRule(16, "next", "chunks")])
def test_a_fleet_is_solved_and_certified(rule: MemoryRule | None) -> None:
    rng = np.random.default_rng(2)
    s, o = rng.integers(20, 120, 16), rng.integers(5, 20, 16)
    fleet = Workload(np.zeros(16), s, o, memory_limit=300, replicas=3)
    fleet = fleet if rule is None else fleet.under(rule)
    time = LLAMA_2_70B_2XA100.batch_time
    result = hindsight.relax(fleet, batch_time=time, threads=2)
    assert result.best_bound == "round-length prices"
    assert result.lower_bound > result.lower_bounds["own time"].total
    assert result.gap < 0.2
    assert (result.schedule.problem, result.certified) == (fleet, True)
    assert "replicas=3" in repr(result)
    assert "replicas" in result._repr_html_()
    document = hindsight.make_certificate(result.schedule, result.proof)
    verdict = hindsight.check_certificate(document)
    assert verdict.digest == fleet.digest
    assert 0.99 * float(result.lower_bound) <= verdict.lower_bound <= float(result.upper_bound)
    # The same prices prove less of more replicas, and the digest is not theirs.
    document["instance"]["replicas"] = 4
    with pytest.raises(hindsight.CertificateError, match="digest"):
        hindsight.check_certificate(document)
    document["instance"]["digest"] = fleet.with_replicas(4).digest
    with pytest.raises(hindsight.CertificateError, match="proves no more than"):
        hindsight.check_certificate(document)


def test_annealing_is_deterministic_and_starts_are_taken() -> None:
    fleet = generate("conversations", 1, n=30, rate=100).with_replicas(2)
    time = LLAMA_2_70B_2XA100.batch_time

    def found() -> list[FleetSchedule]:
        orders = FleetOrders(fleet, time, 5)
        first = orders.openings(never)
        return [first, *orders.anneal(lambda: orders.cycle > 0)]

    schedules = found()
    assert schedules == found()
    best = schedules[-1]
    assert best.total_latency < schedules[0].total_latency
    result = hindsight.solve(fleet, batch_time=time, start=best, should_stop=lambda: True)
    assert result.upper_bound <= Fraction(best.total_latency) * (1 + Fraction(1, 10**9))
    alone = hindsight.solve(fleet.alone(), batch_time=time, should_stop=lambda: True)
    with pytest.raises(InvalidTypeError, match="is not a FleetSchedule"):
        hindsight.solve(fleet, batch_time=time, start=alone.schedule)
    with pytest.raises(InvalidValueError, match="another workload or batch time"):
        hindsight.solve(fleet, batch_time=FULL, start=best)


def test_the_best_division_is_that_of_all_divisions() -> None:
    rng = np.random.default_rng(0)
    values = {chosen: Fraction(int(rng.integers(1, 100))) for chosen in range(1, 32)}
    for machines in (1, 2, 3, 7):
        totals = [
            sum(values[sum(1 << i for i in range(5) if where[i] == k)] for k in {*where})
            for where in itertools.product(range(min(machines, 5)), repeat=5)
        ]
        total, division = least_division(values, 5, machines)
        assert total == min(totals) == sum(values[one] for one in division)
        assert sum(division) == 31


def test_no_set_of_requests_is_searched_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    begin = solving._Search.begin

    def counted(search: Any) -> None:
        searched.append(search)
        begin(search)

    monkeypatch.setattr(solving._Search, "begin", counted)
    fleet = Workload([0.0] * 7, [5] * 7, [30 + k for k in range(7)], memory_limit=99, replicas=2)
    found = hindsight.solve(fleet, 0.0, batch_time=FULL)
    assert found.lower_bound <= found.upper_bound
    assert len(searched) == 1
