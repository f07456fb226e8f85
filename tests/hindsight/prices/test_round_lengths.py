"""Prices that know a round's length: values of one request from below, and refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import round_length_values
from effort import behind
from priced_request import drawn_minorant, priced_values
from round_length_values import Case

from hindsight.prices.deadlines import Deadlines
from hindsight.prices.minorants import AffineMinorant
from hindsight.prices.round_lengths import PricedValues, RoundLengthPrices, Shares
from instances import InvalidValueError, Workload

ODD = Fraction(4099, 4096)


def drawn(seed: int) -> tuple[Case, float]:
    """A request under prices on a coarse grid, its value by the compiled loops, and own time."""
    rng = np.random.default_rng([37, seed])
    minorant = drawn_minorant(rng)
    # Where rounds have no work, or last a round number of steps, the best lambda is a tie, which
    # floats break either way.
    d2 = minorant.d2 if minorant.d1 else minorant.d2 or Fraction(1, 256)
    minorant = minorant._replace(d1=minorant.d1 * ODD, d2=d2 * ODD)
    s, o = int(rng.integers(1, 30)), int(rng.integers(1, 12))
    arrival = float(rng.integers(0, 40)) / 8 + (0.03 if seed % 2 else 0)
    limit = s + o + int(rng.integers(0, 60))
    workload = Workload([arrival, arrival], [s, s], [o, o], memory_limit=limit)
    cell, cells = 2.0 ** int(rng.integers(-1, 2)), int(rng.integers(2, 14))
    falling = np.linspace(1, 0, cells) * (1 + 0.3 * rng.random(cells))
    price = float(rng.choice([0.1, 1, 10, 50])) * (falling if seed % 2 else rng.random(cells))
    gamma, attendance = rng.random((2, cells)) * (seed % 5 != 0)
    begins, ends = np.sort(rng.integers(0, cells + 1, (2, 2)), axis=0)
    attendance *= seed % 4 != 0
    level = rng.integers(0, 9, (2, cells)).astype(float)
    level *= (np.arange(cells) >= begins[:, None]) & (np.arange(cells) < ends[:, None])
    listed = [row[one:last] for row, one, last in zip(level, begins, ends, strict=True)]
    shares = Shares(begins, ends, np.concatenate(listed))
    prices = RoundLengthPrices(cell, price, gamma, (attendance, shares))
    step, size = 2.0 ** -int(rng.integers(2, 4)), int(rng.integers(1, 9))
    spread = float(rng.choice([1.1, 1.3, 2.0]))
    allowance = max(0, cell * cells - arrival) + 15.0
    if seed % 4 == 1:
        allowance *= rng.random()
    deadlines, due = None, (None, None)
    if seed % 3 == 0:
        end, first = arrival + 10 * rng.random(), arrival + 5 * rng.random()
        due = Fraction(end), Fraction(first) if seed % 2 else None
        columns = [[end] * 2, [first if seed % 2 else math.inf] * 2, [np.nan] * 2]
        deadlines = Deadlines(np.array([o, o]), *(np.array(one) for one in columns))
    priced = PricedValues(workload, minorant, prices, step, size, spread, deadlines)
    value = float(priced.of(np.array([0]), np.array([allowance]))[0])
    rest = (1 - gamma) * price
    levy = float(minorant.d0) * rest * attendance / np.maximum(level.sum(axis=0), 1) * level[0]
    columns = (price, gamma * price, rest * (1 - attendance), levy)
    case = Case(
        Fraction(arrival),
        s,
        o,
        workload.memory_limit,
        (minorant.d0, minorant.d1, minorant.d2),
        Fraction(cell),
        [tuple(map(Fraction, one)) for one in zip(*(k.tolist() for k in columns), strict=True)],
        Fraction(step),
        size,
        spread,
        allowance,
        *due,
    )
    return case, value


# By the numbered proof the value of seed 0 takes two seconds.
@pytest.mark.parametrize("seed", behind([*range(1, 200), 0], 8))
def test_values_are_those_of_the_numbered_proof_rounded_down(seed: int) -> None:
    case, value = drawn(seed)
    exact = round_length_values.value(case)
    if case.end is None:
        blocks = round_length_values.blocks_of(case)
        exact = max(exact, sum((block.own for block in blocks), Fraction(0)))
    least = case.arrival if case.end is None else Fraction(1)
    assert Fraction(value) <= max(exact, Fraction(0))
    # Twice `ROUNDING`, and next to nothing for the sums of tangents.
    assert float(Fraction(value) - exact) >= -3e-8 * float(abs(exact) + least)


def test_who_takes_part_in_a_round_pays_for_its_overhead() -> None:
    # The example of the proof: own times give 12, and the optimum is 22: two requests in two rounds
    # of 3 seconds, then the third in two of 2.
    workload = Workload([0.0] * 3, [1] * 3, [2] * 3, memory_limit=100)
    minorant = AffineMinorant(Fraction(1), Fraction(1), Fraction(0))
    eta = [3 * (1 - Fraction(2 * k + 1, 256)) for k in range(128)]
    equal = np.ones(128), Shares(np.zeros(3, dtype=np.int64), np.full(3, 128), np.ones(3 * 128))
    prices = RoundLengthPrices(2.0**-4, np.array(eta, dtype=float), np.zeros(128), equal)
    bound, values = priced_values(workload, minorant, prices, 2.0**-6, spread=1.05)
    # Two rounds of 2 seconds each, at once: w = 1 and mu_i = eta / 3.
    possible = 4 + Fraction(4, 3) * sum(eta[:64]) / 16 / 2
    assert (possible, prices.integral) == (10, 12)
    assert max(values) <= possible
    assert 17.7 < bound <= 3 * possible - 12


@pytest.mark.parametrize(
    ("d0", "output", "step", "eta", "least", "possible"),
    [
        # The last of three rounds begins at 4; the others pay 1 and 4. If durations are skipped in
        # spite of the late fall of the price, the value is above 9.8.
        (0.25, 3, 1 / 16, ([0.0, 16, 20, 0, 20], [3, 5, 56, 4, 188]), 9.24, 1 + 4 + 4.25),
        # Both rounds are in the free second. If durations are skipped that lower a value only at
        # the last end of a group, the value is above 16.
        (0.4375, 2, 1.0, ([50.0, 0, 50], [8, 1, 55]), 8.12, 8 + 2 * 0.4375),
    ],
)
def test_durations_that_lower_a_value_are_not_skipped(
    d0: float,
    output: int,
    step: float,
    eta: tuple[list[float], list[int]],
    least: float,
    possible: float,
) -> None:
    price = np.repeat(*eta)
    prices = RoundLengthPrices(step, price, 0 * price, (price**0, shares(0, price.size, *price**0)))
    minorant = AffineMinorant(Fraction(d0), Fraction(0), Fraction(0))
    workload = Workload([0.0], [3], [output], memory_limit=1000)
    _, values = priced_values(workload, minorant, prices, step)
    assert least < values[0] <= possible


def shares(first: int, after: int, *levels: float) -> Shares:
    return Shares(np.array([first]), np.array([after]), np.array(levels, dtype=float))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("cell", {"cell": 0.3}),
        ("price", {"price": np.array([0.1, math.inf])}),
        ("gamma", {"gamma": np.array([0.5, 1.5])}),
        ("participation", {"participation": (np.array([0.5, 1.5]), shares(0, 1, 1))}),
        ("participation", {"participation": (np.ones(2), shares(0, 1, 0.5))}),
        ("participation", {"participation": (np.ones(2), shares(0, 1, 1, 1))}),
        ("participation", {"participation": (np.ones(2), shares(2, 3, 1))}),
    ],
)
def test_prices_that_would_break_the_proof_are_refused(field: str, change: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "cell": 0.25,
        "price": np.array([1.0, 0.5]),
        "gamma": np.array([0.5, 0.5]),
    }
    RoundLengthPrices(**given)
    with pytest.raises(InvalidValueError, match=field):
        RoundLengthPrices(**{**given, **change})


@pytest.mark.parametrize("step", [0.3, 0.5, 0.0])
def test_a_grid_that_would_break_the_proof_is_refused(step: float) -> None:
    workload = Workload([0.0], [3], [1], memory_limit=4)
    minorant = AffineMinorant(Fraction(1, 4), Fraction(0), Fraction(0))
    prices = RoundLengthPrices(0.25, np.ones(2), np.ones(2))
    with pytest.raises(InvalidValueError, match="step"):
        priced_values(workload, minorant, prices, step)


def test_arrivals_without_a_place_on_the_grid_are_refused() -> None:
    workload = Workload([1e18], [1], [2], memory_limit=3)
    minorant = AffineMinorant(Fraction(1, 4), Fraction(0), Fraction(0))
    prices = RoundLengthPrices(0.5, np.ones(1), np.ones(1))
    with pytest.raises(InvalidValueError, match="arrival_times"):
        PricedValues(workload, minorant, prices, 0.125)
