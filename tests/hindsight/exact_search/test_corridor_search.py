"""Corridors against brute force: the widest holds the optimum; widths grow."""

import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import drawn_instance, random_epoch_prices
from effort import sweep

from hindsight import best_list_schedule
from hindsight.exact_search import corridor_search
from hindsight.exact_search.corridor_search import CorridorSearch
from hindsight.exact_search.state_search import StateSearch
from hindsight.runtime.clock import never
from instances import Instance, Schedule, generate


def priced_search(instance: Instance, seed: int, **options: int) -> StateSearch:
    """What is found must be right under all prices."""
    search = StateSearch(instance.columns, **options)
    later = int(instance.output_lengths.sum()) + 1
    search.set_prices(*random_epoch_prices(instance, np.random.default_rng(seed), 0.2, later))
    return search


def tiny(seed: int) -> Instance:
    last = 5 if seed % 2 else None
    return drawn_instance([71, seed], (4, 6), (5, 10), prompts=(1, 3), outputs=5, last_arrival=last)


@pytest.mark.parametrize("seed", sweep(range(20)))
def test_the_widest_corridor_holds_the_optimum(seed: int) -> None:
    instance = tiny(seed)
    first = best_list_schedule(instance)
    search = CorridorSearch(priced_search(instance, seed))
    starts = search.improve(first.start_times, 100_000, never)
    found = first if starts is None else Schedule(instance, starts)
    assert not found.violations()
    assert found.total_latency == optimal_total_latency(instance)[0]
    assert starts is None or found.total_latency < first.total_latency
    # A beam that keeps every state finds nothing more, and ends the search.
    assert search.improve(found.start_times, 10**12, never) is None


def test_the_width_grows_after_a_sweep_that_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corridor_search, "FIRST_WIDTH", 20)
    instance = generate("arrival-model-1", seed=3, n=16)
    first = best_list_schedule(instance)
    runs = []
    for _ in range(2):
        search = CorridorSearch(priced_search(instance, 0))
        starts, found = first.start_times, []
        while search.width == 20:
            better = search.improve(starts, 10_000, never)
            found.append(better is not None)
            starts = starts if better is None else better
        assert any(found)
        assert search.width in {40, 80}
        runs.append(starts.tolist())
    assert runs[0] == runs[1]
    assert Schedule(instance, runs[0]).total_latency < first.total_latency
