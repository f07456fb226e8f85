from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from instances import FileFormatError, InvalidValueError, UnknownNameError
from online.pictures import new_axes
from studies.reproduction import (
    ITEMS,
    OWN,
    Cause,
    Outcome,
    Recorded,
    Reproduction,
    Setting,
    Statement,
    read_recorded,
    record,
    recorded_in,
    register_reproduction,
    reproduction,
    reproduction_names,
    reproduction_tables,
)

DOCS = Path(__file__).resolve().parents[4] / "docs"


YES, NO = Statement("rising", True), Statement("0.5 within 10%", False)


def outcome(**changes: object) -> Outcome:
    ax = new_axes()
    ax.plot([1, 2], [3, 4])
    fields = {
        "columns": ["n", "latency"],
        "rows": [[1, 0.1 + 0.2], [2, None]],
        "figure": ax.figure,
        "measured": "0.3 at n = 1.",
        "statements": [YES, NO],
        "remark": "one point only.",
        **changes,
    }
    return Outcome(**fields)  # type: ignore[arg-type]


STUDY = Reproduction("j25-test", "J25", "Figure 3", "0.5 at n = 1.", lambda setting: outcome())


def square(value: int) -> int:
    return value * value


def test_every_item_is_measured_or_says_why_not() -> None:
    measured = {(study.paper, study.item) for study in map(reproduction, reproduction_names())}
    listed = {(item.paper, item.label): item.not_measured for item in ITEMS}
    assert len(listed) == len(ITEMS)
    assert measured == {key for key, reason in listed.items() if not reason}


def test_names_tell_paper_and_item_apart() -> None:
    for name in reproduction_names():
        study = reproduction(name)
        stem = f"{study.paper}-{study.item}".lower().replace(" ", "-").replace(".", "")
        assert name == stem or name.startswith(f"{stem}-")


def test_unknown_and_repeated_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="j25-figure-99"):
        reproduction("j25-figure-99")
    taken = reproduction_names()[0]
    with pytest.raises(InvalidValueError, match="registered already"):
        register_reproduction(taken, "J25", "Figure 3", "")(lambda setting: outcome())


def test_record_writes_data_figure_and_verdict(tmp_path: Path) -> None:
    recorded = record(STUDY, outcome(), Setting(quick=True), tmp_path, 12.345)
    assert recorded.cpu_seconds == 12.3
    with (tmp_path / "j25-test.csv").open() as stream:
        assert list(csv.reader(stream)) == [["n", "latency"], ["1", "0.3"], ["2", ""]]
    assert (tmp_path / "j25-test.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "j25-test.svg").read_text()
    assert read_recorded(tmp_path / "j25-test.json") == recorded
    assert recorded.line == (
        "[J25] Figure 3; the paper: 0.5 at n = 1; measured (quick size): 0.3 at n = 1; "
        "in part (1 of 2 statements): Holds: rising. Fails: 0.5 within 10%. One point only."
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document.pop("remark"),
        lambda document: document.update(extra="x"),
        lambda document: document.update(measured=3),
        lambda document: document.update(cpu_seconds="long"),
        lambda document: document.update(statements=[]),
        lambda document: document["statements"][0].update(holds="nearly"),
        lambda document: document["statements"][0].update(text=None),
        lambda document: document["statements"][0].pop("by_construction"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, damage: object) -> None:
    record(STUDY, outcome(), Setting(), tmp_path)
    path = tmp_path / "j25-test.json"
    document = json.loads(path.read_text())
    damage(document)  # type: ignore[operator]
    path.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match="j25-test.json"):
        read_recorded(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("statements", []),
        ("statements", [Statement("two\nlines", True)]),
        ("rows", [[1]]),
        ("measured", " "),
        ("remark", "two\nlines"),
    ],
)
def test_an_outcome_is_checked(field: str, value: object) -> None:
    with pytest.raises(InvalidValueError):
        outcome(**{field: value})


def recorded_as(name: str, item: str, *statements: Statement, size: str = "full") -> Recorded:
    return Recorded(name, "J25", item, "says.", size, "5 s.", statements, "because 1.")


def rows_of(page: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ") and "---" not in line
    ]


def test_the_page_has_a_row_for_every_item() -> None:
    quick = recorded_as("j25-test", "Figure 3", YES, NO, size="quick")
    page = reproduction_tables([replace(quick, cpu_seconds=1234.5)])
    labels = [row[0] for row in rows_of(page) if len(row) == 5]
    assert len(labels) == len(ITEMS) + 4
    assert "[Figure 3](#j25-test)" in labels
    assert "reproduce.py j25-test --quick" in page
    assert ", 1,234 s of CPU" in page
    assert " of CPU" not in reproduction_tables([quick])
    assert "1 of them were run in the quick size" in page


def test_the_page_opens_with_verdicts_by_paper_the_refuted_first() -> None:
    bad = recorded_as("j25-b", "Figure 3", NO)
    good = recorded_as("j25-a", "Figure 2", YES)
    drawn = recorded_as("j25-c", "Figure 5", Statement("mean", True, True))
    page = reproduction_tables([good, drawn, bad])
    heading, first, *_, total = rows_of(page)[:6]
    assert heading == [
        *("paper", "not reproduced", "in part", "reproduced", "by construction", "measured")
    ]
    assert first == ["[J25]", "1", "", "1", "1", "3"]
    assert total == ["all", *first[1:]]
    assert ["[[J25] Figure 3](#j25-b)", "says", "0 of 1 statement", ""] in rows_of(page)
    assert "[[J25] Figure 2](#j25-a)" not in page
    assert "not reproduced (0 of 1 statement).** Fails: 0.5 within 10%. Because 1.\n" in page


def test_a_cause_is_filled_in_from_experiments() -> None:
    cause = Cause(("lengths",), "With {memory=5} it is {lengths=long}, with {memory=5}.")
    assert cause.experiments == ["memory=5", "lengths=long"]
    assert cause.told({"memory=5": "1 of 2 statements"}) == (
        "With 1 of 2 statements it is (`--vary lengths=long` not run), with 1 of 2 statements."
    )


def test_causes_ask_for_experiments_that_can_be_made() -> None:
    for study in map(reproduction, reproduction_names()):
        for experiment in study.cause.experiments if study.cause else ():
            what, _, value = experiment.partition("=")
            assert what in study.varies, study.name
            OWN.varied(what, value)


def experiment(name: str, item: str, varied: str, *statements: Statement) -> Recorded:
    return replace(recorded_as(name, item, *statements), varied=varied, measured="7 s.")


def test_experiments_are_beside_the_measurement_and_tell_its_cause() -> None:
    name = "j25-table-1"
    main = recorded_as(name, "Table 1", YES, NO, NO)
    tp1 = experiment(name, "Table 1", "batch-time=llama-2-70b-a100-tp1", YES, YES, NO)
    tp2 = experiment(name, "Table 1", "batch-time=llama-2-70b-a100-tp2", YES, NO, NO)
    page = reproduction_tables([main], experiments=[tp1, tp2])
    shown = ["not reproduced (1 of 3 statements)", "in part (2 of 3 statements)"]
    by_time = next(row for row in rows_of(page) if len(row) == 6 and row[4].startswith("llama"))
    remains = NO.text
    assert by_time == [
        *(f"[[J25] Table 1](#{name})", *shown, shown[0]),
        *("llama-2-70b-a100-tp1", remains),
    ]
    assert ["`batch-time=llama-2-70b-a100-tp1`", shown[1], "7 s"] in rows_of(page)
    assert "**Cause: batch time" in page
    assert "tensor parallel 1, 2 of 3 statements hold" in page
    # A quick experiment says nothing of a full measurement.
    other = reproduction_tables([main], experiments=[replace(tp1, size="quick")])
    assert "By batch time" not in other
    assert "tensor parallel 1, (`--vary batch-time=llama-2-70b-a100-tp1` not run) hold" in other


def test_docs_have_record_data_and_figures_of_every_measurement() -> None:
    folder = DOCS / "reproduction"
    files = {path.name for path in folder.iterdir() if path.is_file()}
    suffixes = (".json", ".csv", ".png", ".svg")
    assert files == {f"{name}{suffix}" for name in reproduction_names() for suffix in suffixes}
    recorded, experiments = recorded_in(folder)
    page = reproduction_tables(recorded, experiments=experiments)
    assert {each.name for each in recorded} == set(reproduction_names())
    assert experiments
    for name in reproduction_names():
        assert page.count(f"\n### {name}\n") == 1
        assert f"(reproduction/{name}.png)" in page


def test_map_keeps_the_order_on_any_number_of_processes() -> None:
    seen: list[tuple[int, int]] = []
    setting = Setting(jobs=2, progress=lambda done, total: seen.append((done, total)))
    assert setting.map(square, range(4)) == [0, 1, 4, 9]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert Setting().map(square, range(4)) == [0, 1, 4, 9]
