"""Record of a reproduction: data, figure and verdict, each in a file of its name."""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instances import FileFormatError, InvalidTypeError, InvalidValueError
from instances.files import (
    TableWriter,
    all_or_nothing,
    parse_json,
    read_bytes,
    write_atomically,
)
from instances.validation import as_flag, as_number
from online.pictures import save

from .conditions import SYNTHETIC
from .declaration import Outcome, Reproduction, Setting
from .verdicts import Statement, Verdict, findings, share, verdict_of

VARIATIONS = "variations"
"""Folder of experiments, beside the measurements."""

SIGNIFICANT_DIGITS = 10
"""Of floats in the CSV: beyond them processors differ."""


@dataclass(frozen=True)
class Recorded:
    """Stored result of a reproduction, besides data and figure.

    Attributes
    ----------
    name, paper, item, claim : str
        Of the `Reproduction` as it was run.
    size : str
        ``"full"`` or ``"quick"``.
    measured, statements, remark : str, tuple[Statement, ...], str
        Of its `Outcome`.
    lengths : Mapping[str, str]
        By data set, which lengths stood for it: synthetic ones, or the figures of a reader's file.
    varied : str
        What an experiment changed, as ``"memory=65968"``; empty for the measurement itself.
    cpu_seconds : float or None
        What it took, over all processes; None where that was not noted.
    """

    name: str
    paper: str
    item: str
    claim: str
    size: str
    measured: str
    statements: tuple[Statement, ...]
    remark: str
    lengths: Mapping[str, str] = field(default_factory=dict)
    varied: str = ""
    cpu_seconds: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Return the verdict by the present rule, whatever it was at the measurement."""
        return verdict_of(self.statements)

    @property
    def share(self) -> str:
        """On how much the verdict rests: ``"2 of 3 statements"``."""
        return share(self.statements)

    @property
    def why(self) -> str:
        """Describe what holds, what does not, and what else the reader should know."""
        remark = f"{self.remark[0].upper()}{self.remark[1:].rstrip('.')}."
        files = "; ".join(
            f"{name}, {told}" for name, told in self.lengths.items() if told != SYNTHETIC
        )
        return f"{findings(self.statements)} {remark}{f' Lengths of {files}.' if files else ''}"

    @property
    def line(self) -> str:
        """Describe the paper's claim, the measurement, whether it reproduces, and why."""
        sentences = (
            f"the paper: {self.claim}",
            f"measured ({self.size} size): {self.measured}",
            f"{self.verdict} ({self.share}): {self.why}",
        )
        title = f"[{self.paper}] {self.item}"
        return f"{title}; " + "; ".join(text.rstrip(".") for text in sentences) + "."


def record(
    study: Reproduction,
    outcome: Outcome,
    setting: Setting,
    folder: str | os.PathLike[str],
    cpu_seconds: float | None = None,
) -> Recorded:
    """Write NAME.csv, NAME.png, NAME.svg and, last, NAME.json into ``folder``.

    Where something is varied, only the last, as variations/NAME--WHAT-VALUE.json.

    Raises
    ------
    OSError
        The folder is missing or not writable.
    """
    base = Path(folder)
    recorded = Recorded(
        name=study.name,
        paper=study.paper,
        item=study.item,
        claim=study.claim,
        size="quick" if setting.quick else "full",
        measured=outcome.measured,
        statements=tuple(outcome.statements),
        remark=outcome.remark,
        lengths=setting.conditions.used(study.lengths),
        varied=setting.conditions.change,
        cpu_seconds=None if cpu_seconds is None else round(cpu_seconds, 1),
    )
    if recorded.varied:
        (base / VARIATIONS).mkdir(exist_ok=True)
        write_recorded(recorded, variation_path(base, study.name, recorded.varied))
        return recorded
    stream = io.StringIO()
    writer = TableWriter(stream)
    writer.writerow(outcome.columns)
    writer.writerows([_cell(value) for value in row] for row in outcome.rows)
    with all_or_nothing():
        write_atomically(base / f"{study.name}.csv", stream.getvalue())
        for suffix in (".png", ".svg"):
            save(outcome.figure, base / f"{study.name}{suffix}")
        write_recorded(recorded, base / f"{study.name}.json")
    return recorded


def variation_path(folder: Path, name: str, varied: str) -> Path:
    """Return the path where `record` writes an experiment."""
    stem = "".join(sign if sign.isalnum() or sign in "-." else "-" for sign in varied)
    return folder / VARIATIONS / f"{name}--{stem}.json"


def recorded_in(folder: Path) -> tuple[list[Recorded], list[Recorded]]:
    """The measurements of a folder, and the experiments beside them, by name.

    Raises
    ------
    OSError, FileFormatError
        One cannot be read.
    """
    places = (folder, folder / VARIATIONS)
    found, varied = ([read_recorded(path) for path in sorted(at.glob("*.json"))] for at in places)
    return found, varied


def write_recorded(recorded: Recorded, path: str | os.PathLike[str]) -> None:
    """Write the file that `read_recorded` reads.

    Raises
    ------
    OSError
        It cannot be written.
    """
    text = json.dumps(dataclasses.asdict(recorded), indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text)


def read_recorded(path: str | os.PathLike[str]) -> Recorded:
    """Read a file that `record` wrote.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        It is not such a file.
    """
    document = _object(parse_json(read_bytes(path), path), Recorded, path)
    statements = document.pop("statements")
    if not isinstance(statements, list) or not statements:
        raise FileFormatError(path, "holds no list of statements")
    cpu_seconds = document.pop("cpu_seconds")
    if cpu_seconds is not None:
        try:
            cpu_seconds = as_number(cpu_seconds, None, "cpu_seconds", minimum=0)
        except (InvalidTypeError, InvalidValueError) as error:
            raise FileFormatError(path, str(error)) from None
    lengths = document.pop("lengths")
    texts = [*document.values(), *lengths.values()] if isinstance(lengths, dict) else [None]
    if not all(isinstance(value, str) for value in texts):
        raise FileFormatError(path, "holds a value that is no text")
    return Recorded(
        **document,
        statements=tuple(_statement(each, path) for each in statements),
        lengths=lengths,
        cpu_seconds=cpu_seconds,
    )


def _object(document: Any, kind: type, path: str | os.PathLike[str]) -> dict[str, Any]:
    fields = {each.name for each in dataclasses.fields(kind)}
    if not isinstance(document, dict) or set(document) != fields:
        raise FileFormatError(path, f"does not hold exactly {', '.join(sorted(fields))}")
    return document


def _statement(document: Any, path: str | os.PathLike[str]) -> Statement:
    found = _object(document, Statement, path)
    if not isinstance(found["text"], str):
        raise FileFormatError(path, "a statement is no text")
    try:
        for flag in ("holds", "by_construction"):
            as_flag(found[flag], "statement", flag)
    except InvalidTypeError as error:
        raise FileFormatError(path, str(error)) from None
    return Statement(**found)


def _cell(value: Any) -> Any:
    # numpy's numbers would print their type.
    value = value.item() if hasattr(value, "item") else value
    return f"{value:.{SIGNIFICANT_DIGITS}g}" if isinstance(value, float) else value
