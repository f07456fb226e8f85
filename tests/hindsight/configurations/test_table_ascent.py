"""Dual ascent: every iterate is a bound, with or without repricing."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import columns_of, copies_of, four_requests
from effort import sweep

from hindsight.configurations.prices import exact_bound
from hindsight.configurations.table_ascent import DualAscent
from hindsight.configurations.tables import (
    ConfigurationCut,
    core_table,
    lift,
    memory_table,
)
from instances import Instance


def prepared(instance: Instance, epochs: int = 20) -> DualAscent:
    limit = instance.memory_limit
    copies = copies_of(instance)
    tables = [memory_table(limit), core_table(1, limit), core_table(2, limit)]
    lifted = [
        ConfigurationCut(lift(t.coefficients, t.capacity, copies, limit), t.capacity)
        for t in tables
    ]
    return DualAscent(*columns_of(instance), copies, epochs, lifted)


def bound_of(instance: Instance, dual: DualAscent, prices: np.ndarray) -> int:
    return exact_bound(prices, *columns_of(instance), instance.memory_limit, dual.copies)


@pytest.mark.parametrize("seed", sweep(range(25)))
def test_bounds_stay_below_the_optimum_and_agree_with_integers(seed: int) -> None:
    instance = four_requests(seed)
    optimum, _ = optimal_total_latency(instance)
    dual = prepared(instance, epochs=int(6 + seed))
    values = [dual.ascend(60, (3.0, 0.1), (0.5, 0.02)), dual.ascend(60, (0.5, 0.1), (0.1, 0.01))]
    assert max(values) <= optimum + 1e-6
    assert dual.best_bound == max(values)
    exact = bound_of(instance, dual, dual.best_epoch_prices()[0])
    assert int(np.ceil(dual.best_bound - 1e-2)) <= exact <= optimum


def test_adding_keeps_the_best() -> None:
    dual = prepared(four_requests(3))
    dual.ascend(60, (3.0, 0.1), (0.5, 0.02))
    best = dual.best_bound
    dual.add([core_table(1, four_requests(3).memory_limit)])
    dual.ascend(5, (3.0, 3.0), (0.5, 0.5))
    assert dual.best_bound >= best
    assert len(dual.best[0]) == len(dual.best[1])


def test_masses_add_up_and_stopping_is_immediate() -> None:
    instance = four_requests(5)
    dual = prepared(instance, epochs=60)
    asked = []
    dual.ascend(500, (3.0, 0.1), (0.5, 0.02), lambda: bool(asked.append(1)) or len(asked) > 3)
    assert len(asked) == 4
    # Every request is active for o epochs.
    assert dual.masses().sum() == pytest.approx(float(instance.output_lengths.sum()), rel=1e-6)


def test_bad_input_is_refused() -> None:
    instance = Instance.from_arrays([1], [2], [5], memory_limit=4)
    with pytest.raises(ValueError, match="epochs = 5"):
        prepared(instance, epochs=5)
    with pytest.raises(ValueError, match="iterations = 0"):
        prepared(instance, epochs=6).ascend(0, (1.0, 0.1), (0.1, 0.01))
    with pytest.raises(ValueError, match="tables"):
        DualAscent(*columns_of(instance), copies_of(instance), 6, [])
