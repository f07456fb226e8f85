"""Paths against brute force: every rule, prices good and bad, limits of every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from brute_force import feasible_total, optimal_total_latency, total_latency_by_definition
from drawn_instances import crowded, drawn_prices
from effort import sweep

from hindsight.paths.anonymous_states import heaviest_beside, room_for_states, set_epoch
from hindsight.paths.graph import PricedInstance, TooLargeError, coarsest_graph, finer_graph
from hindsight.paths.layers import PathGraph
from hindsight.paths.path_kernels import gibbs_paths
from hindsight.paths.refinement import refine
from hindsight.paths.relaxation import Climb, PathRelaxation
from hindsight.runtime.clock import StoppedEarlyError, never
from instances import Instance
from instances.arrays import FloatArray, RequestColumns

MOST = 200_000


@pytest.fixture(autouse=True)
def _few_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 100 kB, the tree of tables is emptied now and then."""
    monkeypatch.setattr("hindsight.paths.graph.TABLE_BYTES", 100_000)


def priced_case(seed: int, above: int = 0) -> tuple[PricedInstance, Instance, int]:
    """A tiny instance under drawn prices, with a limit above its optimum, and the optimum."""
    instance = crowded(53, seed, (1, 6))
    optimum, _ = optimal_total_latency(instance)
    last, rng = int(instance.arrival_times.max()), np.random.default_rng([2, seed])
    prices = drawn_prices(instance, rng, last)
    return PricedInstance(instance, *prices, optimum + above), instance, optimum


def finest(
    priced: PricedInstance, most: int = MOST, count: int | None = None, stop: Any = never
) -> PathGraph | None:
    """The graph that follows everybody, or the first few, at once."""
    n = len(priced.kinds)
    nobody, followed = np.zeros(n, np.bool_), np.arange(n if count is None else count)
    coarse, u = coarsest_graph(priced), priced.first_prices
    return finer_graph(priced, coarse, nobody, followed, u, most, stop)


def test_graphs_have_as_many_nodes_as_ever() -> None:
    """A node too many costs nothing but time; the least cost of a path is a sum of integers."""
    found = np.zeros((3, 2), dtype=int)
    for seed in range(50):
        for k, above in enumerate((0, 3, 8)):
            priced, *_ = priced_case(seed, above)
            graph = finest(priced)
            assert graph is not None
            everybody = np.ones(len(priced.kinds), np.bool_)
            relaxation = PathRelaxation(priced, graph, everybody, priced.first_prices, 0, never)
            relaxation.drop()
            found[k] += len(graph.later), relaxation.lower_bound
    assert found.tolist() == [[11100, 590], [14912, 590], [20825, 590]]


def test_a_graph_of_too_many_nodes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hindsight.paths.graph.SETS_AT_ONCE", 1)
    for seed in range(6):
        priced, *_ = priced_case(seed, 3)
        graph = finest(priced)
        assert graph is not None
        for most in np.linspace(1, len(graph.later) - 2, 4).astype(int).tolist():
            with pytest.raises(TooLargeError):
                finest(priced, most)


def test_a_limit_at_the_optimum_proves_it() -> None:
    """The first nodes at an epoch may have no predecessor within the limit."""
    for seed in range(6):
        priced, _, optimum = priced_case(seed)
        assert refine(priced, MOST, Climb(3), never).lower_bound == optimum


def test_want_of_memory_ends_with_what_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    priced, *_ = priced_case(3)
    monkeypatch.setattr("hindsight.paths.refinement.finer_graph", fail)
    outcome = refine(priced, 10_000, Climb(3), never)
    assert (outcome.is_whole, outcome.lower_bound, outcome.most_nodes) == (False, 0, 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("rate", "overflow"), [(3e12, False), (1e13, False), (1.0, True)])
def test_prices_that_go_astray_prove_nothing_false(
    rate: float, overflow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that 64 bits cannot hold, and weights that floats cannot."""

    def overflowing(*arguments: Any) -> FloatArray:
        completions = gibbs_paths(*arguments)
        completions[:1] = np.nan
        return completions

    if overflow:
        monkeypatch.setattr("hindsight.paths.path_kernels.gibbs_paths", overflowing)
    for seed in range(8):
        priced, _, optimum = priced_case(seed, 3)
        outcome = refine(priced, MOST, Climb(9, (1.0, 0.2), rate), never)
        assert (outcome.is_whole, outcome.lower_bound) == (True, optimum)


def test_tables_of_a_large_memory_limit_stay_within_their_room() -> None:
    """M = 255 with 127 requests at once, and states of 254 rounds: 4 GB if rows are wasted."""
    room = 400_000_000
    assert room_for_states(254, 127, 255, room).tables.nbytes <= room


def test_a_request_that_fills_the_memory_counts_whatever_the_tables_held() -> None:
    states, nobody = room_for_states(3, 1, 4, 10_000), np.zeros(1, np.int64)
    states.tables[:] = -1
    prices = np.zeros((5, 5), np.int64)
    prices[3, 1] = 7
    requests = RequestColumns(np.array([1]), np.array([3]), np.array([0]), 4)
    set_epoch(2, prices, requests, np.zeros(1, np.bool_), states)
    assert heaviest_beside(states, nobody, nobody, 0, nobody) == 7


def test_capacities_that_32_bits_cannot_hold_are_refused() -> None:
    prices, capacities = np.zeros((2, 11, 11), np.int64), np.array([0, (1 << 31) - 1])
    instance = Instance.from_arrays([1], [2], memory_limit=10)
    PricedInstance(instance, prices, capacities, 2)
    with pytest.raises(TooLargeError):
        PricedInstance(instance, prices, capacities + 1, 2)


def test_a_climb_closes_the_gap_of_the_three() -> None:
    """From a bound of 6, at which all start at once, to the optimum."""
    instance = Instance.from_arrays([1, 1, 1], [2, 1, 3], memory_limit=4)
    none = np.zeros((1, 5, 5), dtype=np.int64), np.zeros(1, dtype=np.int64)
    priced = PricedInstance(instance, *none, 12)
    graph = finest(priced)
    assert graph is not None
    everybody = np.ones(3, np.bool_)
    relaxation = PathRelaxation(priced, graph, everybody, priced.first_prices, 1000, never)
    relaxation.drop()
    assert relaxation.lower_bound == 6
    relaxation.climb(Climb())
    assert relaxation.lower_bound == 8
    assert relaxation.found is not None
    total = total_latency_by_definition(instance, relaxation.found.tolist())
    assert (total, relaxation.limit) == (8, 7)


def test_limits_and_stops() -> None:
    priced, _, optimum = priced_case(3)
    with pytest.raises(TooLargeError):
        finest(priced, 1, 1)
    with pytest.raises(StoppedEarlyError):
        finest(priced, MOST, 1, lambda: True)
    for room, stop in ((200_000, lambda: True), (1, never), (60, never), (200, never)):
        outcome = refine(priced, room, Climb(3), stop)
        # Whatever it had no time or room for, what it says holds.
        assert outcome.lower_bound <= optimum


@pytest.mark.parametrize("block", sweep(range(10), one_in=10))
def test_the_optimum_of_500_instances(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        priced, instance, optimum = priced_case(seed, -1)
        below = refine(priced, MOST, Climb(9), never)
        assert (below.lower_bound, below.start_times) == (optimum, None)
        for limit in (optimum, optimum + 2):
            priced = PricedInstance(instance, priced.prices, priced.capacities, limit)
            outcome = refine(priced, MOST, Climb(9), never)
            assert outcome.lower_bound == optimum
            assert outcome.start_times is not None
            assert feasible_total(instance, outcome.start_times.tolist()) == optimum
