"""The path search whole: what it proves, and what it does when it may not."""

from __future__ import annotations

import math
from threading import Event, current_thread
from threading import enumerate as enumerate_threads

import numpy as np
import pytest
from drawn_instances import crowded
from left_to_graphs import leave_to_graphs
from tiny_problems import least_total_latency

import hindsight
from hindsight.outcomes.flow import BACKGROUND
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.paths.graph import TooLargeError
from hindsight.rounds import latency
from hindsight.rounds.graphs import GraphSearch
from hindsight.rounds.latency import TotalLatency
from hindsight.runtime.clock import never
from hindsight.schedules.lists import one_after_another
from hindsight.schedules.orders import OrderSearch
from instances import Instance, generate


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ("hindsight.paths.refinement.finer_graph", MemoryError),
        ("hindsight.rounds.graphs.PricedInstance", MemoryError),
        ("hindsight.rounds.graphs.PricedInstance", TooLargeError),
        ("hindsight.rounds.graphs.available_bytes", None),
    ],
)
def test_graphs_that_never_fit_leave_the_proof_to_the_search(
    part: str, error: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fail(*_: object) -> int:
        tried.append(1)
        if error is None:
            return 0  # no memory at all
        raise error

    def search_states(self: TotalLatency) -> None:
        if tried:
            search(self)

    search = TotalLatency._search_states
    monkeypatch.setattr(TotalLatency, "_search_states", search_states)
    monkeypatch.setattr(part, fail)
    leave_to_graphs(monkeypatch, SETTLED=1.0, SEARCHED_STATES=150_000)
    instance = generate("arrival-model-1", 0, n=7)
    result = hindsight.solve(instance, 30, threads=1, method="paths")
    assert tried
    assert result.status == "optimal"


@pytest.mark.parametrize(("room", "expected"), [(10, 0), (1_000, 1)])
def test_a_first_graph_that_did_not_fit_shows_how_graphs_grow(
    room: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindsight.rounds.graphs.FIRST_NODES", 1.0)
    instance = Instance.from_arrays([1, 1, 2, 2], [3, 3, 1, 2], [1, 0, 2, 1], memory_limit=6)
    interval = Interval(Problem(instance))
    interval.offer(one_after_another(instance))
    levels, epochs = instance.memory_limit + 1, 3
    prices = np.zeros((epochs, levels, levels), np.int64), np.zeros(epochs, np.int64)
    graphs = GraphSearch(interval)
    assert graphs._refine(prices, 0, interval.upper_bound - 1, room, never) == expected
    # If the graph did not fit, the growth of 0.05 that was expected is corrected.
    reach = interval.upper_bound - 1
    as_expected = graphs.nodes(reach) * math.exp(-0.05 * reach)
    assert math.isclose(graphs.nodes(0), as_expected) == expected


PATIENCE = 60.0
"""Seconds until a test gives up what it waits for."""


def is_beside() -> bool:
    """Whether this is the thread that improves schedules."""
    return current_thread().name.startswith(BACKGROUND)


@pytest.mark.parametrize("end", [None, KeyboardInterrupt])
def test_what_is_found_beside_graphs_is_kept(
    end: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    improved, found = Event(), []
    anneal = TotalLatency._anneal

    def annealing(self: TotalLatency, state: Interval) -> None:
        anneal(self, state)
        if is_beside() and state.upper_bound < self._interval.upper_bound:
            found.append(state.upper_bound)
            improved.set()

    def refine(*_: object) -> bool:
        assert improved.wait(PATIENCE)
        if end is not None:
            raise end
        return False

    monkeypatch.setattr(TotalLatency, "_anneal", annealing)
    monkeypatch.setattr(GraphSearch, "_refine", refine)
    leave_to_graphs(monkeypatch, SETTLED=1.0)
    result = hindsight.solve(
        generate("arrival-model-1", 0, n=14),
        threads=2,
        method="paths",
        progress=lambda _: improved.is_set(),
    )
    assert result.upper_bound <= found[0]
    assert not any(thread.name.startswith(BACKGROUND) for thread in enumerate_threads())


def test_want_of_memory_beside_graphs_ends_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, anneal = [], OrderSearch.run

    def fail(self: OrderSearch, moves: int) -> None:
        if not is_beside():
            return anneal(self, moves)
        wanted.append(1)
        raise MemoryError

    monkeypatch.setattr(OrderSearch, "run", fail)
    leave_to_graphs(monkeypatch, SETTLED=1.0)
    few = [generate("arrival-model-1", seed, n=8) for seed in range(2)]
    for instance in few:
        result = hindsight.solve(instance, PATIENCE, threads=2, method="paths")
        assert result.status == "optimal"
    assert wanted


def test_a_search_from_a_poor_schedule_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOVES", "MOVE_SLICE", "ASCENT"):
        monkeypatch.setattr(latency, name, 1)
    instance = crowded(5, 9, (6, 9))
    result = hindsight.solve(instance, threads=1, method="paths")
    assert result.best_bound == "state search"
    assert result.lower_bound == result.upper_bound == least_total_latency(instance)
