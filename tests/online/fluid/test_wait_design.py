"""Thresholds of WAIT: conditions of [A25] Equation (11) checked by their definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online.fluid.balance import PromptType, equilibrium
from online.fluid.wait_design import WaitPlan, batch_cap_thresholds, wait_thresholds

EXAMPLE = [PromptType(4, 1, 1)]
LOW_DEMAND = [PromptType(1000, 10, 10), PromptType(1000, 10, 20)]
HIGH_DEMAND = [PromptType(6000, 20, 100), PromptType(4000, 20, 200), PromptType(2000, 20, 300)]


def memory_by_definition(types: list[PromptType], counts: tuple[int, ...]) -> int:
    return sum(
        n * sum(k.prefill_length + s for s in range(k.decode_length + 1))
        for n, k in zip(counts, types, strict=True)
    )


@pytest.mark.parametrize(
    ("limit", "thresholds", "keeps_up", "strictly"),
    [
        # C = M*: only n = 4 fits, with equality. 15 units: n = 5 with DT = 1.15 < 5/4.
        (12, (4,), True, False),
        (14, (4,), True, False),
        (15, (5,), True, True),
        (None, (5,), True, True),
        # C < M* takes what fits, c = C / W.
        (8, (2,), False, False),
    ],
)
def test_example_2(limit: int | None, thresholds: Any, keeps_up: bool, strictly: bool) -> None:
    """[A25] Example 2, Equation (18)."""
    plan = wait_thresholds(EXAMPLE, 0.4, 0.05, limit)
    assert plan.thresholds == thresholds
    assert plan.keeps_up == keeps_up
    assert plan.keeps_up_strictly == strictly
    assert plan.as_parameter() == {(1, 1): thresholds[0]}


@given(
    types=st.lists(
        st.builds(PromptType, st.floats(0.1, 20), st.integers(1, 9), st.integers(1, 9)),
        min_size=1,
        max_size=3,
    ),
    load=st.floats(0.0, 0.9),
    room=st.floats(1, 4),
)
def test_a_plan_that_says_so_keeps_up_and_fits(
    types: list[PromptType], load: float, room: float
) -> None:
    d0 = 0.3
    total = sum(k.arrival_rate * memory_by_definition([k], (1,)) for k in types)
    d1 = load / total
    smallest = memory_by_definition(types, (1,) * len(types))
    limit = int(max(smallest, room * equilibrium(types, d0, d1).memory))
    for memory_limit in (limit, None):
        plan = wait_thresholds(types, d0, d1, memory_limit)
        memory = memory_by_definition(types, plan.thresholds)
        duration = d0 + d1 * memory
        assert plan.batch_memory == memory
        assert plan.batch_duration == pytest.approx(duration)
        room_left = [
            n / k.arrival_rate - duration for n, k in zip(plan.thresholds, types, strict=True)
        ]
        if abs(min(room_left)) > 1e-6:
            assert plan.keeps_up == (min(room_left) > 0)
        if memory_limit is None:
            assert plan.keeps_up_strictly
        else:
            assert memory <= memory_limit


@given(
    rates=st.lists(st.integers(1, 6), min_size=1, max_size=2),
    limit=st.integers(20, 120),
    load=st.floats(0.05, 1.4),
)
def test_no_plan_that_keeps_up_strictly_is_missed(
    rates: list[int], limit: int, load: float
) -> None:
    """Against every proportional choice that fits, by enumeration of the scale factor."""
    types = [PromptType(rate, 1 + j, 2 - j) for j, rate in enumerate(rates)]
    total = sum(k.arrival_rate * memory_by_definition([k], (1,)) for k in types)
    d0, d1 = 0.5, load / total
    factors = sorted({k / rate for rate in rates for k in range(1, limit + 1)})
    good = []
    for factor in factors:
        counts = tuple(max(1, math.ceil(factor * rate - 1e-9)) for rate in rates)
        memory = memory_by_definition(types, counts)
        worst = min(n / rate for n, rate in zip(counts, rates, strict=True))
        if memory <= limit and worst > (d0 + d1 * memory) * (1 + 1e-7):
            good.append(counts)
    plan = wait_thresholds(types, d0, d1, limit)
    if good:
        assert plan.keeps_up_strictly
        assert plan.thresholds == good[0]
    else:
        assert not plan.keeps_up_strictly


def test_overload_takes_all_the_memory_there_is() -> None:
    types = [PromptType(3, 1, 1), PromptType(1, 2, 2)]
    plan = wait_thresholds(types, 0.5, 1.0, 100)
    assert not plan.keeps_up
    # W = 3 * 3 + 1 * 9 = 18; c = 100 / 18 = 5.6: n = (16, 5) holds 93; one more would be 96 or 102.
    assert plan.thresholds in {(16, 5), (17, 5), (18, 5)}
    assert plan.batch_memory <= 100
    steps = [(math.floor(c * 3), math.floor(c)) for c in np.arange(1, 10, 1 / 3) + 1e-9]
    best = max(s for s in steps if memory_by_definition(types, s) <= 100)
    assert plan.thresholds == best


def test_rules_of_section_6() -> None:
    """[A25] Section 6.1: B lambda_j / sum_i lambda_i (l'_i + 1), 128000 / (11000 + 21000) = 4."""
    assert batch_cap_thresholds(LOW_DEMAND, 128) == (4, 4)
    # As printed: 128 / 2 / 11 and 128 / 2 / 21.
    assert batch_cap_thresholds(LOW_DEMAND, 128, as_printed=True) == (5, 3)
    # 20000 / 2012000 of each rate.
    assert batch_cap_thresholds(HIGH_DEMAND, 2 * 10**4) == (59, 39, 19)
    assert batch_cap_thresholds(HIGH_DEMAND, 2 * 10**4, as_printed=True) == (99, 33, 11)
    assert batch_cap_thresholds(HIGH_DEMAND, 1) == (1, 1, 1)


def test_the_printed_rule_needs_more_memory_to_keep_up() -> None:
    """Equal rates, unequal thresholds: the smaller one decides how long an iteration may be."""
    d0, d1 = 0.001, 0.2 / 585_000
    fair = WaitPlan(tuple(LOW_DEMAND), batch_cap_thresholds(LOW_DEMAND, 128), d0, d1)
    printed = WaitPlan(
        tuple(LOW_DEMAND), batch_cap_thresholds(LOW_DEMAND, 128, as_printed=True), d0, d1
    )
    assert fair.drifts[0] == fair.drifts[1] > 0
    assert printed.drifts[1] < fair.drifts[1]
