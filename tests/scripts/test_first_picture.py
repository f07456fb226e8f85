"""The README's picture and its command tell of the same run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from first_picture import PAPERS, draw

ROOT = Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"^uniform\[seed=0,n=12\] +fcfs +(\d+) +(\d+) +([\d.]+)$", re.MULTILINE)


@pytest.mark.slow
def test_pages_show_the_pictures_and_the_figures_in_them() -> None:
    figure = draw("dark")
    above, below = (ax.get_title(loc="left") for ax in figure.axes[:2])
    assert {ax.xaxis.label.get_color() for ax in figure.axes[:2]} == {PAPERS["dark"][1]}
    for page in (ROOT / "README.md",):
        text = page.read_text("utf-8")
        for paper in PAPERS:
            (shown,) = re.findall(rf'"([^"]*first_picture-{paper}\.svg)"', text)
            assert (page.parent / shown).is_file()
        ((total, best, ratio),) = COMMAND.findall(text)
        total = f"{int(total):,}"
        assert f"total latency {total} rounds, {float(ratio):.2f} times the best" in above
        assert below == f"The best possible, proved: total latency {best} rounds"
        assert f"latency of {total} rounds, the best possible schedule {best}." in text
