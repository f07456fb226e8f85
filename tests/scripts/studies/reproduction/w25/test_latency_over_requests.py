from __future__ import annotations

import pytest

from instances import Instance, generate
from online import simulate
from studies.reproduction.w25.latency_over_requests import alike, borne_out, figure_8_statements
from studies.reproduction.w25.relaxed_orders import NAMES, KnownRelaxation

PAPER_LIKE = {
    "fcfs": 9.0,
    "mc-sf": 6.0,
    "sorted-lp": 5.0,
    "lp-swap": 3.0,
    "sorted-f-swap": 3.0,
    "sorted-f-quantile": 4.0,
    "smallest-volume-first": 3.0,
}


@pytest.mark.parametrize(
    ("values", "holds"),
    [([1, 1, 1], True), ([0, 1, 1], True), ([0, 0, 1], False), ([1, 1, 0], False)],
)
def test_a_statement_holds_at_the_largest_size_and_at_most_sizes(
    values: list[int], holds: bool
) -> None:
    means: dict[int, dict[str, float]] = {
        size: {"x": float(value)} for size, value in enumerate(values)
    }
    # A size at which it was not measured says nothing, were it the largest.
    means[9] = {"y": 1.0}
    found = borne_out("x", means, ["x"], lambda at: at["x"] > 0)
    assert found.holds is holds
    assert found.text == f"x at {sum(values)} of 3 sizes"


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({}, None),
        ({"mc-sf": 4.9}, 0),
        ({"sorted-f-quantile": 2.9}, 1),
        ({"sorted-lp": 3.1}, 2),
        ({"sorted-f-swap": 3.2}, 3),
    ],
)
def test_each_statement_of_figure_8_can_fail_alone(
    changed: dict[str, float], failing: int | None
) -> None:
    """[W25] Figure 8."""
    found = [each.holds for each in figure_8_statements({200: {**PAPER_LIKE, **changed}})]
    assert found == [place != failing for place in range(4)]


def test_alike_is_of_the_larger() -> None:
    assert alike(95.0, 100.0)
    assert alike(100.0, 95.0)
    assert not alike(94.9, 100.0)


@pytest.mark.parametrize("name", NAMES)
def test_one_relaxation_gives_both_policies_what_their_own_would(name: str) -> None:
    instance = generate("exponential", seed=1, n=25)
    shared = simulate(instance, KnownRelaxation(instance).policy(name))
    assert shared.total_latency == simulate(instance, name).total_latency


def test_a_relaxation_is_not_lent_to_other_requests() -> None:
    known = KnownRelaxation(Instance.from_arrays([1, 2], [3, 1], memory_limit=5))
    with pytest.raises(ValueError, match="other requests"):
        known(Instance.from_arrays([1, 2], [3, 2], memory_limit=5))
    with pytest.raises(ValueError, match="other requests"):
        known(Instance.from_arrays([1], [3], memory_limit=5))


def test_a_coarse_relaxation_orders_the_requests_themselves() -> None:
    instance = Instance.from_arrays([30, 31, 30], [90, 10, 45], memory_limit=165)
    known = KnownRelaxation(instance, scale=10)
    assert known.relaxation.instance.memory_limit == 16
    assert known.relaxation.instance.prompt_lengths.tolist() == [3, 4, 3]
    assert known.relaxation.instance.output_lengths.tolist() == [9, 1, 5]
    assert len(known(instance).expected_start_times) == 3
