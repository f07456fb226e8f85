"""The prediction models: what they tell, and whether it is true."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online import (
    BucketPredictions,
    ExactPredictions,
    IntervalPredictions,
    NoisyPredictions,
    Prediction,
    ProportionalPredictions,
    RelativePredictions,
)

RNG = np.random.default_rng(0)


@given(st.integers(1, 1000))
def test_every_honest_model_tells_the_truth(output: int) -> None:
    """[J25] Section 2."""
    for model in (
        ExactPredictions(),
        IntervalPredictions(1, 1000),
        BucketPredictions(),
        ProportionalPredictions(0.95),
        NoisyPredictions(7),
    ):
        told = model.predict(3, output, RNG)
        assert told.lower <= output <= told.upper
        assert told.is_exact is (told.lower == told.upper)


def test_intervals_and_buckets() -> None:
    """[C25] Sections 2, 4.2."""
    assert IntervalPredictions(1, 1000).predict(3, 17, RNG) == Prediction(1, 500, 1000)
    for output, upper in ((1, 100), (100, 100), (101, 200), (1000, 1000)):
        told = BucketPredictions().predict(3, output, RNG)
        assert told == Prediction(upper - 99, upper - 50, upper)


@given(st.integers(1, 1000), st.sampled_from(["0", "0.1", "0.5", "0.99"]))
def test_proportional_intervals_round_outwards(output: int, spread: str) -> None:
    """[C25] Section 6."""
    told = ProportionalPredictions(float(spread)).predict(3, output, RNG)
    low, high = (1 - Fraction(spread)) * output, (1 + Fraction(spread)) * output
    assert max(Fraction(1), low) - 1 < told.lower <= max(Fraction(1), low)
    assert high <= told.upper < high + 1


def test_noise_is_uniform_and_bounded() -> None:
    """[J25] Section 6."""
    points = [NoisyPredictions(2).predict(3, 10, RNG).point for _ in range(5000)]
    counts = np.bincount(points, minlength=13)[8:]
    assert set(points) == {8, 9, 10, 11, 12}
    assert ((counts - 1000) ** 2 / 1000).sum() < 25
    assert NoisyPredictions(0).predict(3, 10, RNG).is_exact


def test_some_noise_breaks_its_promise() -> None:
    model = NoisyPredictions(2, wrong=0.5)
    told = [model.predict(3, 50, RNG) for _ in range(1000)]
    broken = sum(not one.lower <= 50 <= one.upper for one in told)
    assert 350 < broken < 550


@pytest.mark.parametrize("error", [0.1, 0.5, 2.0])
def test_relative_predictions_are_off_by_the_share_stated(error: float) -> None:
    model = RelativePredictions(error)
    rng = np.random.default_rng(4)
    told = [model.predict(3, 10_000, rng) for _ in range(20_000)]
    points = np.array([one.point for one in told])
    assert all(one.is_exact for one in told)
    assert np.abs(points / 10_000 - 1).mean() == pytest.approx(error, rel=0.06)
    assert np.median(points) == pytest.approx(10_000, rel=0.05)
    assert min(RelativePredictions(10).predict(3, 1, rng).point for _ in range(100)) == 1
    assert RelativePredictions(0).predict(3, 17, rng) == Prediction(17, 17, 17)
