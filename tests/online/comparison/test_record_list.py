"""Records as data frames."""

from __future__ import annotations

import csv
import io

import pytest

from instances import Instance
from online.comparison.comparing import compare, compare_many
from online.comparison.ratio_tables import records_csv

INSTANCE = Instance.from_arrays([2, 1, 3], [3, 2, 4], memory_limit=8, name="three")


def test_a_frame_has_what_the_file_has() -> None:
    pytest.importorskip("pandas")
    records = compare(INSTANCE, ["mc-sf", "fcfs"])
    frame = records.frame()
    rows = list(csv.DictReader(io.StringIO(records_csv(records))))
    assert list(frame.columns) == list(rows[0])
    for name in ("total_latency", "optimum_upper", "ratio_lower", "ratio_upper", "waiting"):
        assert frame[name].tolist() == [float(row[name]) for row in rows], name
    assert frame["proved"].tolist() == [True, True]
    assert frame["ratio_lower"].dtype.kind == "f"


def test_many_instances_show_themselves_alike() -> None:
    found = compare_many([INSTANCE], ["mc-sf"])
    assert found.summary() == compare(INSTANCE, ["mc-sf"]).summary()
    assert "three" in found._repr_html_()
