"""Prompt and output lengths alone: a CSV whose columns name their unit, words or tokens."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from instances.arrays import IntArray
from instances.errors import FileFormatError
from instances.files import read_bytes
from instances.logs.cells import as_count

Unit = Literal["words", "tokens"]
UNITS: tuple[Unit, ...] = get_args(Unit)
COLUMNS: dict[tuple[str, str], Unit] = {
    **{(f"prompt_{unit}", f"output_{unit}"): unit for unit in UNITS},
    ("num_prefill_tokens", "num_decode_tokens"): "tokens",
}
"""What the two columns may be called, and what they count then."""


@dataclass(frozen=True)
class LengthFile:
    """A file of lengths, known by its digest; the lengths themselves are read when asked for.

    Attributes
    ----------
    path : Path
        Where it is.
    unit : Unit
        What it counts, ``"words"`` or ``"tokens"``.
    digest : str
        SHA-256 of its bytes.
    rows : int
        Requests.
    mean_prompt, mean_output : float
        Of all of them.
    """

    path: Path
    unit: Unit
    digest: str
    rows: int
    mean_prompt: float
    mean_output: float

    def lengths(self) -> tuple[IntArray, IntArray]:
        """Prompts and outputs, shape (rows,) each.

        Raises
        ------
        OSError
            The file is not there any more.
        FileFormatError
            It is another one than before.
        """
        _, digest, prompts, outputs = _read(self.path)
        if digest != self.digest:
            raise FileFormatError(self.path, "has changed since it was read first")
        return prompts, outputs

    def __str__(self) -> str:
        """Describe the file in figures, without any row, for a record."""
        return (
            f"a file of {self.rows:,} requests, {self.mean_prompt:.2f} and {self.mean_output:.2f} "
            f"{self.unit} on average, SHA-256 {self.digest}"
        )


def read_lengths(path: Path) -> LengthFile:
    """Read a CSV with columns ``prompt_words`` and ``output_words``, or ``.._tokens``, or Vidur's.

    Other columns are passed over, blank lines too.

    Raises
    ------
    OSError
        It cannot be read.
    FileFormatError
        Columns that are missing, or count words and tokens both; a length that is not a whole
        number, or not positive; no rows.
    """
    unit, digest, prompts, outputs = _read(path)
    means = float(prompts.mean()), float(outputs.mean())
    return LengthFile(path, unit, digest, len(prompts), *means)


@lru_cache(maxsize=4)
def _read(path: Path) -> tuple[Unit, str, IntArray, IntArray]:
    content = read_bytes(path)
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FileFormatError(path, f"not UTF-8 text: {error}") from None
    rows = csv.reader(lines)
    heading = next(rows, [])
    names = _columns(path, heading)
    places = [heading.index(name) for name in names]
    found: list[list[int]] = [[], []]
    for row in rows:
        if not row:
            continue
        for name, place, lengths in zip(names, places, found, strict=True):
            lengths.append(_length(path, name, row[place : place + 1], rows.line_num))
    if not found[0]:
        raise FileFormatError(path, "holds no requests")
    prompts, outputs = (np.array(one, dtype=np.int64) for one in found)
    for kept in (prompts, outputs):
        kept.setflags(write=False)
    return COLUMNS[names], hashlib.sha256(content).hexdigest(), prompts, outputs


def _columns(path: Path, heading: list[str]) -> tuple[str, str]:
    fitting = [names for names in COLUMNS if set(names) <= set(heading)]
    if len(fitting) == 1:
        return fitting[0]
    units = {unit for names, unit in COLUMNS.items() for name in names if name in heading}
    reason = "counts words and tokens both" if len(units) > 1 else "names no prompts and outputs"
    wanted = ", or ".join(" and ".join(names) for names in COLUMNS)
    raise FileFormatError(path, f"{reason}: needs the columns {wanted}, has {', '.join(heading)}")


def _length(path: Path, name: str, cell: list[str], line: int) -> int:
    text = cell[0].strip() if cell else ""
    try:
        length = as_count(text)
    except ValueError as error:
        raise FileFormatError(path, f"{name} {text[:40]!r} {error}", row=line) from None
    if not length:
        raise FileFormatError(path, f"{name} is 0, and every request has one at least", row=line)
    return length
