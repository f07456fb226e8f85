"""The stand-ins for LMSYS-Chat-1M and arXiv summaries against the published moments."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from instances import Instance, generate, load, save

NAMES = ["lmsys-like", "mixed-long-short"]
SIGMAS = 5.0
N = 40_000

both = pytest.mark.parametrize("name", NAMES)


@cache
def drawn(name: str) -> Instance:
    return generate(name, seed=1, n=N)


def assert_mean(lengths: np.ndarray, mean: float) -> None:
    assert abs(lengths.mean() - mean) < SIGMAS * lengths.std() / np.sqrt(len(lengths))


def assert_median(lengths: np.ndarray, median: float) -> None:
    """Not more than half lies below the median or above it, up to the error of a share."""
    error = SIGMAS * 0.5 / np.sqrt(len(lengths))
    assert (lengths < median).mean() < 0.5 + error
    assert (lengths > median).mean() < 0.5 + error
    # Sharp enough: five per cent off would be seen.
    assert (lengths < 1.05 * median).mean() > 0.5 - error
    assert (lengths > 0.95 * median).mean() > 0.5 - error


def test_conversations_have_the_published_moments() -> None:
    # [W25] Section 7, first dataset.
    instance = drawn("lmsys-like")
    assert_mean(instance.prompt_lengths, 41.84)
    assert_median(instance.prompt_lengths, 12)
    assert_mean(instance.output_lengths, 85.35)
    assert_median(instance.output_lengths, 43)
    # [C25] Section 6: 1 to 468 and 1 to 883 tokens.
    assert (instance.prompt_lengths.min(), instance.prompt_lengths.max()) == (1, 468)
    assert (instance.output_lengths.min(), instance.output_lengths.max()) == (1, 883)


def test_the_mix_and_its_long_part_have_the_published_moments() -> None:
    # [W25] Section 7, second dataset; this share leaves 4 conversations in 40,000.
    instance = generate("mixed-long-short", seed=2, n=N, long_share=0.9999)
    assert_mean(instance.prompt_lengths, 2546.39)
    assert_median(instance.prompt_lengths, 2667.5)
    assert_mean(instance.output_lengths, 296.08)
    assert_median(instance.output_lengths, 161)
    # [W25] Section 7, Figure 7.
    instance = drawn("mixed-long-short")
    assert_mean(instance.prompt_lengths, 542.75)
    assert_mean(instance.output_lengths, 127.50)
    # The published median of the mixed prompts, 18, is that of one sample of 2000. Here half of
    # all prompts are at most as long as 5/8 of the short ones, minus the few long ones below.
    assert 17 <= np.median(instance.prompt_lengths) <= 23


def test_the_mix_is_1600_and_400_in_random_order() -> None:
    instance = generate("mixed-long-short", seed=5)
    assert len(instance) == 2000
    long = instance.prompt_lengths > 468
    # All but the few long ones whose prompt happens to be short: the law has 0.2 % below 469.
    assert 390 <= long.sum() <= 400
    assert generate("mixed-long-short", seed=5, long_share=0.0001).prompt_lengths.max() <= 468
    # Long ones spread over the order: places have the mean and variance of uniform ones.
    places = np.flatnonzero(long) / len(instance)
    assert abs(places.mean() - 0.5) < SIGMAS * np.sqrt(1 / 12 / len(places))


@both
def test_the_name_and_the_metadata_say_synthetic(name: str, tmp_path) -> None:
    instance = generate(name, seed=3, n=5)
    assert instance.name == f"{name} (synthetic)[seed=3,n=5]"
    assert "LMSYS-Chat-1M" in instance.metadata["synthetic"]
    save(instance, tmp_path / "x.json")
    assert load(tmp_path / "x.json") == instance


@both
def test_arrivals_are_a_poisson_process(name: str) -> None:
    instance = generate(name, seed=4, n=20_000, arrival_rate=0.25)
    gaps = np.diff(instance.arrival_times)
    assert (gaps >= 0).all()
    assert instance.arrival_times.min() >= 1
    # The k-th arrival has mean k / rate and variance k / rate^2.
    for k in (1000, 20_000):
        assert abs(instance.arrival_times[k - 1] - k / 0.25) < SIGMAS * np.sqrt(k) / 0.25 + 1
    counts = np.bincount(instance.arrival_times)[1:-1]
    size = len(counts)
    assert abs(counts.mean() - 0.25) < SIGMAS * np.sqrt(0.25 / size)
    # Variance = mean: what equal gaps or bursts would miss.
    squares = (counts - 0.25) ** 2
    assert abs(squares.mean() - 0.25) < SIGMAS * squares.std() / np.sqrt(size)


@both
def test_scaled_tokens_are_rounded_up(name: str) -> None:
    plain = generate(name, seed=7, n=500)
    scaled = generate(name, seed=7, n=500, token_scale=64, memory_limit=258)
    assert scaled.memory_limit == 258
    assert scaled.prompt_lengths.tolist() == [-(-int(s) // 64) for s in plain.prompt_lengths]
    assert scaled.output_lengths.tolist() == [-(-int(o) // 64) for o in plain.output_lengths]
