"""scripts/fluid_experiments.py as a process."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from forked_scripts import Script


@pytest.mark.parametrize(
    ("experiment", "horizons", "rows"),
    [
        ("gaps", (20, 40), 8),
        pytest.param("loads", (20, 40), 24, marks=pytest.mark.slow),
        pytest.param("memory", (30,), 4, marks=pytest.mark.slow),
        pytest.param("segments", (), 78, marks=pytest.mark.slow),
    ],
)
def test_table_csv_and_plot(
    script: Script,
    tmp_path: Path,
    experiment: str,
    horizons: tuple[int, ...],
    rows: int,
) -> None:
    pytest.importorskip("matplotlib")
    out, plot = tmp_path / "rows.csv", tmp_path / "figure.svg"
    options = [part for horizon in horizons for part in ("--horizon", horizon)]
    process = script(
        "fluid_experiments", experiment, "--seeds", 2, *options, "--out", out, "--plot", plot
    )
    assert process.returncode == 0, process.stderr
    with out.open() as stream:
        assert len(list(csv.DictReader(stream))) == rows
    assert "<svg" in plot.read_text()
    assert list(tmp_path.glob(".*part*")) == []
