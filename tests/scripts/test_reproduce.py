from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from forked_scripts import Refused, Script

from instances import FileFormatError, InvalidValueError
from studies.reproduction import (
    VARIATIONS,
    Setting,
    Statement,
    figures,
    find,
    read_records,
    reproduction_tables,
)
from studies.reproduction.figure import figure, verdict_of
from studies.reproduction.paper_items import ITEMS

RECORDED = Path(__file__).resolve().parents[2] / "docs" / "reproduction"
QUICK = ("--quick", "--jobs", "1", "--out")
MADE_UP = [(1 + k % 97, 1 + k % 211) for k in range(2100)]
WORDS = "prompt_words,output_words"


def lengths_file(path: Path, heading: str, rows: Iterable[Sequence[object]]) -> Path:
    lines = [heading, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("heading", "rows", "said"),
    [
        ("prompt_words,output_tokens", [[1, 2]], "needs the columns prompt_words and output_words"),
        (WORDS, [], "holds no requests"),
        (WORDS, [[1, 2], [3, 4.5]], "row 3: output_words '4.5' is not"),
        (WORDS, [[1, 0]], "row 2: output_words '0' is not"),
        (WORDS, [[1, 2]] * 99, "holds 99 requests"),
    ],
)
def test_lengths_that_do_not_fit_are_refused_in_one_line(
    refused: Refused, tmp_path: Path, heading: str, rows: list[list[object]], said: str
) -> None:
    file = lengths_file(tmp_path / "lmsys.csv", heading, rows)
    options = [*QUICK, tmp_path / "out", "--lengths", f"lmsys={file}"]
    assert said in refused("reproduce", "j25-figure-5", *options)


@pytest.mark.parametrize(
    ("names", "data", "said"),
    [
        (["w25-figure-6"], "arxiv", "counts words, and lengths of arxiv are in tokens"),
        (["w25-figure-6"], "lmsys", "nothing that is named takes lengths of lmsys"),
        # Said before the first of them is run.
        (["j25-table-1", "j25-figure-5"], "lmsys", "holds 2,100 requests, and 10,000 are needed"),
        (["w25-figure-6"], "sharegpt", "unknown data set 'sharegpt'"),
    ],
)
def test_lengths_that_no_figure_takes_are_refused(
    refused: Refused, tmp_path: Path, names: list[str], data: str, said: str
) -> None:
    file = lengths_file(tmp_path / "lengths.csv", WORDS, MADE_UP)
    assert said in refused("reproduce", *names, "--lengths", f"{data}={file}")


def test_a_readers_lengths_are_measured_and_not_kept(script: Script, tmp_path: Path) -> None:
    numbered = [(number, *row) for number, row in enumerate(MADE_UP)]
    file = lengths_file(tmp_path / "lmsys.csv", f"id,{WORDS}", numbered)
    out = tmp_path / "out"
    done = script("reproduce", "j25-figure-5", *QUICK, out, "--lengths", f"lmsys={file}")
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    means = " and ".join(f"{sum(side) / len(side):.2f}" for side in zip(*MADE_UP, strict=True))
    used = f"a file of 2,100 requests, {means} words on average, SHA-256 {digest}"
    assert used in " ".join(done.stdout.split())
    assert (out / "j25-figure-5.png").stat().st_size > 10_000
    recorded = json.loads((out / "j25-figure-5.json").read_text())
    assert recorded["lengths"] == {"lmsys": used}
    # None of what is stated agrees by construction any more.
    assert not any(each["by_construction"] for each in recorded["statements"])
    # The file's rows are not kept: counts alone.
    assert len((out / "j25-figure-5.csv").read_text().splitlines()) == 1 + 2 * 128


def test_what_is_varied_is_recorded_apart_and_shown(script: Script, tmp_path: Path) -> None:
    out, time = tmp_path / "out", "batch-time=llama-2-70b-a100-tp1"
    varied = ("--vary", "memory=3000", "--vary", time, "--page", tmp_path / "page.md")
    done = script("reproduce", "j25-figure-9", *QUICK, out, *varied)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[J25] Figure 9; the paper: ")
    other, path = sorted(path for path in out.rglob("*") if path.is_file())
    assert json.loads(other.read_text())["varied"] == time
    assert path == out / "variations" / "j25-figure-9--memory-3000.json"
    assert json.loads(path.read_text())["varied"] == "memory=3000"


YES, NO = Statement("a", True), Statement("b", False)
FITTED, MISFIT = Statement("c", True, True), Statement("d", False, True)


@pytest.mark.parametrize(
    ("statements", "verdict"),
    [
        ([YES, YES], "reproduced"),
        ([YES, NO], "in part"),
        ([YES, NO, NO], "not reproduced"),
        ([FITTED], "by construction"),
        # Agreement by construction neither makes a half nor spoils a whole.
        ([FITTED, YES], "reproduced"),
        ([FITTED, FITTED, NO], "not reproduced"),
        # What was put in and yet fails does not agree.
        ([MISFIT, YES], "in part"),
    ],
)
def test_one_rule_makes_all_verdicts(statements: list[Statement], verdict: str) -> None:
    assert verdict_of(statements) == verdict


def test_every_item_is_measured_or_says_why_not() -> None:
    records, varied = read_records(RECORDED), read_records(RECORDED / VARIATIONS)
    assert {one.name for one in records} == set(figures())
    assert {one.size for one in records} == {"full"}
    listed = {(item.paper, item.label) for item in ITEMS if not item.not_measured}
    assert listed == {(one.paper, one.item) for one in records}
    assert all(one.varied.partition("=")[0] in find(one.name).varies for one in varied)
    page = reproduction_tables(records, varied=varied)
    for one in records:
        assert all((RECORDED / f"{one.name}{end}").is_file() for end in (".csv", ".png"))
        assert page.count(f"reproduction/{one.name}.png") == 1
    shown = sum(page.count(f"| `{what}` |") for what in {one.varied for one in varied})
    assert shown == len(varied)


def test_other_documents_are_not_records_and_names_are_declared_once(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"statements": [{"text": 1}]}')
    with pytest.raises(FileFormatError, match="is not a record"):
        read_records(tmp_path)
    with pytest.raises(InvalidValueError, match="is declared already"):
        figure("c25-figure-2", "x", find("c25-figure-2").measure)


def test_tasks_are_done_in_order_on_several_processes() -> None:
    told: list[tuple[int, int]] = []
    setting = Setting(jobs=2, progress=lambda *numbers: told.append(numbers))
    assert setting.map(abs, [-3, -1, 2]) == [3, 1, 2]
    assert told == [(1, 3), (2, 3), (3, 3)]
