"""The output distributions of [C25] Section 5 and the trap of its Theorem 3.4."""

from __future__ import annotations

import numpy as np
import pytest

from instances import generate

SIGMAS = 5.0


def assert_law(outputs: np.ndarray, probabilities: np.ndarray) -> None:
    counts = np.bincount(outputs, minlength=len(probabilities) + 1)[1:]
    expected = probabilities * len(outputs)
    deviation = np.abs(counts - expected)
    assert (deviation <= SIGMAS * np.sqrt(expected * (1 - probabilities)) + 1e-9).all()


def test_two_point() -> None:
    """[C25] Section 5.1."""
    instance = generate("two-point", seed=1, n=20_000, lower=2, upper=6, memory_limit=50)
    law = np.zeros(6)
    law[1], law[5] = 0.75, 0.25
    assert_law(instance.output_lengths, law)
    assert instance.metadata["output_interval"] == [2, 6]
    assert (instance.prompt_lengths == 0).all()
    half = generate("two-point", seed=1, n=20_000, lower=2, upper=6, long_share=0.5)
    law[1] = law[5] = 0.5
    assert_law(half.output_lengths, law)


@pytest.mark.parametrize("name", ["geometric", "linearly-weighted-geometric"])
def test_decaying(name: str) -> None:
    """[C25] Sections 5.2, 5.3."""
    instance = generate(name, seed=2, n=40_000, q=0.6, upper=12, prompt_length=3)
    k = np.arange(1, 13)
    weights = 0.6 ** (k - 1.0) * (k if name != "geometric" else 1)
    assert_law(instance.output_lengths, weights / weights.sum())
    assert (instance.prompt_lengths == 3).all()
    assert instance.metadata["output_interval"] == [1, 12]
    assert generate(name, memory_limit=30, prompt_length=4).metadata["output_interval"] == [1, 26]


def test_a_max_trap() -> None:
    """[C25] Theorem 3.4."""
    instance = generate("a-max-trap", lower=4, upper=16, scale=10)
    assert instance.memory_limit == 64
    lengths, counts = np.unique(instance.output_lengths, return_counts=True)
    assert lengths.tolist() == [4, 16]
    assert counts.tolist() == [5 * 16, 10 * 4]
    assert generate("a-max-trap", seed=1).digest == generate("a-max-trap", seed=2).digest
