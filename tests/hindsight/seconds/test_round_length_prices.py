"""Prices that know a round's length, against the exhaustive search in fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from seconds_cases import drawn_workload, exhaustive_optimum

from hindsight.seconds.minorants import AffineMinorant
from hindsight.seconds.round_length_prices import RoundLengthPrices, priced_bound, round_down
from instances import InvalidValueError, Workload


@pytest.mark.parametrize("seed", range(16))
def test_no_priced_bound_is_above_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    workload = drawn_workload(rng, (1, 4), 3, seed % 2 == 1)
    n = len(workload)
    # Steps of no power of two: lengths of rounds off the grid.
    minorant = AffineMinorant(
        Fraction(int(rng.integers(1, 9)), 7),
        Fraction(int(rng.integers(0, 5)), 11),
        Fraction(int(rng.integers(0, 5)), 33),
    )
    best = exhaustive_optimum(workload, minorant, states=4_000)
    if best is None:
        pytest.skip("too many states")
    for trial in range(12):
        step = 2.0 ** -int(rng.integers(1, 6))
        cells = int(rng.uniform(2, 25) / step) + 1
        scale = n * float(rng.choice([0.1, 0.3, 1, 2, 4])) * step
        falling = np.linspace(1, 0, cells)
        shape = (rng.random(cells), falling, np.full(cells, 0.5), falling**3)[trial % 4]
        rows = int(rng.integers(1, 6))
        prices = RoundLengthPrices(
            step,
            round_down(scale * shape),
            np.arange(cells, dtype=np.int64) * rows // cells,
            rng.random(rows) if trial % 3 else np.full(rows, float(trial % 2)),
        )
        allowance = None if trial % 2 else np.full(n, rng.uniform(0, 8))
        bound, _ = priced_bound(workload, minorant, prices, allowance, rng.uniform(0, 3))
        assert bound.total <= best


def test_one_request_without_prices_takes_its_own_time() -> None:
    workload = Workload([0.3], [3], [2], memory_limit=5)
    minorant = AffineMinorant(Fraction(1, 2), Fraction(1, 4), Fraction(1, 8))
    prices = RoundLengthPrices(0.125, np.zeros(80), np.zeros(80, dtype=np.int64), np.array([0.25]))
    bound, values = priced_bound(workload, minorant, prices)
    assert values == pytest.approx([3.125])
    assert bound.total <= Fraction(25, 8)


def test_a_full_round_pays_the_price_of_its_time() -> None:
    # It fills the cache in its only round of 3.5 seconds, and waiting for free time takes longer.
    workload = Workload([0.0], [3], [1], memory_limit=4)
    minorant = AffineMinorant(Fraction(1), Fraction(1, 2), Fraction(1, 4))
    step = 2.0**-6
    cells = int(7 / step)
    prices = RoundLengthPrices(
        step, np.full(cells, step), np.zeros(cells, dtype=np.int64), np.array([1.0])
    )
    _, values = priced_bound(workload, minorant, prices)
    assert 6.9 < values[0] <= 7


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("step", {"step": 0.3}),
        ("price", {"price": np.array([0.1, 0.1])}),
        ("price", {"price": np.array([-1.0, 1.0])}),
        ("row", {"row": np.array([1, 0])}),
        ("gamma", {"gamma": np.array([0.5, 1.5])}),
    ],
)
def test_prices_that_would_break_the_proof_are_refused(field: str, change: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "step": 0.25,
        "price": np.array([1.0, 0.5]),
        "row": np.array([0, 1]),
        "gamma": np.array([0.5, 0.5]),
    }
    RoundLengthPrices(**given)
    with pytest.raises(InvalidValueError, match=field):
        RoundLengthPrices(**{**given, **change})
