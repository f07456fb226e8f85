"""The families of [W25] Section EC.4.2 against its laws, drawn and computed by other means."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from instances import Instance, generate

FAMILIES = ["uniform", "normal", "binomial", "exponential", "mixed"]
SIGMAS = 5.0
N = 40_000
LONGEST = 50


@cache
def drawn(name: str) -> Instance:
    return generate(name, seed=1, n=N)


def as_the_paper_draws(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Prompts and outputs drawn as EC.4.2 says, by NumPy's own samplers, then rounded."""
    rng = np.random.default_rng(12345)

    def whole(values: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(values), 1, LONGEST).astype(int)

    if name == "uniform":
        return rng.integers(1, 51, n), rng.integers(1, 51, n)
    if name == "normal":
        return whole(rng.normal(25, 8.33, n)), whole(rng.normal(25, 8.33, n))
    if name == "binomial":
        return rng.binomial(49, 0.5, n) + 1, rng.binomial(49, 0.5, n) + 1
    if name == "exponential":
        return whole(rng.exponential(5, n)), whole(rng.exponential(5, n))
    prompts = np.where(
        rng.random(n) < 0.8, rng.exponential(10, n), rng.lognormal(np.log(40), 0.25, n)
    )
    prompts = np.where(prompts > 50, rng.uniform(40, 50, n), prompts)
    return whole(prompts), whole(rng.exponential(5, n))


def assert_same_law(found: np.ndarray, expected: np.ndarray) -> None:
    """Every length is as frequent in one sample as in the other, within sampling error."""
    counts = [np.bincount(one, minlength=LONGEST + 1) for one in (found, expected)]
    shares = [count / len(one) for count, one in zip(counts, (found, expected), strict=True)]
    pooled = sum(counts) / (len(found) + len(expected))
    error = np.sqrt(pooled * (1 - pooled) * (1 / len(found) + 1 / len(expected)))
    assert (np.abs(shares[0] - shares[1]) <= SIGMAS * error + 1e-12).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_lengths_follow_the_law_of_the_paper(name: str) -> None:
    instance = drawn(name)
    reference = as_the_paper_draws(name, 400_000)
    for found, expected in zip(
        (instance.prompt_lengths, instance.output_lengths), reference, strict=True
    ):
        assert_same_law(found, expected)


@pytest.mark.parametrize(
    ("name", "parameters", "prompt_mean", "output_mean"),
    [
        ("normal", {"mean": 15.0, "standard_deviation": 2.0}, 15, 15),
        ("binomial", {"probability": 0.25}, 1 + 49 / 4, 1 + 49 / 4),
        ("uniform", {"maximum_length": 9}, 5, 5),
        # Rounding to the nearest leaves a mean of scale where clipping below 1 adds
        # P(X < 1/2) = 1 - exp(-1 / (2 scale)); the rest of rounding is below 0.01.
        (
            "exponential",
            {"scale": 20.0, "maximum_length": 1000, "memory_limit": 2000},
            20 + 1 - np.exp(-1 / 40),
            20 + 1 - np.exp(-1 / 40),
        ),
        ("mixed", {"long_share": 0.999, "long_median": 20, "long_sigma": 0.01}, 20, None),
    ],
)
def test_parameters_mean_what_they_say(
    name: str, parameters: dict, prompt_mean: float, output_mean: float | None
) -> None:
    instance = generate(name, seed=3, n=N, **parameters)
    for lengths, mean in (
        (instance.prompt_lengths, prompt_mean),
        (instance.output_lengths, output_mean),
    ):
        if mean is not None:
            assert abs(lengths.mean() - mean) < SIGMAS * lengths.std() / np.sqrt(N) + 0.02
