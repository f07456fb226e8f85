"""Several replicas in seconds: bounds by hand, certificates, and annealing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hindsight
from hindsight.prices.machines import machine_bounds
from hindsight.runtime.clock import never
from hindsight.schedules.keys import KeySearch
from instances import (
    FleetSchedule,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    SecondsSchedule,
    Workload,
    generate,
)
from instances.batch_time import preset
from online import AffineTime

FULL = AffineTime(1.0, 0.5, 0.25)
"""With it a prompt of 3 and one token fill a memory of 4 for 3.5 seconds."""


def test_two_machines_serve_two_full_caches_at_once() -> None:
    one = Workload([0.0] * 3, [3] * 3, [1] * 3, memory_limit=4, batch_time=FULL)
    totals = {K: hindsight.solve(one.replaced(replicas=K), time_limit=0.2) for K in (1, 2, 3, 5)}
    expected = {1: Fraction(21), 2: Fraction(14), 3: Fraction(21, 2), 5: Fraction(21, 2)}
    assert {K: found.upper_bound for K, found in totals.items()} == expected
    bounds = machine_bounds(one.replaced(replicas=2), FULL)
    # A machine of twice the speed is done after 1.75, 3.5 and 5.25 seconds.
    assert bounds["one machine"] == Fraction(21, 2)
    # The moment of each is that of its own round, half of 3.5 seconds.
    least = Fraction(3, 2) * Fraction(7, 2) + sum(Fraction(7, 8) * k for k in (1, 3, 5))
    assert least - Fraction(1, 2**58) < bounds["mean busy times"] <= least


@pytest.mark.parametrize("rule", [None, MemoryRule(16, "next", "chunks")])
def test_a_fleet_is_solved_and_certified(rule: MemoryRule | None) -> None:
    rng = np.random.default_rng(2)
    s, o = rng.integers(20, 120, 16), rng.integers(5, 20, 16)
    time = preset("llama-2-70b-2xa100").batch_time
    fleet = Workload(np.zeros(16), s, o, memory_limit=300, replicas=3, batch_time=time)
    fleet = fleet if rule is None else fleet.replaced(memory_rule=rule)
    result = hindsight.relax(fleet, threads=2)
    assert result.best_bound == "round-length prices"
    assert result.lower_bound > result.bounds["own time"].value
    assert result.gap < 0.2
    assert (result.schedule.problem, result.certified) == (fleet, True)
    assert "replicas=3" in repr(result)
    document = hindsight.make_certificate(result.schedule, result.proof)
    verdict = hindsight.check_certificate(document)
    assert verdict.digest == fleet.digest
    assert 0.99 * float(result.lower_bound) <= verdict.lower_bound <= float(result.upper_bound)
    # The same prices prove less of more replicas, and the digest is not theirs.
    document["instance"]["replicas"] = 4
    with pytest.raises(hindsight.CertificateError, match="digest"):
        hindsight.check_certificate(document)
    document["instance"]["digest"] = fleet.replaced(replicas=4).digest
    with pytest.raises(hindsight.CertificateError, match="proves no more than"):
        hindsight.check_certificate(document)


def test_annealing_is_deterministic_and_starts_are_taken() -> None:
    time = preset("llama-2-70b-2xa100").batch_time
    fleet = generate("conversations", 1, n=30, rate=100).replaced(replicas=2, batch_time=time)

    def found() -> list[SecondsSchedule | FleetSchedule]:
        keys = KeySearch(fleet, 5)
        keys.open(never)
        first = keys.schedule()
        return [first, *(keys.schedule() for _ in keys.anneal(lambda: keys.cycle > 0))]

    schedules = found()
    assert schedules == found()
    best = schedules[-1]
    assert best.total_latency < schedules[0].total_latency
    result = hindsight.solve(fleet, start=best, progress=lambda _: True)
    assert result.upper_bound <= Fraction(best.total_latency) * (1 + Fraction(1, 10**9))
    alone = hindsight.solve(fleet.alone(), progress=lambda _: True)
    with pytest.raises(InvalidTypeError, match="is not a FleetSchedule"):
        hindsight.solve(fleet, start=alone.schedule)
    with pytest.raises(InvalidValueError, match="another workload or batch time"):
        hindsight.solve(fleet.replaced(batch_time=FULL), start=best)
