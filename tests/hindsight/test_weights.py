"""Weighted total latency against an enumeration that prunes by cost alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hindsight.exact_search.branch_and_bound import prove_by_windows

import hindsight
from hindsight.bounds.paper_bounds import by_layers, optimum_lower_bound, volume_bound
from hindsight.bounds.transportation import small_transportation_bound
from hindsight.bounds.volume import fill_by_volume, filling_prices, mean_busy_time_bound
from hindsight.integer_program.highs import compile_model, solve_linear
from hindsight.integer_program.models import model_size
from hindsight.testing.enumeration import optimum
from instances import Instance, InvalidValueError, MemoryRule, Schedule
from instances.batch_time import AffineTime

MOST_WEIGHT = (2, 3, 10, 50)


def drawn(seed: int) -> Instance:
    """Up to five requests; every second one with arrivals, some with an idle gap."""
    rng = np.random.default_rng([77, seed])
    n, limit = int(rng.integers(1, 6)), int(rng.integers(3, 14))
    prompts = rng.integers(1, min(4, limit - 1) + 1, n)
    outputs = [int(rng.integers(1, min(4, limit - s) + 1)) for s in prompts.tolist()]
    arrivals = rng.integers(0, 5, n) * (seed % 2)
    if seed % 10 == 3:
        arrivals[-1] += 25
    weights = rng.integers(1, MOST_WEIGHT[seed % 4] + 1, n)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit, weights=weights)


def least_weighted_latency(instance: Any, block_size: int = 1) -> int:
    """The least sum of w (C - a) over all starts that end by the latest arrival plus all work."""
    rows = sorted(
        ((q.arrival_time, q.prompt_length, q.output_length, q.weight) for q in instance.requests),
        key=lambda row: -row[3],
    )
    last = max(a for a, *_ in rows) + sum(o for *_, o, _ in rows)
    blocks = instance.memory_limit // block_size
    held, best = [0] * (last + 1), 10**12

    def place(k: int, cost: int) -> None:
        nonlocal best
        if k == len(rows):
            best = min(best, cost)
            return
        arrival, prompt, output, weight = rows[k]
        left = sum(w * o for _, _, o, w in rows[k + 1 :])
        for start in range(arrival, last - output + 1):
            dearer = cost + weight * (start + output - arrival)
            if dearer + left >= best:
                return
            ages = range(1, output + 1)
            taken = [-(-(prompt + age) // block_size) for age in ages]
            if all(held[start + age] + taken[age - 1] <= blocks for age in ages):
                for age in ages:
                    held[start + age] += taken[age - 1]
                place(k + 1, dearer)
                for age in ages:
                    held[start + age] -= taken[age - 1]

    place(0, 0)
    return best


def check_all(seed: int) -> None:
    instance = drawn(seed)
    least = least_weighted_latency(instance)
    assert optimum(instance, "total_latency") == least
    found = hindsight.solve(instance, progress=False)
    assert (found.upper_bound, found.lower_bound) == (least, least)
    assert found.certified_lower_bound <= least
    relaxed = hindsight.relax(instance, progress=False)
    assert relaxed.certified_bound <= least
    assert relaxed.objective <= least + 1e-6
    mean, flow = mean_busy_time_bound(instance), small_transportation_bound(instance)
    assert flow is not None
    assert mean <= flow <= least
    assert volume_bound(instance) <= least
    assert by_layers(instance, mean_busy_time_bound) <= least
    verdict = hindsight.check_certificate(hindsight.make_certificate(found.schedule, found.proof))
    assert verdict.lower_bound <= verdict.upper_bound == least
    last = int(instance.arrival_times.max() + instance.output_lengths.sum())
    for formulation in ("dense", "sparse"):
        model = compile_model(hindsight.build_model(instance, formulation, horizon=last))
        size = model_size(instance, formulation, last)
        assert size.columns == len(model.columns)
        solved = solve_linear(model.linear, time_limit=None, threads=1)
        assert solved.objective == pytest.approx(least)


@pytest.mark.parametrize("seed", range(6))
def test_all_bounds_hold_and_the_optimum_is_found(seed: int) -> None:
    check_all(seed)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_bounds_hold_and_optima_are_found_on_five_hundred() -> None:
    for seed in range(500):
        check_all(seed)
        instance = drawn(seed)
        if seed % 5 == 0:
            beams = hindsight.solve(instance, time_limit=0.3, method="beams", progress=False)
            sparse = hindsight.solve(instance, method="mip", formulation="sparse", progress=False)
            assert beams.lower_bound <= sparse.upper_bound == sparse.lower_bound
            assert beams.upper_bound >= sparse.upper_bound
            prices = hindsight.relax(instance, method="lagrangian", tolerance=1e-4, progress=False)
            assert prices.certified_bound <= sparse.upper_bound
            assert prices.dual_value <= prices.objective + 1e-9
            opinion = hindsight.crosscheck(instance, sparse)
            assert opinion.is_optimal


@pytest.mark.parametrize("seed", [1, 2])
def test_beams_and_cbc_agree_with_the_enumeration(seed: int) -> None:
    instance = drawn(seed)
    least = least_weighted_latency(instance)
    found = hindsight.solve(instance, time_limit=0.2, method="beams", progress=False)
    assert found.certified_lower_bound <= least <= found.upper_bound
    assert hindsight.crosscheck(instance, found).schedule is not None


@pytest.mark.parametrize("seed", [4, 9])
def test_blocks_take_weights(seed: int) -> None:
    given = drawn(seed)
    instance = Instance(given, given.memory_limit + 1, memory_rule=MemoryRule(block_size=2))
    found = hindsight.solve(instance, progress=False)
    assert found.lower_bound == found.upper_bound == least_weighted_latency(instance, 2)


HEAVY_LAST = Instance.from_arrays([1, 1], [3, 3], memory_limit=4, weights=[1, 5])


def test_the_heavier_of_two_equal_requests_goes_first() -> None:
    found = hindsight.solve(HEAVY_LAST, progress=False)
    assert found.schedule.start_times.tolist() == [3, 0]
    assert found.upper_bound == 6 + 5 * 3
    assert found.schedule.total_waiting == 3
    # Equal but for the weight: no columns are shared, and both orders are told apart.
    assert model_size(HEAVY_LAST, "sparse", 6).columns == 2 * 4 + 2 * 6


def test_filling_goes_by_volume_over_weight() -> None:
    # Volumes 9 and 9 with weights 1 and 5: the second is served in rounds 1 to 3.
    filling = fill_by_volume(HEAVY_LAST)
    assert filling.weighted_rounds == [3 * 3 + 4 * 4 + 5 * 2, 4 * 1 + 4 * 2 + 1 * 3]
    falling = -np.diff(filling_prices(filling), append=0.0)
    assert falling.tolist() == pytest.approx([5 / 9, 5 / 9, 1 / 9, 1 / 9, 0])
    for weight in (2, 7):
        alike = Instance.from_arrays([1, 2, 1], [3, 2, 1], memory_limit=4, weights=[weight] * 3)
        plain = Instance.from_arrays([1, 2, 1], [3, 2, 1], memory_limit=4)
        assert fill_by_volume(alike).weighted_rounds == fill_by_volume(plain).weighted_rounds


def test_large_weights_neither_overflow_nor_change_the_schedule() -> None:
    for scale in (1, 2**17):
        instance = Instance.from_arrays([1, 1], [3, 3], memory_limit=4, weights=[scale, 5 * scale])
        found = hindsight.solve(instance, progress=False)
        assert (found.lower_bound, found.upper_bound) == (21 * scale, 21 * scale)
    late = Instance.from_arrays([1], [1], [2**52], memory_limit=4, weights=[2**20])
    assert hindsight.solve(late, progress=False).upper_bound == 2**20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "paths"}, "counts every request alike: it takes no weights"),
        ({"method": "configurations"}, "counts every request alike: it takes no weights"),
        ({"method": "counts"}, "counts every request alike: it takes no weights"),
        ({"preemptive": True}, "preemptive=True counts every request alike"),
        ({"batch_time": AffineTime(1.0)}, "with a batch time every request counts alike"),
    ],
)
def test_what_counts_every_request_alike_refuses_weights(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidValueError, match=message):
        hindsight.solve(HEAVY_LAST, progress=False, **options)


def test_the_lemmas_of_the_paper_refuse_weights() -> None:
    with pytest.raises(InvalidValueError, match="lemma counts every request alike"):
        optimum_lower_bound(HEAVY_LAST)
    with pytest.raises(InvalidValueError, match="batch time every request counts alike"):
        hindsight.relax(HEAVY_LAST, batch_time=AffineTime(1.0))
    with pytest.raises(InvalidValueError, match="what runs together count every request alike"):
        hindsight.relax_strengthened(HEAVY_LAST)
    with pytest.raises(InvalidValueError, match="window tree counts every request alike"):
        prove_by_windows(HEAVY_LAST, Schedule(HEAVY_LAST, [0, 3]))


def test_the_makespan_takes_no_notice_of_weights() -> None:
    for seed in range(4):
        weighted = drawn(seed)
        columns = weighted.prompt_lengths, weighted.output_lengths, weighted.arrival_times
        plain = Instance.from_arrays(*columns, memory_limit=weighted.memory_limit)
        ends = [
            hindsight.solve(one, objective="makespan", progress=False).upper_bound
            for one in (weighted, plain)
        ]
        assert ends[0] == ends[1]


def test_a_start_and_a_user_bound_are_of_the_weighted_problem() -> None:
    start = Schedule(HEAVY_LAST, [0, 3])
    assert start.total_latency == 3 + 5 * 6
    bound = hindsight.solve(
        HEAVY_LAST, start=start, bounds=[lambda instance: instance.total_output_length]
    )
    assert bound.upper_bound == 21
    twice = Instance.from_arrays([1, 1], [3, 3], memory_limit=4, weights=[2, 5])
    with pytest.raises(InvalidValueError, match="another instance"):
        hindsight.solve(twice, start=start)
