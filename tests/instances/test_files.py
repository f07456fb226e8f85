"""Files: written whole or not at all, tables without formulas."""

from __future__ import annotations

import csv
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from instances import FileFormatError, Instance, InvalidTypeError, Request, files, load, save
from instances.files import csv_text, parse_json, parse_toml, write_atomically


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize(("content", "expected"), [("é\n", "é\n".encode()), (b"\xff\n", b"\xff\n")])
def test_content_arrives_and_no_temporary_file_stays(tmp_path, content, expected) -> None:
    write_atomically(tmp_path / "x", content)
    assert (tmp_path / "x").read_bytes() == expected
    assert names(tmp_path) == ["x"]


def test_a_new_file_has_the_mode_of_a_plain_one(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    write_atomically(tmp_path / "atomic", "x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "atomic")]
    assert modes[0] == modes[1]
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "absent" / "x", "new")


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=repr)
def test_a_failure_at_any_step_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    (tmp_path / "x").write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        write_atomically(tmp_path / "x", "new")
    monkeypatch.undo()
    assert (tmp_path / "x").read_text() == "old"
    assert names(tmp_path) == ["x"]


def nested(depth: int) -> Any:
    """Lists and tables in turn around a number."""
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def test_documents_are_read_down_to_a_depth() -> None:
    for depth in (0, 1, 99, 100):
        assert parse_json(json.dumps(nested(depth)), "x") == nested(depth)
    for depth in (101, 400, 900):
        with pytest.raises(FileFormatError, match="^x: is nested more than 100 deep$"):
            parse_json(json.dumps(nested(depth)), "x")
    # The table of the whole document is one of them.
    assert parse_toml("a = " + "[" * 99 + "]" * 99, "x")
    for text in (
        "a = " + "[" * 100 + "1" + "]" * 100,
        "a" + ".a" * 100 + " = 1",
        f"[{'a.' * 110}a]",
    ):
        with pytest.raises(FileFormatError, match="^x: is nested more than 100 deep$"):
            parse_toml(text, "x")


@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_are_read_up_to_a_size(sign: str) -> None:
    largest = int(sign + "1" + "0" * 300)
    beyond = str(largest + (-1 if sign else 1))
    assert parse_json(f"[{largest}]", "x") == [largest]
    assert parse_toml(f"a = {largest}", "x") == {"a": largest}
    for parse, text in ((parse_json, f'{{"a": [{beyond}]}}'), (parse_toml, f"a = [{beyond}]")):
        with pytest.raises(FileFormatError, match="holds an integer of more than 300 digits"):
            parse(text, "x")
    for parse, text in ((parse_json, sign + "9" * 5000), (parse_toml, f"a = {sign}{'9' * 5000}")):
        with pytest.raises(FileFormatError, match="digits"):
            parse(text, "x")


def test_what_is_no_text_and_what_is_no_document() -> None:
    for parse in (parse_json, parse_toml):
        with pytest.raises(FileFormatError, match="^x: not UTF-8 text"):
            parse(b"\xff", "x")
        with pytest.raises(FileFormatError, match="^x: not UTF-8 text"):
            parse('a = "\u00e9"'.encode("utf-16"), "x")
    with pytest.raises(FileFormatError, match="^x: not valid JSON at line 2"):
        parse_json("[1,\n,]", "x")
    with pytest.raises(FileFormatError, match="^x: is not TOML: "):
        parse_toml("a == 1", "x")


def test_a_document_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_TEXT", 1000)
    path = tmp_path / "long.json"
    path.write_text("[" + "1," * 1000)
    with pytest.raises(FileFormatError, match="larger than 1000 bytes"):
        load(path)


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    for value in (nested(150), 10**301):
        instance = Instance([Request(0, 1, 1)], 4, metadata={"key": value})
        with pytest.raises(InvalidTypeError, match="cannot be written as JSON: .* (deep|digits)"):
            save(instance, tmp_path / "x.json")
    assert names(tmp_path) == []


NUMBERS = ["-1", "+2.5", "-1e-3", "-0.3600", "", "1.4222", "[1.0, 2.0]", -1, -0.5, None]
FORMULAS = ["=1+1", "=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1)", "-", "--5"]
CONTROLS = ["\t=1", "\r=1", "a\r=1", "a\n=1", "\x1b[31m"]


def test_a_table_holds_no_formulas_and_all_its_numbers() -> None:
    text = csv_text([NUMBERS, FORMULAS, CONTROLS])
    numbers, formulas, controls = csv.reader(text.rstrip("\n").split("\n"))
    assert numbers == ["" if one is None else str(one) for one in NUMBERS]
    assert formulas == [f"'{one}" for one in FORMULAS]
    assert controls == [r"\t=1", r"\r=1", r"a\r=1", r"a\n=1", r"\x1b[31m"]
