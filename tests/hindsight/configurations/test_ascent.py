"""Dual ascents: gradients, capacities, overflow, and threads that change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn_instances import copies_of
from heaviest_configuration import maximum_weight

import hindsight
from hindsight.configurations.ascent import ConfigurationAscent, TableAscent
from hindsight.configurations.gibbs_kernels import (
    GibbsStates,
    SoftMaxima,
    hard_capacities,
    soft_capacities,
)
from hindsight.configurations.prices import integer_capacities
from hindsight.configurations.tables import ordered_states, state_copies
from hindsight.configurations.warm_start import first_tables
from instances import Instance, InvalidValueError, generate
from instances.arrays import FloatArray, IntArray

LIMIT = 12


def states_of(copies: IntArray) -> GibbsStates:
    m, r, c = (ordered_states(copies)[:, k].copy() for k in range(3))
    return GibbsStates(m, r, c, len(copies) - 1)


def random_states(seed: int, scale: float = 2.0) -> tuple[IntArray, GibbsStates, FloatArray]:
    """States of six random requests at M = 12, and prices for three epochs."""
    rng = np.random.default_rng(seed)
    prompts = rng.integers(1, 4, 6)
    outputs = np.array([int(rng.integers(1, LIMIT - s + 1)) for s in prompts])
    copies = state_copies(prompts, outputs, LIMIT)
    states = states_of(copies)
    return copies, states, rng.random((3, len(states.held))) * scale


def soft(Q: FloatArray, states: GibbsStates, heat: float) -> SoftMaxima:
    """From the hard maxima on, every priced state looked at."""
    level, found = np.zeros((2, len(Q)))
    maxima = SoftMaxima(level, found, np.zeros_like(Q), np.zeros(Q.shape, np.bool_))
    hard_capacities(Q, states, maxima.level, 0, 1)
    soft_capacities(Q, np.zeros_like(Q), states, heat, maxima, True, 0, 1)
    return maxima


@pytest.mark.parametrize("seed", range(5))
def test_marginals_are_the_gradient_and_the_soft_maximum_exceeds_the_hard(seed: int) -> None:
    _, states, Q = random_states(seed)
    base = soft(Q, states, 0.4)
    assert (base.soft >= base.level - 1e-9).all()
    for state in range(len(states.held)):
        change = np.zeros_like(Q)
        change[1, state] = 1e-5
        up, down = soft(Q + change, states, 0.4).soft, soft(Q - change, states, 0.4).soft
        slope = (up - down)[1] / 2e-5
        assert slope == pytest.approx(base.marginals[1, state], abs=1e-5)
    assert soft(Q, states, 0.005).soft == pytest.approx(base.level, abs=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_capacities_agree_with_the_exact_dynamic_program(seed: int) -> None:
    copies, states, Q = random_states(seed)
    Q = np.round(Q * 50)
    capacities = np.zeros(len(Q))
    hard_capacities(Q, states, capacities, 0, 1)
    prices = np.zeros((len(Q), *copies.shape), dtype=np.int64)
    prices[:, states.held, states.rounds] = Q.astype(np.int64)
    for epoch, capacity in enumerate(integer_capacities(prices, copies).tolist()):
        assert maximum_weight(prices[epoch], copies, LIMIT) == capacity == int(capacities[epoch])


@pytest.mark.parametrize("scale", [100.0, 2000.0])
def test_large_prices_do_not_overflow(scale: float) -> None:
    _, states, Q = random_states(3, scale)
    found = soft(Q, states, 0.01)
    assert np.isfinite(found.soft).all()
    assert (found.soft >= found.level - 1e-6 * scale).all()
    assert (found.marginals >= 0).all()
    assert (found.marginals <= states.copies + 1e-6).all()


def ascent_of(
    instance: Instance, epochs: int, threads: int = 1, price: float = 0.0
) -> ConfigurationAscent:
    copies = copies_of(instance)
    prices = np.full((epochs, len(ordered_states(copies))), price)
    return ConfigurationAscent(instance, copies, prices, threads)


def table_ascent(instance: Instance, epochs: int) -> TableAscent:
    copies = copies_of(instance)
    return TableAscent(instance, copies, epochs, first_tables(instance, copies))


def test_epochs_whose_configurations_no_float_counts_keep_their_prices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some hundred requests without prompts may run together in more ways than that."""

    def overflowing(*arguments: Any) -> None:
        soft_capacities(*arguments)
        maxima = arguments[4]
        maxima.marginals[2, 0] = np.nan

    monkeypatch.setattr("hindsight.configurations.ascent.soft_capacities", overflowing)
    ascent = ascent_of(generate("arrival-model-1", 0, n=6), 40, price=0.5)
    ascent.ascend(12)
    assert np.isfinite(ascent.prices).all()
    assert (ascent.prices[2] == 0.5).all()
    assert (ascent.prices[3] != 0.5).any()


def test_threads_do_not_change_a_single_bit() -> None:
    instance = generate("arrival-model-2", seed=1, n=8)
    epochs = int(instance.arrival_times.max() + instance.output_lengths.sum()) + 1
    alone, shared = ascent_of(instance, epochs), ascent_of(instance, epochs, threads=3)
    assert alone.ascend(40) == shared.ascend(40)
    assert (alone.prices == shared.prices).all()
    assert alone.prices.any()


def test_bad_input_is_refused() -> None:
    instance = Instance.from_arrays([1, 1], [2, 2], [0, 5], memory_limit=6)
    for ascent in (ascent_of, table_ascent):
        with pytest.raises(InvalidValueError, match="epochs = 5 .* last arrival 5"):
            ascent(instance, 5)
        with pytest.raises(InvalidValueError, match="iterations = 0"):
            ascent(instance, 6).ascend(0)
    with pytest.raises(InvalidValueError, match="tables"):
        TableAscent(instance, copies_of(instance), 6, [])


@pytest.mark.parametrize("make", [ascent_of, table_ascent])
def test_an_ascent_stops_when_told(make: Any) -> None:
    ascent = make(generate("arrival-model-1", seed=3, n=8), 200)
    asked = iter([False, False, False, True])
    ascent.ascend(10_000, should_stop=lambda: next(asked))
    assert next(asked, None) is None


def test_the_root_bound_is_better_than_that_of_the_plain_relaxation() -> None:
    instance = generate("arrival-model-1", seed=10, n=10)
    result = hindsight.solve(instance)
    plain = hindsight.relax(instance).certified_bound
    assert plain == 329
    assert result.root_bound is not None
    assert plain < result.root_bound <= 380
