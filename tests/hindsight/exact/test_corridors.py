"""Beams near the best schedule against brute force."""

import numpy as np
import pytest
from brute_force import feasible_total, optimal_total_latency
from drawn_instances import crowded, drawn_prices

from hindsight.exact.corridors import CorridorSearch, corridor_prices
from hindsight.exact.states import StateSearch
from hindsight.runtime.clock import never
from hindsight.schedules.lists import best_list_schedule
from instances import generate


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_of_a_few_requests_is_found(seed: int) -> None:
    instance = crowded(71, seed, (4, 6))
    states = StateSearch(instance.columns)
    states.set_prices(*drawn_prices(instance, np.random.default_rng(seed)))
    first = best_list_schedule(instance).start_times
    found = CorridorSearch(instance.columns, 10_000).improve(first, states.prices, never)
    assert feasible_total(instance, found.tolist()) == optimal_total_latency(instance)[0]


def test_a_beam_stays_in_its_corridor_and_keeps_its_width() -> None:
    instance = generate("arrival-model-1", seed=3, n=40)
    first, outputs = best_list_schedule(instance), instance.output_lengths
    search = StateSearch(instance.columns, 100_000)
    search.set_prices(*drawn_prices(instance, np.random.default_rng(1), first.makespan))
    search.prices = corridor_prices(search.prices, first.start_times, outputs, 10)
    outcome = search.run(first.total_latency, width=50)
    assert outcome.found is not None
    assert outcome.status == "beam"
    assert outcome.states <= 50 * first.makespan
    assert feasible_total(instance, outcome.found.tolist()) <= first.total_latency
    change = np.abs(outcome.found - first.start_times)[np.argsort(first.start_times, kind="stable")]
    assert change[10:34].max() <= 4 * outputs.mean()
    assert np.delete(change, range(10, 34)).max() <= outputs.mean()
