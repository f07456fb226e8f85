"""Exact windows against brute force over the free requests."""

import itertools

import numpy as np
from brute_force import optimal_total_latency
from drawn_instances import random_epoch_prices
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.exact_search.window_search import WindowSearch, resolve_window
from hindsight.heuristics.list_scheduling import best_list_schedule
from instances import Instance, Schedule, generate


def best_by_enumeration(instance, starts, free, first, last):
    """Cheapest total latency with the free requests anywhere in first .. last."""
    best = None
    for tried in itertools.product(range(first, last + 1), repeat=len(free)):
        candidate = starts.copy()
        candidate[list(free)] = tried
        schedule = Schedule(instance, candidate)
        if not schedule.violations() and (best is None or schedule.total_latency < best):
            best = schedule.total_latency
    return best


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.0, 0.1, 0.5]))
def test_a_window_is_solved_exactly(seed, scale):
    rng = np.random.default_rng(seed)
    count, limit = 5, int(rng.integers(5, 9))
    outputs = rng.integers(1, 4, count)
    prompts = np.array([rng.integers(1, limit - o + 1) for o in outputs])
    instance = Instance.from_arrays(prompts, outputs, rng.integers(0, 4, count), memory_limit=limit)
    # One after another in random order, with idle rounds: room for improvement.
    order = rng.permutation(count)
    starts = np.zeros(count, np.int64)
    starts[order] = 3 + np.cumsum(outputs[order] + rng.integers(0, 2, count)) - outputs[order]
    assert not Schedule(instance, starts).violations()
    free = np.sort(rng.choice(count, 2, replace=False))
    before = Schedule(instance, starts).total_latency

    Q, W = random_epoch_prices(instance, rng, scale, 12)
    outcome = resolve_window(instance, starts, free, Q, W)

    first = max(0, int(starts[free].min()) - int(outputs.mean()))
    expected = best_by_enumeration(instance, starts, free, first, int(starts.max()) + 1)
    assert outcome.status == "exhausted"
    found = Schedule(instance, starts if outcome.found is None else outcome.found)
    assert not found.violations()
    assert found.total_latency == expected
    assert (outcome.found is None) == (expected == before)
    fixed = np.setdiff1d(np.arange(count), free)
    assert (found.start_times[fixed] == starts[fixed]).all()


def test_freeing_everything_solves_the_instance():
    instance = generate("arrival-model-1", seed=10, n=5)
    starts = best_list_schedule(instance).start_times
    Q, W = random_epoch_prices(instance, np.random.default_rng(0), 0.0, 12)
    outcome = resolve_window(instance, starts, np.arange(5), Q, W)
    reached = starts if outcome.found is None else outcome.found
    assert Schedule(instance, reached).total_latency == optimal_total_latency(instance)[0]


def test_sweeps_are_deterministic_and_never_worse():
    instance = generate("arrival-model-1", seed=3, n=16)
    starts = best_list_schedule(instance).start_times
    Q, W = random_epoch_prices(instance, np.random.default_rng(0), 0.0, 12)
    runs = []
    for _ in range(2):
        search = WindowSearch(instance, seed=5)
        current = np.array(starts)
        for _ in range(3):
            following = search.sweep(current, Q, W, lambda: False)
            schedule = Schedule(instance, following)
            assert not schedule.violations()
            assert schedule.total_latency <= Schedule(instance, current).total_latency
            current = following
        assert search.solved <= search.windows
        runs.append(current.tolist())
    assert runs[0] == runs[1]
    assert Schedule(instance, runs[0]).total_latency < Schedule(instance, starts).total_latency
