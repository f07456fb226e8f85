"""Prices that know a round's length: values of one request from below, and refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import priced_paths
import pytest
from effort import behind
from priced_request import drawn_minorant, priced_values

from hindsight.certificates import priced_values as checker
from hindsight.prices.deadlines import Deadlines
from hindsight.prices.minorants import AffineMinorant, own_seconds
from hindsight.prices.round_lengths import PricedValues, RoundLengthPrices, Shares
from instances import Workload


class Drawn(NamedTuple):
    """A request under prices on a coarse grid, and its deadlines, which may be infinite."""

    request: priced_paths.Request
    due: tuple[float, float]
    grid: checker.Grid
    allowance: float
    value: float


def drawn(seed: int) -> Drawn:
    """A request with its value by the compiled loops."""
    rng = np.random.default_rng([37, seed])
    # No duration is a multiple of a grid step, which floats would round down to the one before.
    more = np.random.default_rng([38, seed])
    least, square = Fraction(int(more.integers(0, 12)), 16), Fraction(int(more.integers(3)), 512)
    coefficients = drawn_minorant(rng)._replace(least=least, square=square)
    minorant = AffineMinorant(*(one * Fraction(4099, 4096) for one in coefficients))
    s, o = int(rng.integers(1, 30)), int(rng.integers(1, 12))
    arrival = float(rng.integers(0, 40)) / 8 + (0.03 if seed % 2 else 0)
    limit = s + o + int(rng.integers(0, 60))
    workload = Workload([arrival, arrival], [s, s], [o, o], memory_limit=limit)
    cell, cells = 2.0 ** int(rng.integers(-1, 2)), int(rng.integers(2, 14))
    step, size = 2.0 ** -int(rng.integers(3, 6)), int(rng.integers(1, 9))
    if seed % 2:
        cell, cells = step, cells * 2
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
    allowance = max(0, cell * cells - arrival) + 15.0
    if seed % 4 == 1:
        allowance *= rng.random()
    deadlines, due = None, (math.inf, math.inf)
    if seed % 3 == 0:
        due = arrival + 10 * rng.random(), arrival + 5 * rng.random()
        if seed % 2 == 0:
            # Hardly later than the end of rounds whose lengths are multiples of 1 / 32 second.
            own = float(own_seconds(*(np.array([k]) for k in (s, o)), *map(float, minorant))[0])
            due = arrival + own + (o + rng.random()) / 32, math.inf
        columns = [[due[0]] * 2, [due[1]] * 2, [np.nan] * 2]
        deadlines = Deadlines(np.array([o, o]), *(np.array(one) for one in columns))
    priced = PricedValues(workload, minorant, prices, step, size, deadlines)
    value = float(priced.of(np.array([0]), np.array([allowance]))[0])
    rest = (1 - gamma) * price
    levy = float(minorant.d0) * rest * attendance / np.maximum(level.sum(axis=0), 1) * level[0]
    rows = np.pad([price, gamma * price, rest * (1 - attendance), levy], ((0, 0), (0, 400)))
    machine = tuple(map(float, minorant))
    request = priced_paths.Request(arrival, s, o, limit, machine, cell, rows)
    width = round(cell / step)
    grid = checker.Grid(minorant, limit, step, width, rows[:3, : cells + 1], size, lambda _: None)
    return Drawn(request, due, grid, allowance, value)


@pytest.mark.parametrize("seed", behind(range(200), 8))
def test_no_path_costs_less_than_the_value(seed: int) -> None:
    case = drawn(seed)
    own = case.request.output * sum(case.request.minorant) * 30
    least = priced_paths.least_cost(case.request, 1 / 32, 24.0 + own, *case.due)
    assert case.value <= least + 1e-9


@pytest.mark.parametrize("seed", behind(range(200), 8))
def test_values_are_those_of_the_checker(seed: int) -> None:
    """The checker computes the same in other code, for all starts of a block at once."""
    case = drawn(seed)
    if case.due[0] < math.inf:
        return
    request, cells = case.request, case.grid.prices.shape[1]
    lengths = request.arrival, request.prompt, request.output
    found = checker.least_cost(case.grid, lengths, request.prices[3, :cells], case.allowance)
    # A lambda may be the best one of several. Starts in one cell share a few in the loops. At a
    # least length, phi* has a kink, so that the ratios of the lambdas count more.
    rel = 0.05 if case.grid.width > 1 else 3e-3 if case.grid.minorant.least else 1e-3
    assert case.value == pytest.approx(float(found), rel=rel)


def test_who_takes_part_in_a_round_pays_for_its_overhead() -> None:
    # The example of the proof: own times give 12, and the optimum is 22: two requests in two rounds
    # of 3 seconds, then the third in two of 2.
    workload = Workload([0.0] * 3, [1] * 3, [2] * 3, memory_limit=100)
    minorant = AffineMinorant(Fraction(1), Fraction(1), Fraction(0))
    eta = [3 * (1 - Fraction(2 * k + 1, 256)) for k in range(128)]
    equal = np.ones(128), Shares(np.zeros(3, dtype=np.int64), np.full(3, 128), np.ones(3 * 128))
    prices = RoundLengthPrices(2.0**-4, np.array(eta, dtype=float), np.zeros(128), equal)
    bound, values = priced_values(workload, minorant, prices, 2.0**-6)
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
