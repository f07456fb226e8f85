"""Histograms, distributions and curves: counts and ends, read back from matplotlib."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online import Interval, pictures
from online.pictures.curves import student_interval
from online.pictures.histograms import certain_and_possible


def interval(low: str | None, high: str | None) -> Interval:
    return Interval(*(None if end is None else Fraction(end) for end in (low, high)))


RATIOS = [
    interval("1", "1"),
    interval("1.2", "1.2"),
    interval("1.1", "1.15"),
    interval("1.15", "1.35"),
    interval("1.25", None),
    interval(None, "1.05"),
]
EDGES = [1.0, 1.125, 1.25, 1.5]


def test_counts_are_certain_or_possible() -> None:
    certain, possible = certain_and_possible(RATIOS, EDGES)
    # By hand: 1 and [?, 1.05] in the first bin, [1.1, 1.15] in the first or second,
    # 1.2 in the second, [1.15, 1.35] in the second or third, [1.25, ?] in the third or beyond.
    assert certain.tolist() == [2, 1, 0]
    assert possible.tolist() == [3, 3, 2]


@given(
    st.lists(
        st.tuples(st.integers(8, 24), st.integers(0, 8)).map(
            lambda pair: Interval(Fraction(pair[0], 8), Fraction(sum(pair), 8))
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 6),
)
def test_the_truth_lies_between_certain_and_possible(ratios: list[Interval], bins: int) -> None:
    edges = np.linspace(1.0, 4.0, bins + 1)
    certain, possible = certain_and_possible(ratios, edges)
    for end in ("lower", "upper"):
        truth = np.histogram([float(getattr(one, end)) for one in ratios], edges)[0]
        assert (certain <= truth).all()
        assert (truth <= possible).all()
    if all(one.is_exact for one in ratios):
        assert certain.tolist() == possible.tolist()


def test_the_histogram_draws_those_counts() -> None:
    ax = pictures.ratio_histogram(RATIOS, bins=3)
    ax.figure.canvas.draw()
    solid = [bar for bar in ax.patches if not bar.get_hatch()]
    hatched = [bar for bar in ax.patches if bar.get_hatch()]
    assert [bar.get_height() for bar in solid] == [2, 1, 0]
    assert [(bar.get_y(), bar.get_height()) for bar in hatched] == [(2, 1), (1, 2), (0, 2)]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["surely here (2 of 6 optima proved)", "possibly here"]
    assert ax.get_ylabel() == "trials"


def test_proved_ratios_leave_nothing_hatched() -> None:
    exact = [interval(text, text) for text in ("1", "1.5", "1.5", "2")]
    ax = pictures.ratio_histogram(exact, bins=4)
    assert [bar.get_height() for bar in ax.patches] == [1, 0, 2, 1]
    assert not any(bar.get_hatch() for bar in ax.patches)
    same = pictures.ratio_histogram([interval("1", "1")] * 3, bins=2)
    assert sum(bar.get_height() for bar in same.patches) == 3


# --- curves ------------------------------------------------------------------------------------


def test_error_bars_are_student_intervals() -> None:
    values = [3.0, 5.0, 4.0, 8.0]
    # The 97.5 % point of Student's t with three degrees of freedom, from a printed table.
    half = 3.182446 * statistics.stdev(values) / 2
    assert student_interval(values) == (5.0, pytest.approx(half, rel=1e-6))
    assert student_interval([2.0]) == (2.0, math.inf)


def test_curves_are_drawn_with_their_bars() -> None:
    samples = {30: [6.0, 6.0, 9.0], 10: [2.0], 20: [3.0, 5.0]}
    ax = pictures.latency_curves({"mc-sf": samples, "fcfs": samples}, x_label="requests")
    ax.figure.canvas.draw()
    bars = [path.vertices[:, 1] for path in ax.containers[0].lines[2][0].get_paths()]
    drawn = [tuple(ends) for ends in bars if len(ends) == 2 and np.isfinite(ends).all()]
    expected = (student_interval(samples[x]) for x in (20, 30))
    assert drawn == [pytest.approx((mean - half, mean + half)) for mean, half in expected]
    lines = [container.lines[0] for container in ax.containers]
    assert len({line.get_color() for line in lines}) == 2
    assert len({line.get_marker() for line in lines}) == 2
    assert ax.get_ylabel() == "mean latency (rounds)"
