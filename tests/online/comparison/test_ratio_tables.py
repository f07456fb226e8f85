"""What tables say beside their figures: sampling intervals, equal rows, missing ratios."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import instances
from instances import Instance, PreemptiveSchedule, Schedule, SecondsSchedule, Workload
from instances.batch_time import AffineTime
from instances.batch_time.seconds_schedule import COLUMNS
from online.comparison import (
    compare,
    compare_many,
    records_csv,
    report_markdown,
    summarise,
    summary_table,
)
from online.comparison.bootstrap import ratio_confidence
from online.comparison.coincidence import coincidence_notes
from online.comparison.ratio_tables import confidences_of, count_reasons, summary_notes
from online.comparison.trial import Trial, digest_of

DRAWN = [
    instances.generate("uniform", seed, n=6, maximum_length=6, memory_limit=16) for seed in range(4)
]
TOLD = "told exact lengths, "


def compared(problems: Sequence[Any], *policies: str, **options: Any) -> list[Trial]:
    return [record for problem in problems for record in compare(problem, policies, **options)]


@pytest.fixture(scope="module")
def records() -> list[Trial]:
    return compared(DRAWN, "a-max", "a-min", "mc-sf", "fcfs")


def ratio_record(total: int | None, *, name: str = "x", **changes: Any) -> Trial:
    fields = {"status": "completed", "reason": None, **changes}
    known = (name, "d", 2, 9, "p", {}, 0, fields.pop("status"), total, 0, 10, 10)
    return Trial(*known, **fields)


def test_a_summary_has_the_bootstrap_of_its_instances(records: list[Trial]) -> None:
    confidences = confidences_of(records)
    own = [[record] for record in records if record.policy == "fcfs"]
    assert confidences[3] == ratio_confidence(own)
    table = summary_table(summarise(records), confidences)
    place = table.columns.index("mean_ratio 95%")
    assert table.columns[place - 1] == "mean_ratio"
    assert [row[place] for row in table.rows] == [str(mean) for mean, _ in confidences]
    assert "ratio_of_totals 95%" in table.columns
    page = report_markdown(records, summarise(records))
    assert "| mean_ratio 95% |" in page
    assert (
        "- ratios, or their intervals, are proved for these instances; columns 95%: where another"
        in page
    )


def test_one_instance_has_no_sampling_interval(records: list[Trial]) -> None:
    alone = records[:4]
    assert confidences_of(alone) is None
    assert "mean_ratio 95%" not in summary_table(summarise(alone)).columns
    assert not any("95%" in note for note in summary_notes(alone, None))


def test_runs_on_one_instance_are_resampled_together() -> None:
    twice = [ratio_record(12), ratio_record(14)]
    assert confidences_of(twice) is None
    assert confidences_of([*twice, ratio_record(11, name="y")]) is not None


def test_policies_with_equal_schedules_are_named_and_explained() -> None:
    """By their schedules: equal totals of different schedules are not enough."""
    found = compared(DRAWN, "a-min", "a-max", "fcfs", "a-ell")
    made = {
        policy: [record.schedule_digest for record in found if record.policy == policy]
        for policy in ("a-min", "a-max", "fcfs", "a-ell")
    }
    assert made["a-min"] == made["a-max"] != made["fcfs"] == made["a-ell"]
    assert coincidence_notes({"": found}) == [
        "a-min and a-max made the same schedules on all 4 instances: "
        + TOLD
        + "a-min and a-max have nothing to be unsure of",
        "fcfs and a-ell made the same schedules on all 4 instances: "
        + TOLD
        + "a-ell has nothing to be unsure of",
    ]
    guessed = coincidence_notes({"": found}, told_exactly=False)
    assert guessed[0] == "a-min and a-max made the same schedules on all 4 instances"


def test_equal_requests_may_change_places() -> None:
    twins = Instance.from_arrays([1, 1, 2], [3, 3, 2], memory_limit=6)
    starts = [(0, 3, 6), (3, 0, 6), (0, 6, 3)]
    first, exchanged, other = (digest_of(Schedule(twins, own)) for own in starts)
    assert first == exchanged != other
    stretches = [[[1, 3]], [[4, 4], [7, 8]], [[5, 6]]]
    first, exchanged, other = (
        digest_of(PreemptiveSchedule(twins, [stretches[k] for k in order]))
        for order in ([0, 1, 2], [1, 0, 2], [0, 0, 2])
    )
    assert first == exchanged != other
    workload = Workload([0, 0, 0], [1, 1, 2], [3, 3, 2], memory_limit=6)
    late = Workload([0, 0.5, 0.5], [1, 1, 2], [3, 3, 2], memory_limit=6)
    first, exchanged, other = (
        digest_of(SecondsSchedule.from_start_rounds(each, AffineTime(1), own))
        for each, own in ((workload, starts[0]), (workload, starts[1]), (late, starts[1]))
    )
    assert first == exchanged != other
    # The same rounds, each a second later.
    prompt = SecondsSchedule.from_start_rounds(workload, AffineTime(1), starts[0])
    columns = np.stack([getattr(prompt, name) for name in COLUMNS], axis=1)
    late_rounds = SecondsSchedule(workload, AffineTime(1), columns, prompt.round_starts + 1)
    assert digest_of(late_rounds) != first


def test_families_in_which_policies_coincide_are_named() -> None:
    roomy = [Instance.from_arrays([1, 1], [2, 3], memory_limit=20, name="roomy")]
    families = {
        "roomy": compared(roomy, "fcfs", "mc-sf"),
        "tight": compared(DRAWN[:1], "fcfs", "mc-sf"),
    }
    assert coincidence_notes(families) == [
        "fcfs and mc-sf made the same schedules on the only instance of roomy"
    ]
    assert coincidence_notes({"tight": families["tight"]}) == []


def test_what_failed_coincides_with_nothing() -> None:
    done = ratio_record(12, schedule_digest="s")
    failed = ratio_record(None, name="y", status="failed", reason="E: no")
    other = [Trial(**{**vars(one), "policy": "q"}) for one in (done, failed)]
    assert len(coincidence_notes({"": [done, other[0]]})) == 1
    assert coincidence_notes({"": [done, failed, *other]}) == []


def test_schedules_in_seconds_coincide_too() -> None:
    found = compared(DRAWN[:2], "a-min", "a-max", batch_time=AffineTime(0.5), time_limit=0.1)
    assert [note.partition(":")[0] for note in coincidence_notes({"": found})] == [
        "a-min and a-max made the same schedules on both instances"
    ]


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
    pytest.importorskip("pandas")
    records = compare(THREE, ["mc-sf", "fcfs"])
    frame = records.frame()
    rows = list(csv.DictReader(io.StringIO(records_csv(records))))
    assert list(frame.columns) == list(rows[0])
    for name in ("total_latency", "optimum_upper", "ratio_lower", "ratio_upper", "waiting"):
        assert frame[name].tolist() == [float(row[name]) for row in rows], name
    assert frame["proved"].tolist() == [True, True]
    assert frame["ratio_lower"].dtype.kind == "f"


def test_many_instances_show_themselves_alike() -> None:
    found = compare_many([THREE], ["mc-sf"])
    assert found.summary() == compare(THREE, ["mc-sf"]).summary()
    assert "three" in found._repr_html_()
