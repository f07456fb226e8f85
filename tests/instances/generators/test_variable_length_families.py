"""The families of [W25] Section EC.4.2 against its laws, drawn and computed by other means."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from instances import Instance, InvalidTypeError, InvalidValueError, generate, generator_parameters

FAMILIES = ["uniform", "normal", "binomial", "exponential", "mixed"]
SIGMAS = 5.0
N = 40_000
M, LONGEST = 100, 50

every = pytest.mark.parametrize("name", FAMILIES)


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


def assert_same_moments(found: np.ndarray, expected: np.ndarray) -> None:
    """Means and variances of two samples agree within SIGMAS standard errors."""
    error = np.sqrt(found.var() / len(found) + expected.var() / len(expected))
    assert abs(found.mean() - expected.mean()) < SIGMAS * error
    squares = [(one - one.mean()) ** 2 for one in (found, expected)]
    error = np.sqrt(sum(one.var() / len(one) for one in squares))
    assert abs(squares[0].mean() - squares[1].mean()) < SIGMAS * error


def assert_same_law(found: np.ndarray, expected: np.ndarray) -> None:
    """Every length is as frequent in one sample as in the other, within sampling error."""
    counts = [np.bincount(one, minlength=LONGEST + 1) for one in (found, expected)]
    shares = [count / len(one) for count, one in zip(counts, (found, expected), strict=True)]
    pooled = sum(counts) / (len(found) + len(expected))
    error = np.sqrt(pooled * (1 - pooled) * (1 / len(found) + 1 / len(expected)))
    assert (np.abs(shares[0] - shares[1]) <= SIGMAS * error + 1e-12).all()


@every
def test_lengths_follow_the_law_of_the_paper(name: str) -> None:
    instance = drawn(name)
    reference = as_the_paper_draws(name, 400_000)
    for found, expected in zip(
        (instance.prompt_lengths, instance.output_lengths), reference, strict=True
    ):
        assert_same_moments(found, expected)
        assert_same_law(found, expected)


@pytest.mark.parametrize(
    ("name", "prompt", "output"),
    [
        # Mean and variance in closed form, before rounding and clipping; what rounding adds to a
        # variance (1/12) and what clipping takes away stand beside.
        ("uniform", (25.5, (50**2 - 1) / 12), (25.5, (50**2 - 1) / 12)),
        ("binomial", (25.5, 49 / 4), (25.5, 49 / 4)),
        ("normal", (25.0, 8.33**2 + 1 / 12), (25.0, 8.33**2 + 1 / 12)),
    ],
)
def test_moments_in_closed_form(name: str, prompt: tuple, output: tuple) -> None:
    # Clipping N(25, 8.33^2) to 1 .. 50 moves the mean by less than 0.01, the variance by 0.5.
    slack = (0.01, 0.5) if name == "normal" else (0.0, 0.0)
    instance = drawn(name)
    for lengths, (mean, variance) in (
        (instance.prompt_lengths, prompt),
        (instance.output_lengths, output),
    ):
        error = np.sqrt(variance / N)
        assert abs(lengths.mean() - mean) < SIGMAS * error + slack[0]
        squares = (lengths - lengths.mean()) ** 2
        assert abs(squares.mean() - variance) < SIGMAS * squares.std() / np.sqrt(N) + slack[1]


@every
def test_prompts_and_outputs_are_independent(name: str) -> None:
    correlation = np.corrcoef(drawn(name).prompt_lengths, drawn(name).output_lengths)[0, 1]
    assert abs(correlation) < SIGMAS / np.sqrt(N)


@every
def test_the_setting_of_the_paper_is_the_default(name: str) -> None:
    instance = generate(name)
    assert instance.memory_limit == M
    assert len(instance) == (200 if name == "mixed" else 100)
    assert not instance.arrival_times.any()
    assert drawn(name).prompt_lengths.max() <= LONGEST
    assert drawn(name).output_lengths.max() <= LONGEST
    assert min(drawn(name).prompt_lengths.min(), drawn(name).output_lengths.min()) >= 1


def test_the_mixed_family_has_two_modes_and_no_prompt_above_the_maximum() -> None:
    # Figure EC.1: many short prompts, a second bump at 40.
    counts = np.bincount(drawn("mixed").prompt_lengths, minlength=51)
    assert counts[1] > counts[10] > counts[24] < counts[42]
    # Remapped, not clipped: 50 takes the share of half a unit of U(40, 50), not all of the tail.
    assert counts[50] < counts[49] < 1.5 * counts[48]


CHANGES = {
    "n": 7,
    "maximum_length": 42,
    "memory_limit": 120,
    "mean": 15.0,
    "standard_deviation": 2.0,
    "probability": 0.25,
    "scale": 2.0,
    "short_scale": 3.0,
    "long_share": 0.6,
    "long_median": 20.0,
    "long_sigma": 0.5,
    "remap_lower": 10,
    "output_scale": 2.0,
}


@every
def test_every_parameter_is_used(name: str) -> None:
    plain = generate(name, seed=1, n=10_000).digest
    for parameter in generator_parameters(name):
        changed = generate(name, seed=1, **{"n": 10_000, parameter: CHANGES[parameter]})
        assert changed.digest != plain, parameter


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


@pytest.mark.parametrize(
    ("name", "parameters", "error"),
    [
        *((name, {"n": 0}, InvalidValueError) for name in FAMILIES),
        *((name, {"memory_limit": 99}, InvalidValueError) for name in FAMILIES),
        *((name, {"maximum_length": 1}, InvalidValueError) for name in FAMILIES),
        ("normal", {"mean": float("nan")}, InvalidValueError),
        ("normal", {"mean": "25"}, InvalidTypeError),
        ("normal", {"standard_deviation": 0}, InvalidValueError),
        ("binomial", {"probability": 1}, InvalidValueError),
        ("binomial", {"probability": True}, InvalidTypeError),
        ("exponential", {"scale": -1.0}, InvalidValueError),
        ("exponential", {"scale": float("inf")}, InvalidValueError),
        ("exponential", {"scale": 10**400}, InvalidValueError),
        ("mixed", {"long_share": 0}, InvalidValueError),
        ("mixed", {"short_scale": 0}, InvalidValueError),
        ("mixed", {"long_median": 0}, InvalidValueError),
        ("mixed", {"long_sigma": 0}, InvalidValueError),
        ("mixed", {"remap_lower": 50}, InvalidValueError),
        ("mixed", {"output_scale": 0}, InvalidValueError),
    ],
)
def test_bad_parameters(name: str, parameters: dict, error: type[Exception]) -> None:
    (field,) = parameters
    with pytest.raises(error, match=field):
        generate(name, **parameters)
