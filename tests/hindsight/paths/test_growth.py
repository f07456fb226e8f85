"""What graphs that were tried say of those to come: numbers worked by hand."""

from __future__ import annotations

import math

import pytest

from hindsight.paths.growth import BEYOND, GROWTH_OF_MANY, MOST_GROWTH, GraphGrowth


def test_what_is_expected_is_how_far_a_room_goes() -> None:
    growth = GraphGrowth(1_000.0, 0.1, 20)
    assert growth.nodes(0) == 1_000
    assert growth.nodes(10) == pytest.approx(1_000 * math.e)
    assert growth.reach(1_000 * math.e, math.inf) == pytest.approx(10)
    assert growth.reach(math.inf, 1e9) > 10
    assert math.isfinite(growth.reach(0, 0))


def test_two_graphs_show_the_growth() -> None:
    growth = GraphGrowth(1_000.0, 0.05, 20)
    growth.learn(10, 2_000.0, 1.0)
    growth.learn(20, 6_000.0, 1.0)
    assert growth.nodes(30) == pytest.approx(18_000)


def test_one_of_many_requests_is_taken_to_grow_slowly() -> None:
    few, many = GraphGrowth(1_000.0, 0.05, 20), GraphGrowth(1_000.0, 0.05, 60)
    for growth in (few, many):
        growth.learn(10, 2_000.0, 1.0)
    assert few.nodes(20) == pytest.approx(2_000 * math.exp(0.5))
    assert many.nodes(20) == pytest.approx(2_000 * math.exp(10 * GROWTH_OF_MANY))


def test_what_a_graph_without_room_has_shown_is_not_forgotten() -> None:
    growth = GraphGrowth(1_000.0, 0.05, 60)
    growth.learn_too_large(40, 50_000.0)
    steep = growth.nodes(40)
    assert steep == pytest.approx(BEYOND * 50_000)
    growth.learn(20, 4_000.0, 1.0)
    assert growth.nodes(40) == pytest.approx(BEYOND * 50_000)


def test_no_graph_is_expected_smaller_than_one_without_room() -> None:
    growth = GraphGrowth(1_000.0, 0.05, 20)
    growth.learn_too_large(2, 1e9)  # steeper than any growth
    assert growth.nodes(2) == pytest.approx(BEYOND * 1e9)
    assert growth.nodes(12) == pytest.approx(BEYOND * 1e9 * math.exp(10 * MOST_GROWTH))
    near = GraphGrowth(1_000.0, 0.05, 20)
    near.learn(10, 1e6, 1.0)
    near.learn_too_large(11, 1e9)  # too near for a growth
    assert near.reach(1e9, math.inf) < 11


def test_better_prices_refute_what_had_no_room_and_teach_no_growth() -> None:
    growth = GraphGrowth(1_000.0, 0.05, 20)
    growth.learn_too_large(40, 1e6)
    steep = growth.nodes(41) / growth.nodes(40)
    growth.learn(60, 5e5, 1.0)
    assert growth.nodes(60) == 5e5
    assert growth.nodes(61) / growth.nodes(60) == pytest.approx(steep)
    growth.learn(62, 1e5, 1.0)
    assert growth.nodes(63) / growth.nodes(62) == pytest.approx(steep)


def test_large_graphs_show_how_long_they_take() -> None:
    growth = GraphGrowth(1_000.0, 0.05, 20)
    growth.learn(10, 500_000.0, 100.0)
    assert growth.reach(math.inf, 100.0) > 10
    growth.learn(20, 2_000_000.0, 100.0)
    assert growth.reach(math.inf, 100.0) == pytest.approx(20)
