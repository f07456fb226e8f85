"""Charts: ticks, places of marks, and what becomes of text."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.charts import LETTER, SIGN, Axis, Plot, element, legend

finite = st.floats(1e-3, 1e9)


@given(finite, finite, st.booleans(), st.integers(2, 12))
def test_ticks_are_few_and_between_the_ends(low: float, span: float, log: bool, most: int) -> None:
    axis = Axis(low, low + span, log=log)
    ticks = axis.ticks(most)
    assert len(ticks) <= most + 1
    assert ticks == sorted(ticks)
    # Beyond the ends by no more than a float of that size can tell apart.
    slack = 1e-6 * span + 4 * math.ulp(low + span)
    assert all(-slack <= tick - low <= span + slack for tick in ticks)


@given(finite, finite, st.booleans(), st.sampled_from([190, 560]))
def test_labels_do_not_touch(low: float, span: float, log: bool, room: int) -> None:
    axis = Axis(low, low + span, log=log)
    kept = axis.fitting(axis.ticks(12), room)
    for first, second in pairwise(kept):
        width = LETTER * (len(axis.text(first)) + len(axis.text(second))) / 2
        assert (axis.share(second) - axis.share(first)) * room >= width


@pytest.mark.parametrize(
    ("axis", "labels"),
    [
        (Axis(0, 5, whole=True), ["0", "1", "2", "3", "4", "5"]),
        (Axis(0, 2), ["0", "0.5", "1", "1.5", "2"]),
        (Axis(0, 20_000), ["0", "5K", "10K", "15K", "20K"]),
        (Axis(0, 2000), ["0", "500", "1,000", "1,500", "2,000"]),
        (Axis(0, 2e-5), ["0", "5e-06", "1e-05", "1.5e-05", "2e-05"]),
        (Axis(1, 100, log=True), ["1", "3", "10", "30", "100"]),
    ],
)
def test_labels_are_short(axis: Axis, labels: list[str]) -> None:
    assert [axis.text(tick) for tick in axis.ticks(6)] == labels


def test_marks_stand_at_their_share_of_the_width() -> None:
    plot = Plot(Axis(0, 10), Axis(0, 4), 200)
    (dot,) = re.findall(r'cx="(.*?)" cy="(.*?)"', plot.point(2.5, 1, "red"))
    assert dot == ("25.00%", "150.0")
    # A value beyond the axis stands at its end; the first row is on top.
    assert plot.across(99) == "100.00%"
    assert Plot.of_rows(Axis(0, 1), 3, 20).down(0.5) == "10.0"
    assert Plot(Axis(1, 100, log=True), Axis(0, 1), 10).across(10) == "50.00%"
    # However near its ends are, a segment is seen.
    left, right = re.findall(r'x[12]="(.*?)%"', plot.segment((5, 5), 1, "red"))
    assert float(left) < float(right)


def test_an_upright_line_is_seen_however_near_its_ends_are() -> None:
    plot = Plot(Axis(0, 10), Axis(0, 4), 100)
    for ends, heights in (((1, 3), (75.5, 24.5)), ((2, 2), (50.5, 49.5))):
        drawn = plot.upright(5, ends, "red", "told")
        assert tuple(map(float, re.findall(r'y[12]="(.*?)"', drawn))) == heights
        assert re.findall(r'x[12]="(.*?)"', drawn) == ["50.00%"] * 2
        assert "<title>told</title>" in drawn


def test_names_are_no_markup() -> None:
    name = "</svg><script>&\"'"
    plot = Plot.of_rows(Axis(0, 1, name), 1, 20)
    drawn = plot.drawn(name, [plot.point(0, 0.5, "red", text=name)], [name])
    drawn += legend([(SIGN.point(0.5, 0.5, "red"), name)]) + element("p", title=name)
    assert "<script" not in drawn
    tree = ElementTree.fromstring(f"<body>{drawn}</body>")
    assert [one.text for one in tree.iter("title")] == [name]
