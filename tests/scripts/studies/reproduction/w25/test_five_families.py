from __future__ import annotations

import pytest

from instances import Instance, generate
from online import make_policy, simulate
from studies.reproduction.w25.five_families import (
    ALGORITHMS,
    PAPER,
    Row,
    Trial,
    average_row,
    matching_memory,
    spread,
    trial,
)


def row(family: str, requests: int, total: float, bound: float) -> Row:
    return Row(family, requests, dict.fromkeys(ALGORITHMS, total), bound, bound)


def test_a_trial_has_the_totals_of_its_policies_and_bounds_below_them() -> None:
    found = trial(("exponential", 12, 3))
    instance = generate("exponential", seed=3, n=12)
    for name, total in found.totals.items():
        assert total == simulate(instance, make_policy(name)).schedule.total_latency
    assert found.relaxation_bound <= min(found.totals.values())
    assert found.volume_bound <= min(found.totals.values())


def test_averages_and_statements_of_a_row() -> None:
    """[W25] Table EC.1."""
    trials = [
        Trial({"sorted-lp": 4, "lp-swap": 6}, 3, 1),
        Trial({"sorted-lp": 8, "lp-swap": 6}, 5, 2),
    ]
    averages = average_row("uniform", 100, trials)
    assert averages.totals == {"sorted-lp": 6.0, "lp-swap": 6.0}
    assert (averages.relaxation_bound, averages.volume_bound) == (4.0, 1.5)
    near, alike = row("uniform", 100, 9800.0, 9000.0).statements()
    assert near.holds
    assert alike.holds
    assert not row("uniform", 100, 12_000.0, 9000.0).statements()[0].holds
    # At another number of requests levels say nothing.
    assert len(row("uniform", 12, 9800.0, 9000.0).statements()) == 1


def test_figures_below_the_bound_or_above_all_of_ours_are_told_apart() -> None:
    assert row("uniform", 100, 50_000.0, 30_000.0).is_impossible
    assert not row("uniform", 100, 50_000.0, 9700.0).is_impossible
    assert row("exponential", 100, 1500.0, 1400.0).is_high
    assert not row("exponential", 100, 5900.0, 1400.0).is_high
    assert not row("exponential", 12, 1500.0, 1400.0).is_high


def test_the_spread_is_between_largest_and_smallest() -> None:
    assert spread([100.0, 110.0, 105.0]) == pytest.approx(0.1)
    # The largest of the paper's own, which the rule of 3 % is taken from.
    assert max(map(spread, PAPER.values())) == pytest.approx(0.026, abs=5e-4)


def test_the_memory_that_matches_a_total() -> None:
    # Three requests that hold two tokens for one round: M = 2, 4, 6 let one, two, three run.
    instance = Instance.from_arrays([1, 1, 1], [1, 1, 1], memory_limit=9)
    assert matching_memory([instance], 6) == 3
    assert matching_memory([instance], 4) == 5
    assert matching_memory([instance], 7) is None
