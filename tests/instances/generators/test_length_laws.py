"""Laws with given moments, and drawing from laws against the raw PCG64 stream.

The families' own laws are held against NumPy's samplers in test_variable_length_families.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.generators.length_laws import draw_lengths, draw_order, lognormal_law, moments


@settings(max_examples=examples(20))
@given(median=st.integers(2, 60), excess=st.floats(1.05, 2.5), maximum=st.integers(400, 500))
def test_a_lognormal_law_has_its_mean_and_its_median(
    median: int, excess: float, maximum: int
) -> None:
    law = lognormal_law(median, median * excess, maximum)
    assert law.sum() == pytest.approx(1)
    lengths = np.arange(1, maximum + 1)
    mean, variance = moments(law)
    assert mean == pytest.approx(median * excess, rel=1e-9)
    assert variance == pytest.approx(law @ lengths**2 - mean**2)
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
