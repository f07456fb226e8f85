"""What a reproduction leaves behind: data, figure and verdict, each in a file of its name."""

from __future__ import annotations

import dataclasses
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instances import FileFormatError
from instances.files import TableWriter, parse_json, read_bytes, write_atomically
from online.pictures import save

from .declaration import VERDICTS, Outcome, Reproduction, Setting, Verdict

SIGNIFICANT_DIGITS = 10
"""Of floats in the CSV: beyond them processors differ."""


@dataclass(frozen=True)
class Recorded:
    """The verdict file of a reproduction.

    Attributes
    ----------
    name, paper, item, claim : str
        Of the `Reproduction` as it was run.
    measured, verdict, why : str, Verdict, str
        Of its `Outcome`.
    size : str
        ``"full"`` or ``"quick"``.
    """

    name: str
    paper: str
    item: str
    claim: str
    measured: str
    verdict: Verdict
    why: str
    size: str

    @property
    def line(self) -> str:
        """What the paper says, what was measured, reproduced or not, and why."""
        sentences = (
            f"the paper: {self.claim}",
            f"measured ({self.size} size): {self.measured}",
            f"{self.verdict}: {self.why}",
        )
        title = f"[{self.paper}] {self.item}"
        return f"{title}; " + "; ".join(text.rstrip(".") for text in sentences) + "."


def record(
    study: Reproduction, outcome: Outcome, setting: Setting, folder: str | os.PathLike[str]
) -> Recorded:
    """Write NAME.csv, NAME.png, NAME.svg and, last, NAME.json into ``folder``.

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
        measured=outcome.measured,
        verdict=outcome.verdict,
        why=outcome.why,
        size="quick" if setting.quick else "full",
    )
    stream = io.StringIO()
    writer = TableWriter(stream)
    writer.writerow(outcome.columns)
    writer.writerows([_cell(value) for value in row] for row in outcome.rows)
    write_atomically(base / f"{study.name}.csv", stream.getvalue())
    for suffix in (".png", ".svg"):
        save(outcome.figure, base / f"{study.name}{suffix}")
    text = json.dumps(dataclasses.asdict(recorded), indent=1, ensure_ascii=False) + "\n"
    write_atomically(base / f"{study.name}.json", text)
    return recorded


def read_recorded(path: str | os.PathLike[str]) -> Recorded:
    """The verdict in a file that `record` wrote.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        It is not such a file.
    """
    fields = {field.name for field in dataclasses.fields(Recorded)}
    document = parse_json(read_bytes(path), path)
    if not isinstance(document, dict) or set(document) != fields:
        raise FileFormatError(path, f"does not hold exactly {', '.join(sorted(fields))}")
    if not all(isinstance(value, str) for value in document.values()):
        raise FileFormatError(path, "holds a value that is no text")
    if document["verdict"] not in VERDICTS:
        raise FileFormatError(path, f"verdict {document['verdict']!r} is unknown")
    return Recorded(**document)


def _cell(value: Any) -> Any:
    # numpy's numbers would print their type.
    value = value.item() if hasattr(value, "item") else value
    return f"{value:.{SIGNIFICANT_DIGITS}g}" if isinstance(value, float) else value
