"""Configuration prices: gradients, capacities, and bounds that never exceed the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import columns_of, copies_of, drawn_instance
from effort import sweep

import hindsight
from hindsight.configurations.ascent import ConfigurationAscent
from hindsight.configurations.gibbs_configurations import hard_capacities, soft_capacities
from hindsight.configurations.prices import exact_bound, integer_capacities
from hindsight.configurations.tables import maximum_weight, ordered_states, state_copies
from instances import Instance, InvalidValueError, generate

LIMIT = 12


def random_states(seed: int, scale: float = 2.0):
    """States of six random requests at M = 12, and prices for three epochs."""
    rng = np.random.default_rng(seed)
    prompts = rng.integers(1, 4, 6)
    outputs = np.array([int(rng.integers(1, LIMIT - s + 1)) for s in prompts])
    copies = state_copies(prompts, outputs, LIMIT)
    states = ordered_states(copies)
    m, r, c = (np.ascontiguousarray(states[:, column]) for column in range(3))
    return copies, m, r, c, rng.random((3, len(m))) * scale


def soft(Q, m, r, c, heat: float):
    z, out, level = np.zeros_like(Q), np.zeros(len(Q)), np.zeros(len(Q))
    hard_capacities(Q, m, r, c, LIMIT, level, 0, 1)
    nothing, seldom = np.zeros_like(Q), np.zeros(Q.shape, dtype=np.bool_)
    soft_capacities(Q, nothing, seldom, m, r, c, LIMIT, heat, level, z, out, True, 0, 1)
    return out, z, level


@pytest.mark.parametrize("seed", range(5))
def test_marginals_are_the_gradient_and_the_soft_maximum_exceeds_the_hard(seed: int) -> None:
    _, m, r, c, Q = random_states(seed)
    base, z, hard = soft(Q, m, r, c, 0.4)
    assert (base >= hard - 1e-9).all()
    for state in range(len(m)):
        up, down = Q.copy(), Q.copy()
        up[1, state] += 1e-5
        down[1, state] -= 1e-5
        slope = (soft(up, m, r, c, 0.4)[0][1] - soft(down, m, r, c, 0.4)[0][1]) / 2e-5
        assert slope == pytest.approx(z[1, state], abs=1e-5)
    cold = soft(Q, m, r, c, 0.005)[0]
    assert cold == pytest.approx(hard, abs=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_capacities_agree_with_the_exact_dynamic_program(seed: int) -> None:
    copies, m, r, c, Q = random_states(seed)
    Q = np.round(Q * 50)
    capacities = np.zeros(len(Q))
    hard_capacities(Q, m, r, c, LIMIT, capacities, 0, 1)
    prices = np.zeros((len(Q), *copies.shape), dtype=np.int64)
    prices[:, m, r] = Q.astype(np.int64)
    for epoch, capacity in enumerate(integer_capacities(prices, copies).tolist()):
        assert maximum_weight(prices[epoch], copies, LIMIT) == capacity == int(capacities[epoch])


@pytest.mark.parametrize("scale", [100.0, 2000.0])
def test_large_prices_do_not_overflow(scale: float) -> None:
    _, m, r, c, Q = random_states(3, scale)
    out, z, hard = soft(Q, m, r, c, 0.01)
    assert np.isfinite(out).all()
    assert np.isfinite(z).all()
    assert (out >= hard - 1e-6 * scale).all()
    assert (z >= 0).all()
    assert (z <= c + 1e-6).all()


def ascent_of(instance: Instance, epochs: int, threads: int = 1) -> ConfigurationAscent:
    copies = copies_of(instance)
    prices = np.zeros((epochs, len(ordered_states(copies))))
    return ConfigurationAscent(
        *columns_of(instance), instance.memory_limit, copies, prices, threads
    )


def test_epochs_whose_configurations_no_float_counts_keep_their_prices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some hundred requests without prompts may run together in more ways than that."""

    def overflowing(*arguments: object) -> None:
        soft_capacities(*arguments)
        z = arguments[9]
        assert isinstance(z, np.ndarray)
        z[2, 0] = np.nan

    monkeypatch.setattr("hindsight.configurations.ascent.soft_capacities", overflowing)
    instance = generate("arrival-model-1", 0, n=6)
    columns = columns_of(instance)
    copies = copies_of(instance)
    first = np.full((40, len(ordered_states(copies))), 0.5)
    ascent = ConfigurationAscent(*columns, instance.memory_limit, copies, first)
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


@pytest.mark.parametrize("seed", sweep(range(30)))
def test_bounds_never_exceed_the_optimum(seed: int) -> None:
    last = 3 if seed % 2 else None
    instance = drawn_instance([seed], (5, 5), (6, 11), prompts=(1, 3), last_arrival=last)
    prompts, outputs, arrivals = columns_of(instance)
    limit, copies = instance.memory_limit, copies_of(instance)
    optimum, _ = optimal_total_latency(instance)
    ascent = ascent_of(instance, int(arrivals.max() + outputs.sum()) + 1)
    values = []
    for _ in range(3):
        values.append(ascent.ascend(40))
        prices, capacities = ascent.integer_prices()
        assert (capacities == integer_capacities(prices, copies)).all()
        bound = exact_bound(prices, prompts, outputs, arrivals, limit, copies)
        assert int(outputs.sum()) <= bound <= optimum
        # The integers round each price down, by less than one unit a state.
        assert bound >= values[-1] - 1.01
    assert values == sorted(values)


def test_prices_end_after_the_last_arrival() -> None:
    instance = Instance.from_arrays([1, 1], [2, 2], [0, 5], memory_limit=6)
    with pytest.raises(InvalidValueError, match="last arrival 5"):
        ascent_of(instance, 5)
    with pytest.raises(InvalidValueError, match="iterations"):
        ascent_of(instance, 6).ascend(0)


def test_an_ascent_stops_when_told() -> None:
    ascent = ascent_of(generate("arrival-model-1", seed=3, n=8), 200)
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    ascent.ascend(10_000, should_stop=stop)
    assert len(asked) == 4


def test_the_root_bound_is_better_than_that_of_the_plain_relaxation() -> None:
    instance = generate("arrival-model-1", seed=10, n=10)
    result = hindsight.solve(instance)
    plain = hindsight.relax(instance).certified_bound
    assert plain == 329
    assert result.root_bound is not None
    assert plain < result.root_bound <= 380


@pytest.mark.parametrize("level", [1e4, -1e4])
def test_a_level_far_off_is_told_of_and_marks_no_state(level: float) -> None:
    copies = copies_of(generate("arrival-model-1", 0, n=6))
    m, r, c = (ordered_states(copies)[:, column].copy() for column in range(3))
    Q = np.full((1, len(m)), 0.5)
    seldom, z, soft = np.zeros(Q.shape, dtype=np.bool_), np.ones_like(Q), np.zeros(1)
    limit = len(copies) - 1
    soft_capacities(
        *(Q, np.ones_like(Q), seldom, m, r, c, limit, 0.05, np.array([level]), z, soft),
        *(True, 0, 1),
    )
    assert np.isnan(soft).all() or level > 0
    assert np.isfinite(soft).all() or not seldom.any()
