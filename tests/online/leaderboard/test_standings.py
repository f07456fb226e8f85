"""Scores beside records: a library by hand, of two instances with known optimum and an open one."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from instances import FileFormatError, Instance, InvalidValueError, Library, Record
from instances.catalogue.entries import read_set
from instances.catalogue.records import Credit
from online.comparison import Interval
from online.leaderboard.scores import EXACT, INTERVAL, Score, read_scores, scores_csv
from online.leaderboard.standings import (
    beaten,
    equal_policies,
    leaderboard_tables,
    standings,
    standings_csv,
    without_ratio,
)

BOUNDS = {"tiny-a": (10, 10), "tiny-b": (8, 8), "tiny-open": (9, 12)}
CREDIT = Credit("2026-11-22", "by hand", "0")


def set_file(folder: Path, name: str, entries: list[tuple[str, str]]) -> Path:
    rows = []
    for number, (entry, goal) in enumerate(entries, 1):
        prompts, outputs = [1, 2, 3], [number, 2, 1]
        instance = Instance.from_arrays(prompts, outputs, memory_limit=9)
        rows.append(
            {
                "name": entry,
                "n": 3,
                "goal": goal,
                "digest": instance.digest,
                "memory_limit": 9,
                "prompt_lengths": prompts,
                "output_lengths": outputs,
            }
        )
    told = {"title": "made by hand", "source": "here", "licence": "MIT", "entries": rows}
    path = folder / f"{name}.json"
    head = {"format": "llm-hindsight/library-set", "version": 1, "name": name}
    path.write_text(json.dumps({**head, **told}))
    return path


@pytest.fixture
def library(tmp_path: Path) -> Library:
    tiny = [(name, "total_latency") for name in BOUNDS]
    other = [("parts-a", "makespan"), ("parts-b", "preemptive_total_latency")]
    return Library(
        (read_set(set_file(tmp_path, "tiny", tiny)), read_set(set_file(tmp_path, "parts", other)))
    )


@pytest.fixture
def records(library: Library) -> dict[str, Record]:
    return {
        name: Record(library[name], upper, {"start_times": []}, CREDIT, lower, "by hand", CREDIT)
        for name, (lower, upper) in BOUNDS.items()
    }


def played(library: Library, policy: str, *came_to: int | str, of: str = "tiny") -> list[Score]:
    entries = [entry for entry in library if entry.set == of]
    return [
        Score(
            *(entry.name, entry.digest, policy, EXACT, "0"),
            figure=one if isinstance(one, int) else None,
            reason=one if isinstance(one, str) else None,
        )
        for entry, one in zip(entries, came_to, strict=True)
    ]


def test_a_sets_interval_is_that_of_means(library: Library, records: dict[str, Record]) -> None:
    (one,) = standings(played(library, "p", 12, 8, 15), library, records.get)
    assert one.mean_ratio.lower == (Fraction(12, 10) + 1 + Fraction(15, 12)) / 3
    assert one.mean_ratio.upper == (Fraction(12, 10) + 1 + Fraction(15, 9)) / 3
    assert (one.max_ratio.lower, one.max_ratio.upper) == (Fraction(15, 12), Fraction(15, 9))
    assert (one.instances, one.compared, one.proved) == (3, 3, 2)
    assert one.compared_with == "optimum"


def test_intervals_are_printed_outwards(library: Library, records: dict[str, Record]) -> None:
    (table,) = leaderboard_tables(standings(played(library, "p", 12, 8, 15), library, records.get))
    assert table.rows == (("p", "[1.150, 1.289]"),)
    assert "total latency / optimum" in table.title


def test_a_policy_better_than_the_record_takes_its_place(
    library: Library, records: dict[str, Record]
) -> None:
    scores = [*played(library, "best", 10, 8, 11), *played(library, "other", 10, 8, 22)]
    best, other = standings(scores, library, records.get)
    assert best.mean_ratio.lower == 1
    assert other.max_ratio.lower == 2
    assert beaten(scores, records.get) == ["tiny-open: best comes to 11, its record to 12"]


def test_a_policy_below_a_proved_bound_is_refused(
    library: Library, records: dict[str, Record]
) -> None:
    with pytest.raises(InvalidValueError, match=r"tiny-b.*lower_bound = .*exceeds 7, which p"):
        standings(played(library, "p", 10, 7, 12), library, records.get)


def test_without_a_record_only_the_lower_end_is_known(library: Library) -> None:
    scores = [*played(library, "p", 12, 8, 15), *played(library, "q", 24, 8, 15)]
    p, q = standings(scores, library, dict[str, Record]().get)
    assert (p.mean_ratio.lower, p.mean_ratio.upper) == (1, None)
    assert str(q.max_ratio) == "[2.0000, ?]"


def test_what_has_no_ratio_is_counted_and_ranks_below(
    library: Library, records: dict[str, Record]
) -> None:
    scores = [
        *played(library, "partly", 10, "refused: 9 cells", "refused: 8 cells"),
        *played(library, "never", "stalled", "stalled", "stalled"),
        *played(library, "worse", 20, 16, 24),
        *played(library, "better", 10, 8, 12),
    ]
    found = standings(scores, library, records.get)
    (table,) = leaderboard_tables(found)
    assert [row[0] for row in table.rows] == ["better", "worse", "partly", "never"]
    assert [row[1] for row in table.rows[2:]] == ["1.000 (1 of 3)", "-"]
    assert without_ratio(found).rows == (
        ("never", "3", "tiny", "stalled"),
        ("partly", "2", "tiny", "refused: 9 cells"),
    )


def test_optima_are_never_mixed(library: Library, records: dict[str, Record]) -> None:
    scores = [*played(library, "p", 10, 8, 12), *played(library, "p", 5, 6, of="parts")]
    found = standings(scores, library, records.get)
    titles = [table.title for table in leaderboard_tables(found)]
    assert [title.split(";")[0] for title in titles] == [
        "mean of total latency / optimum",
        "mean of total latency / preemptive optimum",
        "mean of makespan / least makespan",
    ]
    written = list(csv.DictReader(io.StringIO(standings_csv(found))))
    assert [line["compared_with"] for line in written] == [one.compared_with for one in found]


def test_a_mean_over_sets_counts_each_once(library: Library, records: dict[str, Record]) -> None:
    found = standings(played(library, "p", 10, 8, 12), library, records.get)
    other = replace(found[0], set="other", max_ratio=Interval(Fraction(2), Fraction(8, 3)))
    (table,) = leaderboard_tables([*found, other], "max")
    assert table.columns == ("policy", "mean of these", "tiny", "other")
    assert table.rows == (("p", "[1.500, 2.000]", "[1.000, 1.334]", "[2.000, 2.667]"),)


def test_what_was_told_is_never_mixed(library: Library, records: dict[str, Record]) -> None:
    scores = played(library, "p", 10, 8, 12)
    vague = [replace(score, told=INTERVAL, figure=24) for score in scores]
    exact, other = leaderboard_tables(standings([*scores, *vague], library, records.get))
    assert exact.rows[0][1].startswith("[1.000")
    assert other.rows[0][1].startswith("[2.4")
    assert "lengths told as an interval" in other.title


def test_equal_policies_are_named(library: Library) -> None:
    scores = [
        *played(library, "p", 12, 8, 15),
        *played(library, "q", 12, 8, 15),
        *played(library, "r", 12, 8, 14),
        *played(library, "s", 12, 8, "refused"),
    ]
    assert equal_policies(scores) == [["p", "q"]]


def test_scores_survive_their_file(library: Library, tmp_path: Path) -> None:
    scores = [*played(library, "p", 12, "it stops, 3 unserved", 15), *played(library, "q", 1, 2, 3)]
    seconds = Score("parts-a", library["parts-a"].digest, "q", INTERVAL, "0", Fraction(7, 3))
    path = tmp_path / "scores.csv"
    path.write_text(scores_csv([*scores, seconds]))
    assert set(read_scores(path, library)) == {*scores, seconds}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("instance,told", "name,told", "does not begin with the columns"),
        ("tiny-b,", "tiny-z,", "tiny-z is not in the library"),
        (",12,", ",12,3,", "a line of"),
        (",12,", f",{'x' * 200_000},", "is no table: field larger"),
    ],
)
def test_a_file_of_something_else_is_refused(
    library: Library, tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "scores.csv"
    text = scores_csv([*played(library, "p", 12, 8, 15), *played(library, "q", 12, 8, 15)])
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(FileFormatError, match=message):
        read_scores(path, library)


def test_a_figure_of_thousands_of_digits_is_none(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    text = scores_csv(played(library, "p", 12, 8, 15))
    path.write_text(text.replace(",12\n", f",{'9' * 5000}\n", 1))
    assert [score.figure for score in read_scores(path, library)] == [None, 8, 15]


def test_scores_of_another_instance_are_stale(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    other = library["tiny-b"].digest
    path.write_text(scores_csv([Score("tiny-a", other, "p", EXACT, "0", 12)]))
    with pytest.raises(FileFormatError, match="another instance tiny-a"):
        read_scores(path, library)
