"""What the router and the schedulers lose, against every routing of tiny fleets."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from seconds_cases import drawn_workload, exhaustive_optimum

from instances import Instance, Workload
from instances.batch_time import AffineTime
from online import Interval
from online.comparison.blame import Blame, blame

TIME = AffineTime(0.5, 0.125, 0.0625)


def optima(workload: Workload) -> dict[tuple[int, ...], Fraction]:
    """The least total latency of every set of requests on one replica."""
    everybody = range(len(workload))
    sets = [one for n in everybody for one in itertools.combinations(everybody, n + 1)]
    known = {one: exhaustive_optimum(workload.alone(np.array(one)), TIME) for one in sets}
    return {(): Fraction(0), **{one: total for one, total in known.items() if total is not None}}


def parts_of(chosen: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [tuple(i for i, k in enumerate(chosen) if k == replica) for replica in range(2)]


def around(value: Fraction, rng: np.random.Generator) -> Interval:
    """An interval that holds it; sometimes an end is not known."""
    below, above = (Fraction(int(one), 8) for one in rng.integers(0, 4, 2))
    lower = None if rng.random() < 0.1 else value - below
    return Interval(lower, None if rng.random() < 0.1 else value + above)


@pytest.mark.parametrize("seed", range(6))
def test_each_interval_holds_the_true_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    workload = drawn_workload(rng, (3, 5), 4, seed % 2 == 1)
    known, n = optima(workload), len(workload)
    totals = {
        chosen: sum((known[part] for part in parts_of(chosen)), Fraction(0))
        for chosen in itertools.product(range(2), repeat=n)
    }
    best = min(totals.values())
    for chosen, assigned in totals.items():
        parts = [known[part] for part in parts_of(chosen) if part]
        measured = assigned + Fraction(int(rng.integers(0, 8)), 4)
        exact = Blame.of(measured, [Interval(one, one) for one in parts], Interval(best, best), n)
        assert exact.router_loss == Interval(assigned - best, assigned - best)
        assert exact.scheduler_loss == Interval(measured - assigned, measured - assigned)
        assert exact.saving == Interval(measured - best, measured - best)
        for _ in range(5):
            loose = Blame.of(measured, [around(one, rng) for one in parts], around(best, rng), n)
            for interval, loss in (
                (loose.router_loss, assigned - best),
                (loose.scheduler_loss, measured - assigned),
                (loose.saving, measured - best),
            ):
                assert interval.lower is not None
                assert 0 <= interval.lower <= loss
                assert interval.upper is None or loss <= interval.upper
            assert not loose.contradicts
            assert loose.mean.saving == loose.saving.times(Fraction(1, n))


def interval(low: int | None, high: int | None) -> Interval:
    return Interval.between(low, high)


def test_what_is_known_of_the_parts_and_of_the_fleet_tightens_both() -> None:
    found = Blame.of(20, [interval(3, 5), interval(2, 6)], interval(8, 15), 4)
    assert (found.assigned, found.best) == (interval(8, 11), interval(8, 11))
    assert (found.router_loss, found.scheduler_loss) == (interval(0, 3), interval(9, 12))
    assert found.saving == interval(9, 12)


def test_a_log_that_is_faster_than_the_batch_time_allows_shows_no_losses_of_schedulers() -> None:
    found = Blame.of(4, [interval(3, 5), interval(2, 6)], interval(4, 9), 4)
    assert found.contradicts
    assert found.scheduler_loss == interval(-7, -1)


def test_a_rounding_below_the_least_possible_is_no_contradiction() -> None:
    found = Blame.of(9.999999999999998, [interval(10, 10)], interval(8, 8), 4)
    assert not found.contradicts
    assert found.scheduler_loss == interval(0, 0)


def test_blame_in_rounds() -> None:
    """Three requests that fit one at a time: two replicas need one round for two of them."""
    instance = Instance.from_arrays([3, 3, 3], [2, 2, 2], memory_limit=5, replicas=2)
    found = blame(instance, [0, 0, 0], 14)
    # One after another: 2 + 4 + 6 rounds; on two replicas 2 + 2 + 4.
    assert (found.router_loss, found.scheduler_loss) == (interval(4, 4), interval(2, 2))
    assert found.mean.saving == Interval(Fraction(2), Fraction(2))
