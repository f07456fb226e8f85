"""Scores beside records: a library by hand, of two instances with known optimum and an open one."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest

from instances import FileFormatError, Instance, InvalidValueError, Library, Record, library
from instances.catalogue.library import read_set
from online.comparison import Interval
from online.leaderboard.scores import EXACT, INTERVAL, Score, read_scores, scores_csv
from online.leaderboard.standings import (
    Standing,
    beaten,
    leaderboard_tables,
    standings,
    standings_csv,
    without_ratio,
)

BOUNDS = {"tiny-a": (10, 10), "tiny-b": (8, 8), "tiny-open": (9, 12)}
CREDIT = ("2026-11-22", "by hand", "0")


def set_file(folder: Path, name: str, goals: dict[str, str]) -> Path:
    """A set of the library: instances by name, each with its goal."""
    lengths = {"prompt_lengths": [1, 2, 3], "memory_limit": 9, "n": 3}
    rows = []
    for number, (entry, goal) in enumerate(goals.items(), 1):
        outputs = [number, 2, 1]
        digest = Instance.from_arrays([1, 2, 3], outputs, memory_limit=9).digest
        row = {"name": entry, "goal": goal, "digest": digest, "output_lengths": outputs}
        rows.append({**row, **lengths})
    told = {"title": "made by hand", "source": "here", "licence": "MIT", "entries": rows}
    path = folder / f"{name}.json"
    head = {"format": "llm-hindsight/library-set", "version": 1, "name": name}
    path.write_text(json.dumps({**head, **told}))
    return path


@dataclass
class Board:
    """A library and its records."""

    library: Library
    records: dict[str, Record]

    def played(self, policy: str, *came_to: int | str, of: str = "tiny") -> list[Score]:
        """Figures of a policy on a set, or why there are none."""
        entries = [entry for entry in self.library if entry.set == of]
        return [
            Score(entry.name, entry.digest, policy, EXACT, "0", one)
            if isinstance(one, int)
            else Score(entry.name, entry.digest, policy, EXACT, "0", None, one)
            for entry, one in zip(entries, came_to, strict=True)
        ]

    def standings(self, *scores: Score) -> list[Standing]:
        """Their standings beside the records."""
        return standings(scores, self.library, self.records.get)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    parts = {"parts-a": "makespan", "parts-b": "preemptive_total_latency"}
    sets = {"tiny": dict.fromkeys(BOUNDS, "total_latency"), "parts": parts}
    library = Library(tuple(read_set(set_file(tmp_path, *one)) for one in sets.items()))
    records = {
        name: Record(library[name], upper, {"start_times": []}, lower, "by hand", *CREDIT)
        for name, (lower, upper) in BOUNDS.items()
    }
    return Board(library, records)


def test_a_sets_interval_is_that_of_means(board: Board) -> None:
    (one,) = board.standings(*board.played("p", 12, 8, 15))
    assert one.mean_ratio.lower == (Fraction(12, 10) + 1 + Fraction(15, 12)) / 3
    assert one.mean_ratio.upper == (Fraction(12, 10) + 1 + Fraction(15, 9)) / 3
    assert (one.max_ratio.lower, one.max_ratio.upper) == (Fraction(15, 12), Fraction(15, 9))
    assert (one.instances, one.compared, one.proved) == (3, 3, 2)
    assert one.compared_with == "optimum"


def test_intervals_are_printed_outwards(board: Board) -> None:
    (table,) = leaderboard_tables(board.standings(*board.played("p", 12, 8, 15)))
    assert table.rows == (("p", "[1.150, 1.289]"),)
    assert "total latency / optimum" in table.title


def test_a_policy_better_than_the_record_takes_its_place(board: Board) -> None:
    scores = [*board.played("best", 10, 8, 11), *board.played("other", 10, 8, 22)]
    best, other = board.standings(*scores)
    assert best.mean_ratio.lower == 1
    assert other.max_ratio.lower == 2
    assert beaten(scores, board.records.get) == ["tiny-open: best comes to 11, its record to 12"]


def test_a_policy_below_a_proved_bound_is_refused(board: Board) -> None:
    with pytest.raises(InvalidValueError, match=r"tiny-b.*lower_bound = .*exceeds 7, which p"):
        board.standings(*board.played("p", 10, 7, 12))


def test_without_a_record_only_the_lower_end_is_known(board: Board) -> None:
    scores = [*board.played("p", 12, 8, 15), *board.played("q", 24, 8, 15)]
    p, q = standings(scores, board.library, dict[str, Record]().get)
    assert (p.mean_ratio.lower, p.mean_ratio.upper) == (1, None)
    assert str(q.max_ratio) == "[2.0000, ?]"


def test_what_has_no_ratio_is_counted_and_ranks_below(board: Board) -> None:
    scores = [
        *board.played("partly", 10, "refused: 9 cells", "refused: 8 cells"),
        *board.played("never", "stalled", "stalled", "stalled"),
        *board.played("worse", 20, 16, 24),
        *board.played("better", 10, 8, 12),
    ]
    found = board.standings(*scores)
    (table,) = leaderboard_tables(found)
    assert [row[0] for row in table.rows] == ["better", "worse", "partly", "never"]
    assert [row[1] for row in table.rows[2:]] == ["1.000 (1 of 3)", "-"]
    assert without_ratio(found).rows == (
        ("never", "3", "tiny", "stalled"),
        ("partly", "2", "tiny", "refused: 9 cells"),
    )


def test_optima_are_never_mixed(board: Board) -> None:
    scores = [*board.played("p", 10, 8, 12), *board.played("p", 5, 6, of="parts")]
    found = board.standings(*scores)
    titles = [table.title for table in leaderboard_tables(found)]
    assert [title.split(";")[0] for title in titles] == [
        "mean of total latency / optimum",
        "mean of total latency / preemptive optimum",
        "mean of makespan / least makespan",
    ]
    written = list(csv.DictReader(io.StringIO(standings_csv(found))))
    assert [line["compared_with"] for line in written] == [one.compared_with for one in found]


def test_a_mean_over_sets_counts_each_once(board: Board) -> None:
    found = board.standings(*board.played("p", 10, 8, 12))
    other = replace(found[0], set="other", mean_ratio=Interval(Fraction(2), Fraction(8, 3)))
    (table,) = leaderboard_tables([*found, other])
    assert table.columns == ("policy", "mean of these", "tiny", "other")
    assert table.rows == (("p", "[1.500, 1.889]", "[1.000, 1.112]", "[2.000, 2.667]"),)


def test_what_was_told_is_never_mixed(board: Board) -> None:
    scores = board.played("p", 10, 8, 12)
    vague = [replace(score, told=INTERVAL, figure=24) for score in scores]
    exact, other = leaderboard_tables(board.standings(*scores, *vague))
    assert exact.rows[0][1].startswith("[1.000")
    assert other.rows[0][1].startswith("[2.4")
    assert "lengths told as an interval" in other.title


def test_scores_survive_their_file(board: Board, tmp_path: Path) -> None:
    scores = [*board.played("p", 12, "it stops, 3 unserved", 15), *board.played("q", 1, 2, 3)]
    seconds = Score("parts-a", board.library["parts-a"].digest, "q", INTERVAL, "0", Fraction(7, 3))
    path = tmp_path / "scores.csv"
    path.write_text(scores_csv([*scores, seconds]))
    assert set(read_scores(path, board.library)) == {*scores, seconds}


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
    board: Board, tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "scores.csv"
    text = scores_csv([*board.played("p", 12, 8, 15), *board.played("q", 12, 8, 15)])
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(FileFormatError, match=message):
        read_scores(path, board.library)


def test_a_figure_of_thousands_of_digits_is_none(board: Board, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    text = scores_csv(board.played("p", 12, 8, 15))
    path.write_text(text.replace(",12\n", f",{'9' * 5000}\n", 1))
    assert [score.figure for score in read_scores(path, board.library)] == [None, 8, 15]


def test_scores_of_another_instance_are_stale(board: Board, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    other = board.library["tiny-b"].digest
    path.write_text(scores_csv([Score("tiny-a", other, "p", EXACT, "0", 12)]))
    with pytest.raises(FileFormatError, match="another instance tiny-a"):
        read_scores(path, board.library)


def test_of_late_requests_the_share_of_the_attainable_counts() -> None:
    """Of 20 requests the record has 7 to 8 late: 12 to 13 can be on time."""
    entry = library("service-j25-m1-n20-00")
    known = Record(entry, 8, {}, 7, "volume", *CREDIT)
    scores = [
        Score(entry.name, entry.digest, name, EXACT, "0", late)
        for name, late in (("worse", 14), ("best", 8))
    ]
    worse, best = standings(scores, library(), {entry.name: known}.get)
    assert worse.mean_ratio == Interval(Fraction(6, 13), Fraction(6, 12))
    assert best.mean_ratio == Interval(Fraction(12, 13), 1)
    (table,) = leaderboard_tables([worse, best])
    assert table.title.startswith("mean of requests on time / most requests on time;")
    assert [row[0] for row in table.rows] == ["best", "worse"]
    (unknown, _) = standings(scores, library(), dict[str, Record]().get)
    assert unknown.mean_ratio == Interval(Fraction(6, 20), Fraction(6, 12))
