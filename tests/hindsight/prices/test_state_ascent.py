"""Dual ascents: gradients, capacities, overflow, and threads that change nothing."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_instances import crowded, maximum_weight

import hindsight
from hindsight.exact.starts import all_starts
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.prices.state_ascent import StateAscent
from hindsight.prices.state_kernels import SoftMaxima, capacities, soft_capacities
from hindsight.prices.state_tables import States, ordered_states, state_copies
from hindsight.prices.states import SCALE, exact_bound, integer_capacities
from hindsight.rounds.program import starts_left_by_states
from instances import Instance, generate
from instances.arrays import FloatArray, IntArray

LIMIT = 12


def random_states(seed: int, scale: float = 2.0) -> tuple[IntArray, States, FloatArray]:
    """States of six random requests at M = 12, and prices for three epochs."""
    rng = np.random.default_rng(seed)
    prompts = rng.integers(1, 4, 6)
    outputs = np.array([int(rng.integers(1, LIMIT - s + 1)) for s in prompts])
    copies = state_copies(prompts, outputs, LIMIT)
    states = ordered_states(copies)
    return copies, states, rng.random((3, len(states.held))) * scale


def hard(Q: FloatArray, states: States) -> FloatArray:
    """The heaviest configuration at each epoch."""
    W = np.zeros(len(Q), dtype=np.int64)
    capacities(np.rint(Q * SCALE).astype(np.int64), states, W, 0, 1)
    return W / SCALE


def soft(Q: FloatArray, states: States, heat: float) -> SoftMaxima:
    """From the hard maxima on, every priced state looked at."""
    maxima = SoftMaxima(hard(Q, states), np.zeros_like(Q), np.zeros(Q.shape, np.bool_))
    soft_capacities(Q, np.zeros_like(Q), states, heat, maxima, True, 0, 1)
    return maxima


@pytest.mark.parametrize("seed", range(5))
def test_marginals_are_the_gradient_and_the_soft_maximum_exceeds_the_hard(seed: int) -> None:
    _, states, Q = random_states(seed)
    base = soft(Q, states, 0.4)
    assert (base.level >= hard(Q, states) - 1e-9).all()
    for state in range(len(states.held)):
        change = np.zeros_like(Q)
        change[1, state] = 1e-5
        up, down = soft(Q + change, states, 0.4).level, soft(Q - change, states, 0.4).level
        slope = (up - down)[1] / 2e-5
        assert slope == pytest.approx(base.marginals[1, state], abs=1e-5)
    assert soft(Q, states, 0.005).level == pytest.approx(hard(Q, states), abs=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_capacities_agree_with_the_exact_dynamic_program(seed: int) -> None:
    copies, states, Q = random_states(seed)
    Q = np.round(Q * 50)
    found = np.zeros(len(Q), dtype=np.int64)
    capacities(Q.astype(np.int64), states, found, 0, 1)
    prices = np.zeros((len(Q), *copies.shape), dtype=np.int64)
    prices[:, states.held, states.rounds] = Q.astype(np.int64)
    for epoch, capacity in enumerate(integer_capacities(prices, copies).tolist()):
        assert maximum_weight(prices[epoch], copies, LIMIT) == capacity == found[epoch]


@pytest.mark.parametrize("scale", [100.0, 2000.0])
def test_large_prices_do_not_overflow(scale: float) -> None:
    _, states, Q = random_states(3, scale)
    found = soft(Q, states, 0.01)
    assert np.isfinite(found.level).all()
    assert (found.level >= hard(Q, states) - 1e-6 * scale).all()
    assert (found.marginals >= 0).all()
    assert (found.marginals <= states.copies + 1e-6).all()


def ascent_of(instance: Instance, epochs: int, threads: int = 1) -> StateAscent:
    return StateAscent(instance, epochs - 1, threads=threads, must_stop=lambda: True)


def test_threads_do_not_change_a_single_bit() -> None:
    instance = generate("arrival-model-2", seed=1, n=8)
    epochs = int(instance.arrival_times.max() + instance.output_lengths.sum()) + 1
    alone, shared = ascent_of(instance, epochs), ascent_of(instance, epochs, threads=3)
    for ascent in (alone, shared):
        ascent.improve(40)
    assert (alone.prices == shared.prices).all()
    assert alone.prices.any()


def test_the_best_prices_are_kept_whoever_shares_them() -> None:
    instance = generate("arrival-model-1", seed=3, n=10)
    ascent = StateAscent(instance, 60)
    bounds = [exact_bound(ascent.integer_prices()[0], instance)]
    for width in (4, 2, 1):
        ascent.share(width)
        assert ascent.width == width
        assert len(ascent.prices) == -(-61 // width)
        ascent.improve(40)
        Q, W = ascent.integer_prices()
        assert len(Q) == len(W) == 61
        bounds.append(exact_bound(Q, instance))
    assert bounds[0] < bounds[-1] == max(bounds)


def test_late_requests_cost_their_penalty_at_most() -> None:
    """Two of three requests fit before their deadline: at good prices one is late."""
    instance = Instance.from_arrays([2] * 3, [2] * 3, memory_limit=8)
    ascent = StateAscent(instance, 6, last=np.zeros(3, np.int64), penalty=100.0)
    for _ in range(6):
        ascent.improve(200)
    Q, W = ascent.integer_prices()
    paid = sum(int(Q[age, 2 + age, 2 - age]) for age in range(2))
    assert 0.9 < (3 * min(paid, 100 * SCALE) - int(W.sum())) / (100 * SCALE) <= 1


@pytest.mark.parametrize("begin", ["prices", "tables"])
def test_an_ascent_stops_when_told(begin: str) -> None:
    instance = generate("arrival-model-1", seed=3, n=8)
    asked = iter([False, False, False, True])
    if begin == "tables":
        StateAscent(instance, 199, must_stop=lambda: next(asked))
    else:
        ascent_of(instance, 200).improve(10_000, must_stop=lambda: next(asked))
    assert next(asked, None) is None


@pytest.mark.parametrize("replicas", [1, 2])
def test_starts_of_an_optimal_schedule_are_kept(replicas: int) -> None:
    instance = crowded(3, 3, (6, 6)).replaced(replicas=replicas)
    interval = Interval(Problem(instance))
    interval.offer(hindsight.solve(instance, progress=False, threads=1).schedule)
    makespan = interval.schedule.makespan
    every = all_starts(instance, makespan).starts
    kept = starts_left_by_states(interval, StateAscent(instance, makespan).integer_prices(), every)
    assert sum(map(len, kept)) < sum(map(len, every))
    begun = instance.arrival_times + interval.schedule.latencies - instance.output_lengths
    assert all(start in own for start, own in zip(begun.tolist(), kept, strict=True))
