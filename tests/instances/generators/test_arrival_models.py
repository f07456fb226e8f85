"""Arrival Models 1 and 2 against the exact distributions of [J25] Section 5.1."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from instances import Instance, generate

TRIALS = 600
SIGMAS = 5.0


@cache
def drawn(name: str) -> tuple[Instance, ...]:
    return tuple(generate(name, seed=seed) for seed in range(TRIALS))


def assert_uniform(values: list[int], low: int, high: int) -> None:
    """Every value of low..high occurs, none outside, with a chi-square in its range."""
    counts = np.bincount(np.array(values) - low, minlength=high - low + 1)
    assert min(values) == low
    assert max(values) == high
    assert (counts > 0).all()
    expected = len(values) / (high - low + 1)
    freedom = high - low
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < freedom + SIGMAS * np.sqrt(2 * freedom)


def assert_standard(values: np.ndarray) -> None:
    """Mean 0 and variance 1 within sampling error."""
    size = len(values)
    assert abs(values.mean()) < SIGMAS / np.sqrt(size)
    fourth = (values**4).mean()
    assert abs((values**2).mean() - 1) < SIGMAS * np.sqrt((fourth - 1) / size)


def columns(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Limits (repeated for each request), prompts and outputs over all trials."""
    limits = np.concatenate([np.full(len(i), i.memory_limit) for i in drawn(name)])
    prompts = np.concatenate([i.prompt_lengths for i in drawn(name)])
    outputs = np.concatenate([i.output_lengths for i in drawn(name)])
    return limits, prompts, outputs


both = pytest.mark.parametrize("name", ["arrival-model-1", "arrival-model-2"])


@both
def test_output_lengths_are_uniform_on_1_to_what_the_prompt_leaves(name: str) -> None:
    limits, prompts, outputs = columns(name)
    room = limits - prompts
    assert (outputs >= 1).all()
    assert (outputs <= room).all()
    assert (outputs == 1).any()
    assert (outputs == room).any()
    assert_standard((outputs - (room + 1) / 2) / np.sqrt((room**2 - 1) / 12))
    # One room alone, all of its values: a mean and a variance do not make a uniform law.
    assert_uniform(outputs[room == 37].tolist(), 1, 37)


def test_model_2_counts_are_poisson_in_total_and_in_each_round() -> None:
    totals, rounds = [], []
    for instance in drawn("arrival-model-2"):
        rate = instance.metadata["arrival_rate"]
        horizon = instance.metadata["arrival_horizon"]
        totals.append((len(instance) - rate * horizon) / np.sqrt(rate * horizon))
        counts = np.bincount(instance.arrival_times, minlength=horizon + 1)[1:]
        rounds.extend((counts - rate) / np.sqrt(rate))
    assert_standard(np.array(totals))
    # Variance = mean in every round: what a thinned or a clipped process would miss.
    assert_standard(np.array(rounds))


@pytest.mark.parametrize("n", [10, 15, 20, 25, 50])
def test_model_1_with_a_given_n_follows_the_published_recipe(n: int) -> None:
    # The instances of the table of proved optima: a change here detaches every known bound.
    rng = np.random.default_rng(n)
    limit = int(rng.integers(30, 51))
    prompts = rng.integers(1, 6, n)
    outputs = [int(rng.integers(1, limit - s + 1)) for s in prompts]
    expected = Instance.from_arrays(prompts, outputs, memory_limit=limit)
    generated = generate("arrival-model-1", seed=n, n=n)
    assert generated.memory_limit == limit
    assert generated.prompt_lengths.tolist() == prompts.tolist()
    assert generated.output_lengths.tolist() == outputs
    assert generated.digest == expected.digest


def test_model_2_with_n_keeps_the_first_arrivals() -> None:
    for seed in range(20):
        short = generate("arrival-model-2", seed=seed, n=3).arrival_times.tolist()
        longer = generate("arrival-model-2", seed=seed, n=9).arrival_times.tolist()
        whole = generate("arrival-model-2", seed=seed).arrival_times.tolist()
        assert short == longer[:3] == whole[:3]


def test_model_2_with_a_large_n_runs_on_past_the_horizon() -> None:
    instance = generate("arrival-model-2", seed=0, n=400)
    rate, horizon = instance.metadata["arrival_rate"], instance.metadata["arrival_horizon"]
    assert len(instance) == 400
    assert (np.diff(instance.arrival_times) >= 0).all()
    assert instance.arrival_times.max() > horizon
    # The 400th arrival of a Poisson process comes at 400 / rate, give or take.
    assert abs(instance.arrival_times.max() - 400 / rate) < SIGMAS * np.sqrt(400) / rate
