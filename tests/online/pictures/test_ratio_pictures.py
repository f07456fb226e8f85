"""Curves: ends of their error bars, read back from matplotlib."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from online import pictures
from online.pictures.curves import student_interval


def test_error_bars_are_student_intervals() -> None:
    values = [3.0, 5.0, 4.0, 8.0]
    # The 97.5 % point of Student's t with three degrees of freedom, from a printed table.
    half = 3.182446 * statistics.stdev(values) / 2
    assert student_interval(values) == (5.0, pytest.approx(half, rel=1e-6))
    assert student_interval([2.0]) == (2.0, math.inf)


def test_curves_are_drawn_with_their_bars() -> None:
    samples = {30: [6.0, 6.0, 9.0], 10: [2.0], 20: [3.0, 5.0]}
    ax = pictures.latency_curves({"mc-sf": samples, "fcfs": samples}, x_label="requests")
    ax.figure.draw_without_rendering()
    bars = [path.vertices[:, 1] for path in ax.containers[0].lines[2][0].get_paths()]
    drawn = [tuple(ends) for ends in bars if len(ends) == 2 and np.isfinite(ends).all()]
    expected = (student_interval(samples[x]) for x in (20, 30))
    assert drawn == [pytest.approx((mean - half, mean + half)) for mean, half in expected]
    lines = [container.lines[0] for container in ax.containers]
    assert len({line.get_color() for line in lines}) == 2
    assert len({line.get_marker() for line in lines}) == 2
    assert ax.get_ylabel() == "mean latency (rounds)"


@pytest.mark.parametrize("letters", [4, 30, 60])
def test_a_legend_fits_the_figure_below_its_title(letters: int) -> None:
    samples = {f"{place}{'x' * letters}": {1: [1.0], 2: [2.0]} for place in range(4)}
    ax = pictures.latency_curves(samples, title="a title")
    ax.figure.draw_without_rendering()
    legend, figure = ax.get_legend().get_window_extent(), ax.figure.bbox
    assert legend.x0 >= 0
    assert ax.bbox.width > 0.7 * figure.width
    assert ax.bbox.height > 0.4 * figure.height
    (title,) = [one for one in ax.get_children() if getattr(one, "get_text", str)() == "a title"]
    box = title.get_window_extent()
    assert box.y0 >= legend.y1 or box.x1 <= legend.x0
    assert box.y1 <= figure.y1
