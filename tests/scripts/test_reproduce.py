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

ROOT = Path(__file__).resolve().parents[2]

MADE_UP = [(1 + k % 97, 1 + k % 211) for k in range(2100)]


def lengths_file(path: Path, heading: str, rows: Iterable[Sequence[object]]) -> Path:
    lines = [heading, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("heading", "rows", "said"),
    [
        ("prompt_words", [[1]], "needs the columns prompt_words and output_words, or"),
        ("prompt_words,output_tokens", [[1, 2]], "needs the columns"),
        ("prompt_words,output_words", [], "holds no requests"),
        ("prompt_words,output_words", [[1, 2], [3, 4.5]], "row 3: output_words '4.5' is not"),
        ("prompt_words,output_words", [[1, 2], [-3, 4]], "row 3: prompt_words '-3' is not"),
        ("prompt_words,output_words", [[1, 0]], "row 2: output_words '0' is not"),
        ("prompt_words,output_words", [[1, "x"]], "row 2: output_words 'x' is not a positive"),
        ("prompt_words,output_words", [[1, 2]] * 99, "holds 99 requests"),
    ],
)
def test_lengths_that_do_not_fit_are_refused_in_one_line(
    refused: Refused, tmp_path: Path, heading: str, rows: list[list[object]], said: str
) -> None:
    file = lengths_file(tmp_path / "lmsys.csv", heading, rows)
    options = ["--quick", "--jobs", "1", "--out", tmp_path / "out", "--lengths", f"lmsys={file}"]
    assert said in refused("reproduce", "j25-figure-5", *options)


def test_lengths_nobody_takes_or_in_another_unit_are_refused(
    refused: Refused, tmp_path: Path
) -> None:
    file = lengths_file(tmp_path / "lengths.csv", "prompt_words,output_words", MADE_UP)
    arxiv = refused("reproduce", "w25-figure-6", "--lengths", f"arxiv={file}")
    assert "counts words, and lengths of arxiv are in tokens" in arxiv
    unused = refused("reproduce", "w25-figure-6", "--lengths", f"lmsys={file}")
    assert "nothing that is named takes lengths of lmsys" in unused
    # Said before the first of them is run.
    few = refused("reproduce", "j25-table-1", "j25-figure-5", "--lengths", f"lmsys={file}")
    assert "holds 2,100 requests, and 10,000 are needed" in few
    unknown = refused("reproduce", "w25-figure-6", "--lengths", f"sharegpt={file}")
    assert "unknown data set 'sharegpt'" in unknown


def test_a_readers_lengths_are_measured_and_not_kept(script: Script, tmp_path: Path) -> None:
    file = lengths_file(tmp_path / "lmsys.csv", "id,prompt_words,output_words", enumerated(MADE_UP))
    out = tmp_path / "out"
    options = ("--quick", "--jobs", "1", "--out", out, "--lengths", f"lmsys={file}")
    done = script("reproduce", "j25-figure-5", *options)
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    means = " and ".join(f"{sum(side) / len(side):.2f}" for side in zip(*MADE_UP, strict=True))
    used = f"a file of 2,100 requests, {means} words on average, SHA-256 {digest}"
    assert used in done.stdout
    recorded = json.loads((out / "j25-figure-5.json").read_text())
    assert recorded["lengths"] == {"lmsys": used}
    # None of what is stated agrees by construction any more.
    assert not any(each["by_construction"] for each in recorded["statements"])
    # Of 2,000 rows none is left beside counts of many.
    with (out / "j25-figure-5.csv").open() as stream:
        assert len(stream.readlines()) == 1 + 2 * 128


def enumerated(rows: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    return [(number, *row) for number, row in enumerate(rows)]


def test_what_is_varied_is_recorded_apart(script: Script, tmp_path: Path) -> None:
    out = tmp_path / "out"
    time = "batch-time=llama-2-70b-a100-tp1"
    options = ("--quick", "--jobs", "1", "--out", out, "--vary", "memory=3000", "--vary", time)
    done = script("reproduce", "j25-figure-9", *options)
    assert done.returncode == 0, done.stderr
    other, path = sorted(path for path in out.rglob("*") if path.is_file())
    assert json.loads(other.read_text())["varied"] == time
    assert path == out / "variations" / "j25-figure-9--memory-3000.json"
    assert json.loads(path.read_text())["varied"] == "memory=3000"
    assert "a median batch of 90%" in done.stdout


def test_one_command_leaves_data_figure_verdict_and_page(script: Script, tmp_path: Path) -> None:
    options = ("--quick", "--out", tmp_path / "out", "--page", tmp_path / "page.md")
    done = script("reproduce", "c25-figure-2", *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[C25] Figure 2; the paper: ")
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".csv", ".png", ".json"}
    assert "out/c25-figure-2.png" in (tmp_path / "page.md").read_text()


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
    records = read_records(ROOT / "docs" / "reproduction")
    assert {one.name for one in records} == set(figures())
    assert {one.size for one in records} == {"full"}
    measured = {(one.paper, one.item) for one in records}
    listed = {(item.paper, item.label): item.not_measured for item in ITEMS}
    assert {key for key, reason in listed.items() if not reason} == measured
    varied = read_records(ROOT / "docs" / "reproduction" / VARIATIONS)
    for one in varied:
        assert one.varied.partition("=")[0] in find(one.name).varies
    page = reproduction_tables(records, varied=varied)
    for one in records:
        files = [ROOT / "docs" / "reproduction" / f"{one.name}{end}" for end in (".csv", ".png")]
        assert all(path.is_file() for path in files)
        assert page.count(f"reproduction/{one.name}.png") == 1
    assert sum(page.count(f"| `{what}` |") for what in {one.varied for one in varied}) == len(
        varied
    )


@pytest.mark.parametrize("text", ["[]", "{}", '{"statements": [{"text": 1}]}'])
def test_other_documents_are_not_records(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FileFormatError, match="is not a record"):
        read_records(tmp_path)


def test_names_are_declared_once_and_found_by_name() -> None:
    with pytest.raises(InvalidValueError, match="is declared already"):
        figure("c25-figure-2", "x", find("c25-figure-2").measure)


def test_tasks_are_done_in_order_on_several_processes() -> None:
    told: list[tuple[int, int]] = []
    setting = Setting(jobs=2, progress=lambda *numbers: told.append(numbers))
    assert setting.map(abs, [-3, -1, 2]) == [3, 1, 2]
    assert told == [(1, 3), (2, 3), (3, 3)]
