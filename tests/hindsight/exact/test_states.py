"""The exact forward search against brute force, with each rule, with and without repricing."""

from __future__ import annotations

import time

import numpy as np
import pytest
from brute_force import (
    is_feasible_by_definition,
    optimal_total_latency,
    total_latency_by_definition,
)
from drawn_instances import drawn_instance, drawn_prices, parts_apart

from hindsight.exact.state_pruning import Rules
from hindsight.exact.states import SearchOutcome, StateSearch
from hindsight.prices.states import SCALE
from instances import Instance
from instances.arrays import IntArray

ALL = Rules()
NONE = Rules(*[False] * len(ALL))


def tiny(seed: int, largest: int) -> Instance:
    return drawn_instance(
        [47, seed],
        (1, largest),
        (4, 10),
        prompts=(0 if seed % 7 == 0 else 1, 3),
        outputs=5,
        last_arrival=5 if seed % 2 else None,
    )


def search_of(instance: Instance, **options: int) -> StateSearch:
    return StateSearch(instance.columns, **options)


def total_of(instance: Instance, outcome: SearchOutcome[IntArray]) -> int:
    """Total latency by definition of what was found, which is feasible by definition."""
    assert outcome.found is not None
    starts = outcome.found.tolist()
    assert is_feasible_by_definition(instance, starts)
    return total_latency_by_definition(instance, starts)


def assert_exact(instance: Instance, search: StateSearch, optimum: int, *budgets: int) -> None:
    """Nothing is found below the optimum, and the optimum within each budget."""
    below = search.run(optimum - 1)
    assert (below.status, below.found) == ("exhausted", None)
    for budget in budgets:
        outcome = search.run(budget)
        assert (outcome.status, total_of(instance, outcome)) == ("exhausted", optimum)


@pytest.mark.parametrize("block", range(10))
def test_the_optimum_of_500_instances_with_every_rule(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        instance = tiny(seed, 7)
        optimum, _ = optimal_total_latency(instance)
        search = search_of(instance)
        rng = np.random.default_rng([1, seed])
        one = Rules._fields[seed % len(ALL)]
        settings = (ALL, ALL._replace(**{one: False}), NONE._replace(**{one: True}), NONE)
        for number, search.rules in enumerate(settings):
            if number % 2:
                assert search.set_prices(*drawn_prices(instance, rng)) <= optimum * SCALE
            assert_exact(instance, search, optimum, optimum + 2, optimum)


def test_each_rule_removes_something() -> None:
    total = dict.fromkeys(set(Rules._fields) - {"twins"}, 0)
    rng = np.random.default_rng(61)
    for seed in range(60):
        instance = tiny(seed, 7)
        search = search_of(instance)
        search.set_prices(*drawn_prices(instance, rng))
        search.run(optimal_total_latency(instance)[0] + seed % 2 * 8)
        for rule, count in search.counts.items():
            total[rule] += count
        search.rules = NONE
        search.run(optimal_total_latency(instance)[0])
        assert not any(search.counts.values())
    assert min(total.values()) > 0


def test_twins_start_in_order_of_arrival_whatever_their_order() -> None:
    """Later twins before earlier ones too, where only some pairs are held to their order."""
    for arrivals, fewer in (([0, 1, 2, 3], True), ([3, 0, 2, 1], True), ([3, 2, 1, 0], False)):
        twins = Instance.from_arrays([2] * 4, [3] * 4, arrivals, memory_limit=5)
        optimum, _ = optimal_total_latency(twins)
        states = []
        for rules in (ALL, ALL._replace(twins=False)):
            search = search_of(twins)
            search.rules = rules
            assert_exact(twins, search, optimum)
            states.append(search.run(optimum).states)
        assert (states[0] < states[1]) == fewer


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


def test_it_stops_when_told() -> None:
    search = search_of(medium(), max_states=1_000_000)
    search.run(state_limit=100)  # compile
    worked = time.process_time()
    deadline = time.monotonic() + 0.5
    outcome = search.run(should_stop=lambda: time.monotonic() > deadline)
    assert outcome.status == "stopped"
    # Of the processor: half a second until the deadline, and a few hundredths after it.
    assert time.process_time() - worked < 2.5


def test_late_starts_are_not_miscounted() -> None:
    late = Instance.from_arrays([1, 1], [2, 2], [0, 40_000], memory_limit=4)
    assert search_of(late).run().status == "epochs"
