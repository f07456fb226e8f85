"""The laws against scipy's distributions, and drawing from them against the raw PCG64 stream."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.generators.length_laws import (
    binomial_law,
    draw_lengths,
    draw_order,
    exponential,
    lognormal,
    lognormal_law,
    mixture,
    moments,
    normal,
    rounded,
    uniform_law,
)


def rounded_by_scipy(distribution, maximum: int) -> np.ndarray:
    limits = np.concatenate([[-np.inf], np.arange(1, maximum) + 0.5, [np.inf]])
    return np.diff(distribution.cdf(limits))


SPREADS = st.floats(0.1, 60)


@given(
    pair=st.one_of(
        st.builds(
            lambda mean, spread: (normal(mean, spread), scipy.stats.norm(mean, spread)),
            st.floats(-20, 80),
            SPREADS,
        ),
        st.builds(lambda scale: (exponential(scale), scipy.stats.expon(scale=scale)), SPREADS),
        st.builds(
            lambda median, s: (lognormal(median, s), scipy.stats.lognorm(s, scale=median)),
            SPREADS,
            st.floats(0.05, 3),
        ),
    ),
    maximum=st.integers(2, 80),
)
def test_rounded_laws_are_those_of_scipy(pair, maximum: int) -> None:
    cumulative, distribution = pair
    expected = rounded_by_scipy(distribution, maximum)
    np.testing.assert_allclose(rounded(cumulative, maximum), expected, atol=1e-12)


@given(probability=st.floats(0.001, 0.999), maximum=st.integers(2, 400))
def test_binomial(probability: float, maximum: int) -> None:
    expected = scipy.stats.binom(maximum - 1, probability).pmf(np.arange(maximum))
    np.testing.assert_allclose(binomial_law(probability, maximum), expected, atol=1e-10)


def test_mixture_and_uniform() -> None:
    both = rounded(mixture([0.25, 0.75], [exponential(3), normal(10, 2)]), 20)
    apart = [rounded(exponential(3), 20), rounded(normal(10, 2), 20)]
    np.testing.assert_allclose(both, 0.25 * apart[0] + 0.75 * apart[1], atol=1e-15)
    assert moments(uniform_law(6)) == (pytest.approx(3.5), pytest.approx(35 / 12))


@settings(max_examples=examples(20))
@given(median=st.integers(2, 60), excess=st.floats(1.05, 2.5), maximum=st.integers(400, 500))
def test_a_lognormal_law_has_its_mean_and_its_median(
    median: int, excess: float, maximum: int
) -> None:
    law = lognormal_law(median, median * excess, maximum)
    assert law.sum() == pytest.approx(1)
    assert law @ np.arange(1, maximum + 1) == pytest.approx(median * excess, rel=1e-9)
    below, up_to = law[: median - 1].sum(), law[:median].sum()
    assert below < 0.5 <= up_to + 1e-12


def test_draws_are_the_raw_stream_of_pcg64_inverted() -> None:
    # What makes a seed mean the same everywhere: nothing but 64-bit words enters, whose stream
    # NumPy keeps; how `random` makes a number of one is spelled out here.
    law = np.array([3.0, 1.0, 4.0])
    words = np.random.PCG64(7).random_raw(1000)
    uniforms = [(int(word) >> 11) / 2**53 for word in words]
    expected = [1 if u < 3 / 8 else 2 if u < 4 / 8 else 3 for u in uniforms]
    assert draw_lengths(np.random.Generator(np.random.PCG64(7)), law, 1000).tolist() == expected
    order = draw_order(np.random.Generator(np.random.PCG64(7)), 1000)
    assert order.tolist() == sorted(range(1000), key=lambda k: uniforms[k])


def test_lengths_without_probability_are_not_drawn() -> None:
    law = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    drawn = draw_lengths(np.random.Generator(np.random.PCG64(1)), law, 5000)
    assert set(drawn.tolist()) == {2, 4}
