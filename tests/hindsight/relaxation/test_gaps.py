"""Relaxations of instances with long idle gaps: blocks that do not meet add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hindsight
from hindsight.bounds.idle_gaps import compress
from hindsight.bounds.memory_prices import price_bound
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.results import Fractions
from hindsight.relaxation import gaps
from instances import Instance

FAR = 10**9
BLOCKS = [
    ([3, 1, 2, 4], [4, 3, 5, 2], [0, 0, 1, 2]),
    ([2, 5, 1], [6, 2, 3], [0, 3, 3]),
    ([4], [5], [0]),
]


def block(k: int) -> Instance:
    return Instance.from_arrays(*BLOCKS[k], memory_limit=10)


def far_apart(order: list[int]) -> Instance:
    """The blocks at 0, FAR, 2 FAR, their requests in the given order."""
    columns = [
        np.concatenate([np.array(BLOCKS[k][c]) + (k * FAR if c == 2 else 0) for k in range(3)])
        for c in range(3)
    ]
    prompts, outputs, arrivals = (column[order] for column in columns)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=10)


@pytest.mark.slow
def test_blocks_far_apart_have_the_sum_of_their_values() -> None:
    order = [5, 0, 7, 2, 6, 1, 4, 3]
    instance = far_apart(order)
    relaxed = hindsight.relax(instance, tolerance=1e-7)
    rows = [hindsight.relax(block(k), method="lp") for k in range(3)]
    value = sum(each.objective for each in rows)
    assert relaxed.stop_reason == "tolerance"
    assert relaxed.method == "lagrangian"
    assert relaxed.instance is instance
    assert relaxed.is_feasible
    assert relaxed.objective == pytest.approx(value, rel=1e-6)
    assert relaxed.dual_value == pytest.approx(value, rel=1e-6)
    assert relaxed.dual_value <= value * (1 + 1e-9)
    optimum = sum(hindsight.solve(block(k)).upper_bound for k in range(3))
    assert relaxed.certified_bound <= optimum
    waits = relaxed.expected_start_times - instance.arrival_times
    assert waits.min() >= 0
    cost = float((waits + instance.output_lengths).sum())
    assert cost == pytest.approx(relaxed.objective, rel=1e-6)
    for request, (at, share), mean in zip(
        instance, relaxed.fractions, relaxed.expected_start_times, strict=True
    ):
        assert at.min() >= request.arrival_time
        assert float(at @ share) == pytest.approx(float(mean))
    own = compress(instance).instance
    assert price_bound(own, relaxed.memory_prices).bound == relaxed.certified_bound


def test_what_reaches_into_the_next_block_proves_less() -> None:
    """Prices of one block that are paid in the next, and a start too late for its own."""
    instance = far_apart(list(range(8)))
    own = compress(instance).instance
    first = int(own.arrival_times[4])
    late = MemoryPrices(np.append(np.full(first, 50), np.full(30, 50)).astype(np.int64), 1)

    def broken(given: Instance) -> hindsight.Relaxation:
        good = hindsight.relax(given, method="lagrangian", tolerance=0.1)
        beyond = np.array([first], dtype=np.int64)
        weights = [(beyond, np.ones(1)), *good.fractions[1:]]
        fractions = Fractions.listed(weights, np.arange(len(weights)))
        value = float(price_bound(given, late).scaled_value)
        return replace(good, memory_prices=late, dual_value=value, fractions=fractions)

    relaxed = gaps.relax_without_gaps(instance, broken)
    assert not relaxed.is_feasible
    assert relaxed.stop_reason == "stalled"
    assert relaxed.objective >= sum(hindsight.solve(block(k)).upper_bound for k in range(3))
    # By hand: every start of the first block up to its end, or past it at no price at all.
    total = 0
    begins = gaps.next_block_begins(compress(instance)).tolist()
    cheapest = price_bound(own, late).cheapest.tolist()
    for request, begin, least in zip(own, begins, cheapest, strict=True):
        total += min(least, begin + 1 - request.arrival_time)
    assert relaxed.dual_value == total - 10 * sum(late.numerators.tolist())


def test_next_blocks_begin_where_the_first_of_their_requests_arrives() -> None:
    compressed = compress(far_apart([5, 0, 7, 2, 6, 1, 4, 3]))
    begins = gaps.next_block_begins(compressed).tolist()
    second, third = (int(compressed.instance.arrival_times[k]) for k in (6, 2))
    last = 2**62
    assert begins == [third, second, last, second, third, second, third, second]


def test_gaps_of_moderate_length_stay() -> None:
    """Their prices then belong to the rounds of the instance itself."""
    instance = Instance.from_arrays([2, 3], [3, 2], [0, 5000], memory_limit=8)
    relaxed = hindsight.relax(instance, method="lagrangian")
    assert relaxed.certified_bound == price_bound(instance, relaxed.memory_prices).bound == 5
