"""The exact forward search against brute force, with each rule, with and without repricing."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import feasible_total, optimal_total_latency
from drawn_instances import crowded, drawn_prices, parts_apart

from hindsight.exact.states import SearchOutcome, StateSearch
from hindsight.prices.states import SCALE
from instances import Instance
from instances.arrays import IntArray


def search_of(instance: Instance, **options: int) -> StateSearch:
    return StateSearch(instance.columns, **options)


def total_of(instance: Instance, outcome: SearchOutcome[IntArray]) -> int:
    """Total latency by definition of what was found, which is feasible by definition."""
    assert outcome.found is not None
    return feasible_total(instance, outcome.found.tolist())


def assert_exact(instance: Instance, search: StateSearch, optimum: int, *budgets: int) -> list[int]:
    """Nothing is found below the optimum, and the optimum within each budget; states opened."""
    below = search.run(optimum - 1)
    assert (below.status, below.found) == ("exhausted", None)
    outcomes = [search.run(budget) for budget in budgets]
    for outcome in outcomes:
        assert (outcome.status, total_of(instance, outcome)) == ("exhausted", optimum)
    return [one.states for one in (below, *outcomes)]


def opened_by(seeds: range) -> list[list[int]]:
    """States opened below, at and above the optima: without prices, and with some."""
    opened = np.zeros((2, 3), dtype=int)
    for seed in seeds:
        instance = crowded(47, seed, (1, 7))
        optimum, _ = optimal_total_latency(instance)
        search = search_of(instance)
        opened[0] += assert_exact(instance, search, optimum, optimum, optimum + 2)
        search.set_prices(*drawn_prices(instance, np.random.default_rng([1, seed])))
        assert search.prices.root <= optimum * SCALE
        opened[1] += assert_exact(instance, search, optimum, optimum, optimum + 2)
    return opened.tolist()


def test_as_many_states_are_opened_as_ever() -> None:
    """A rule that drops less finds the same optimum."""
    assert opened_by(range(50)) == [[2146, 2752, 3854], [2373, 2909, 3914]]


@pytest.mark.slow
def test_the_optimum_of_450_instances() -> None:
    opened_by(range(50, 500))


def test_twins_start_in_order_of_arrival_whatever_their_order() -> None:
    """Later twins before earlier ones too, where only some pairs are held to their order."""
    kept = []
    for arrivals in ([0, 1, 2, 3], [3, 0, 2, 1], [3, 2, 1, 0]):
        twins = Instance.from_arrays([2] * 4, [3] * 4, arrivals, memory_limit=5)
        optimum, _ = optimal_total_latency(twins)
        search = search_of(twins)
        assert_exact(twins, search, optimum)
        kept.append(search.run(optimum).states)
    assert kept[0] < kept[2]
    assert kept[1] < kept[2]


def medium(n: int = 30) -> Instance:
    rng = np.random.default_rng(n)
    outputs = rng.integers(1, 36, n)
    return Instance.from_arrays(rng.integers(1, 6, n), outputs, memory_limit=45)


def test_limits_on_states() -> None:
    search = search_of(medium(), max_states=5000)
    assert search.run().status == "states"
    few = search.run(state_limit=1000)
    assert few.status == "states"
    assert few.states <= 1000


def test_more_requests_than_a_word_has_bits() -> None:
    parts, many = parts_apart(34)
    assert len(many) == 136
    optimum = sum(optimal_total_latency(part)[0] for part in parts)
    search = search_of(many)
    assert_exact(many, search, optimum, optimum)


def test_it_stops_at_the_first_yes_and_asks_often() -> None:
    answers = iter([False] * 40 + [True])
    outcome = search_of(medium(), max_states=1_000_000).run(should_stop=lambda: next(answers))
    assert (outcome.status, next(answers, None)) == ("stopped", None)
    assert 40 < outcome.states <= 1_000_000
