from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from forked_scripts import Refused, Script

MADE_UP = [(1 + k % 97, 1 + k % 211) for k in range(2100)]


def lengths_file(path: Path, heading: str, rows: Iterable[Sequence[object]]) -> Path:
    lines = [heading, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("heading", "rows", "said"),
    [
        ("prompt_words", [[1]], "names no prompts and outputs"),
        ("prompt_words,output_tokens", [[1, 2]], "counts words and tokens both"),
        ("prompt_words,output_words", [], "holds no requests"),
        ("prompt_words,output_words", [[1, 2], [3, 4.5]], "row 3: output_words '4.5' is not"),
        ("prompt_words,output_words", [[1, 2], [-3, 4]], "row 3: prompt_words '-3' is negative"),
        ("prompt_words,output_words", [[1, 0]], "row 2: output_words is 0"),
        ("prompt_words,output_words", [[1]], "row 2: output_words '' is not a whole number"),
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
    assert "unknown data set of lengths 'sharegpt'" in unknown


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
    assert "prompts of mean 48." in recorded["measured"]
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
    # At M = 16,492 the quick size fills 69% of it.
    assert "at most 100.0% of M" in done.stdout


def test_one_command_leaves_data_figure_verdict_and_page(script: Script, tmp_path: Path) -> None:
    done = script(
        "reproduce",
        "c25-figure-2",
        "--quick",
        "--out",
        tmp_path / "out",
        "--page",
        tmp_path / "page.md",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[C25] Figure 2; the paper: ")
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {
        ".csv",
        ".png",
        ".svg",
        ".json",
    }
    assert "out/c25-figure-2.png" in (tmp_path / "page.md").read_text()
