"""The path search whole: what it proves, and what it does when it may not."""

from __future__ import annotations

from dataclasses import replace
from threading import Event
from threading import enumerate as enumerate_threads
from typing import Any

import pytest
from brute_force import optimal_total_latency
from drawn_instances import tiny

import hindsight
from hindsight.paths.graph import PricedInstance, TooLargeError
from hindsight.paths.refinement import Refinement
from hindsight.paths.relaxation import Climb
from hindsight.strategies.configurations import Configurations
from hindsight.strategies.paths import SCHEDULES, Paths, PathSearch
from instances import Instance, InvalidTypeError, generate

LITTLE = Configurations(
    moves=10, move_slice=10, corridor_states=1, states=1, search_growth=1, ascent=1
)
"""Leaves nearly everything to the graphs."""


@pytest.mark.parametrize("threads", [1, 2])
def test_optima_without_the_search_of_partial_schedules(threads: int) -> None:
    for seed in range(8):
        instance = tiny(seed)
        result = hindsight.solve(instance, threads=threads, method=Paths(LITTLE, climb=Climb(3)))
        optimum, _ = optimal_total_latency(instance)
        assert (result.status, result.upper_bound) == ("optimal", optimum)


@pytest.mark.slow
def test_both_searches_agree() -> None:
    for seed in range(6):
        instance = generate("arrival-model-1", seed, n=12)
        paths = hindsight.solve(instance, threads=1, method="paths")
        configurations = hindsight.solve(instance, threads=1, method="configurations")
        assert paths.status == configurations.status == "optimal"
        assert paths.upper_bound == configurations.upper_bound


def test_graphs_without_room_leave_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = []

    class Recorded(Refinement):
        def __init__(self, priced: PricedInstance, most_nodes: int, *rest: Any) -> None:
            rooms.append(most_nodes)
            super().__init__(priced, most_nodes, *rest)

    monkeypatch.setattr("hindsight.strategies.paths.Refinement", Recorded)
    instance = generate("arrival-model-1", 0, n=14)
    cramped = Paths(LITTLE, settled=1.0, most_nodes=1)
    result = hindsight.solve(instance, 1.0, threads=1, method=cramped)
    assert set(rooms) == {1}
    assert result.status == "feasible"
    assert 0 < result.certified_lower_bound < result.upper_bound


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ("hindsight.paths.refinement.finer_graph", MemoryError),
        ("hindsight.strategies.paths.PricedInstance", MemoryError),
        ("hindsight.strategies.paths.PricedInstance", TooLargeError),
    ],
)
def test_graphs_that_never_fit_leave_the_proof_to_the_search(
    part: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fail(*_: object) -> None:
        tried.append(1)
        raise error

    monkeypatch.setattr(part, fail)
    growing = replace(LITTLE, search_growth=3)
    result = hindsight.solve(
        generate("arrival-model-1", 0, n=7), 30, threads=1, method=Paths(growing, settled=1.0)
    )
    assert tried
    assert result.status == "optimal"


def slow_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that take a while and prove nothing."""

    def refine(*_: object) -> bool:
        Event().wait(0.5)
        return False

    monkeypatch.setattr(PathSearch, "_refine", refine)


def test_a_second_thread_improves_schedules_while_graphs_are_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow_graphs(monkeypatch)
    instance = generate("arrival-model-1", 0, n=30)
    alone, helped = (
        hindsight.solve(instance, 3.0, threads=threads, method=Paths(LITTLE, settled=1.0))
        for threads in (1, 2)
    )
    assert helped.upper_bound < alone.upper_bound


def test_no_thread_outlives_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_graphs(monkeypatch)

    def is_at_work() -> bool:
        return any(thread.name.startswith(SCHEDULES) for thread in enumerate_threads())

    def quarrel(progress: hindsight.Progress) -> None:
        if is_at_work():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hindsight.solve(
            generate("arrival-model-1", 0, n=30),
            20.0,
            threads=2,
            method=Paths(LITTLE, settled=1.0),
            progress=quarrel,
        )
    assert not is_at_work()


def test_prices_that_have_converged_have_settled() -> None:
    instance = generate("arrival-model-1", 0, n=9)
    eager = Paths(LITTLE, settled=0.0, converged=1.0, searched_states=1)
    assert hindsight.solve(instance, 60, threads=1, method=eager).status == "optimal"


def test_more_requests_than_a_word_has_bits() -> None:
    lengths = [(1, 1), (1, 2), (2, 1)] * 22  # 66 of them
    many = Instance.from_arrays(*zip(*lengths, strict=True), memory_limit=7)
    result = hindsight.solve(many, 60, threads=1, method=Paths(searched_states=1))
    assert result.status == "optimal"


def test_parameters() -> None:
    with pytest.raises(InvalidTypeError, match="configurations = 3 is not Configurations"):
        Paths(configurations=3)  # type: ignore[arg-type]
