"""The path search whole: what it proves, and what it does when it may not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from brute_force import optimal_total_latency
from drawn_instances import tiny

import hindsight
from hindsight.paths.relaxation import Climb
from hindsight.strategies.configurations import Configurations
from hindsight.strategies.paths import Paths
from instances import Instance, InvalidTypeError, generate

LITTLE = Configurations(
    moves=10, move_slice=10, corridor_states=1, states=1, search_growth=1, ascent=1
)
"""Leaves nearly everything to the graphs."""


def test_optima_without_the_search_of_partial_schedules() -> None:
    for seed in range(8):
        instance = tiny(seed)
        result = hindsight.solve(instance, threads=1, method=Paths(LITTLE, climb=Climb(3)))
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


def test_graphs_without_room_leave_an_interval() -> None:
    instance = generate("arrival-model-1", 0, n=14)
    cramped = Paths(LITTLE, most_nodes=1)
    result = hindsight.solve(instance, 1.0, threads=1, method=cramped)
    assert result.status == "feasible"
    assert 0 < result.certified_lower_bound < result.upper_bound


def test_graphs_that_never_fit_leave_the_proof_to_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def fail(*_: object) -> None:
        tried.append(1)
        raise MemoryError

    monkeypatch.setattr("hindsight.paths.refinement.finer_graph", fail)
    growing = replace(LITTLE, search_growth=3)
    result = hindsight.solve(
        generate("arrival-model-1", 0, n=7), 30, threads=1, method=Paths(growing, settled=1.0)
    )
    assert tried
    assert result.status == "optimal"


def test_more_requests_than_a_word_has_bits() -> None:
    lengths = [(1, 1), (1, 2), (2, 1)] * 22  # 66 of them
    many = Instance.from_arrays(*zip(*lengths, strict=True), memory_limit=7)
    result = hindsight.solve(many, 60, threads=1, method=Paths(searched_states=1))
    assert result.status == "optimal"


def test_parameters() -> None:
    with pytest.raises(InvalidTypeError, match="configurations = 3 is not Configurations"):
        Paths(configurations=3)  # type: ignore[arg-type]
