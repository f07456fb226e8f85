"""What tables say beside their figures: sampling intervals, missing ratios."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import pytest

import instances
from instances import Instance
from online.comparison import Trial, compare, records_csv
from online.comparison.ratio_tables import confidences_of, count_reasons

DRAWN = [
    instances.generate("uniform", seed, n=6, maximum_length=6, memory_limit=16) for seed in range(4)
]


def compared(problems: Sequence[Any], *policies: str, **options: Any) -> list[Trial]:
    return [record for problem in problems for record in compare(problem, policies, **options)]


@pytest.fixture(scope="module")
def records() -> list[Trial]:
    return compared(DRAWN, "a-max", "a-min", "mc-sf", "fcfs")


def ratio_record(total: int | None, *, name: str = "x", **changes: Any) -> Trial:
    fields = {"status": "completed", "reason": None, **changes}
    known = (name, "d", 2, 9, "p", {}, 0, fields.pop("status"), total, 0, 10, 10)
    return Trial(*known, **fields)


def test_runs_on_one_instance_are_resampled_together() -> None:
    twice = [ratio_record(12), ratio_record(14)]
    assert confidences_of(twice) is None
    assert confidences_of([*twice, ratio_record(11, name="y")]) is not None


def test_reasons_that_differ_in_numbers_only_are_counted_together() -> None:
    texts = ["E: request 3 is late", "F: other", "E: request 14 is late", "E: request 5 is late"]
    failed = [ratio_record(None, status="failed", reason=text) for text in texts]
    slow = ratio_record(None, status="time-limit", reason="its time ran out")
    assert count_reasons([*failed, slow, ratio_record(12)]) == (
        (3, "failed", "E: request 3 is late"),
        (1, "failed", "F: other"),
        (1, "time-limit", "its time ran out"),
    )
    unlike = [ratio_record(None, status="failed", reason=letter) for letter in "abcdefgh"]
    assert count_reasons(unlike)[-1] == (3, "failed", "3 other reasons")
    assert sum(count for count, _, _ in count_reasons(unlike)) == 8


THREE = Instance.from_arrays([2, 1, 3], [3, 2, 4], memory_limit=8, name="three")


def test_a_frame_has_what_the_file_has() -> None:
    records = compare(THREE, ["mc-sf", "fcfs"])
    frame = records.frame()
    rows = list(csv.DictReader(io.StringIO(records_csv(records))))
    assert list(frame.columns) == list(rows[0])
    for name in ("total_latency", "optimum_upper", "ratio_lower", "ratio_upper", "waiting"):
        assert frame[name].tolist() == [float(row[name]) for row in rows], name
    assert frame["proved"].tolist() == [True, True]
    assert frame["ratio_lower"].dtype.kind == "f"
