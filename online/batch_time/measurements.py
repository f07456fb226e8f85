"""Measured rounds: work, resident tokens and duration of each."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from instances import FileFormatError
from instances.arrays import FloatArray
from instances.batch_time import BatchStretch, BatchTime
from instances.files import bounded_lines
from instances.validation import as_number

COLUMNS = ("tokens", "kv_tokens", "seconds")
FURTHER_COLUMNS = ("decodes", "prompt_squares", "prompt_past")


def round_of(
    decodes: float, kv_tokens: float, prompt: float, square: float, past: float
) -> BatchStretch:
    """Return a measured round in the form a batch time takes; it completes no prompt.

    Parameters
    ----------
    decodes, kv_tokens, prompt, square, past : float
        See `Measurements`; ``prompt`` counts tokens of requests that do not decode.
    """
    return BatchStretch(
        rounds=1,
        requests=decodes,  # type: ignore[arg-type]
        new_prompt_tokens=0,
        new_requests=0,
        memory=kv_tokens,  # type: ignore[arg-type]
        growth=0,
        chunk_tokens=prompt,  # type: ignore[arg-type]
        chunk_squares=square,  # type: ignore[arg-type]
        chunk_past=past,  # type: ignore[arg-type]
    )


def csv_rows(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV file, each with its line number.

    Raises
    ------
    OSError, FileFormatError
        The file cannot be read, or is not CSV text.
    """
    with open(path, newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(bounded_lines(stream, path))
        try:
            for row in reader:
                yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise FileFormatError(path, f"not a CSV file: {error}") from error


@dataclass(frozen=True, slots=True)
class Measurements:
    """Measured rounds, as columns of shape (k,).

    Attributes
    ----------
    tokens : float64 array
        Tokens processed (prompt tokens, and one for each decoding request), >= 0.
    kv_tokens : float64 array
        KV tokens resident, >= 0.
    seconds : float64 array
        Duration, > 0.
    decodes : float64 array or None, default None
        Number of decoding requests; None if unknown.
    prompt_squares, prompt_past : float64 array or None, default None
        Squares of the prompt tokens that each request processes, and their products with its tokens
        processed before, summed over requests; None if unknown.
    """

    tokens: FloatArray
    kv_tokens: FloatArray
    seconds: FloatArray
    decodes: FloatArray | None = None
    prompt_squares: FloatArray | None = None
    prompt_past: FloatArray | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Measurements:
        """Read a CSV file with the columns ``tokens,kv_tokens,seconds``.

        The columns ``decodes``, ``prompt_squares`` and ``prompt_past`` are read if present; other
        columns are ignored.

        Raises
        ------
        OSError
            The file cannot be read.
        FileFormatError
            A missing column, a cell that is no number in range (with its row), or no rows.
        """
        rows: list[tuple[float, ...]] = []
        names: list[str] = []
        for number, row in csv_rows(path):
            if not rows:
                for column in COLUMNS:
                    if column not in row:
                        reason = f"column {column!r} is missing (found: {', '.join(row)})"
                        raise FileFormatError(path, reason)
                names = [*COLUMNS, *[one for one in FURTHER_COLUMNS if one in row]]
            cells = {name: _cell(row[name], name, path, number) for name in names}
            if cells.get("decodes", 0) > cells["tokens"]:
                reason = f"decodes {row['decodes']!r} is more than all tokens processed"
                raise FileFormatError(path, reason, row=number)
            rows.append(tuple(cells.values()))
        if not rows:
            raise FileFormatError(path, "holds no measurements")
        table = np.array(rows, dtype=np.float64)
        return cls(**{name: table[:, place] for place, name in enumerate(names)})

    def stretches(self) -> Iterator[BatchStretch]:
        """Yield each round as a batch time takes it; if unknown, all requests count as decoding."""
        nothing = np.zeros_like(self.tokens)
        decodes = self.tokens if self.decodes is None else self.decodes
        squares = nothing if self.prompt_squares is None else self.prompt_squares
        past = nothing if self.prompt_past is None else self.prompt_past
        columns = (decodes, self.kv_tokens, self.tokens - decodes, squares, past)
        # Means over several rounds need not be integers; the models accept them.
        for row in zip(*[column.tolist() for column in columns], strict=True):
            yield round_of(*row)

    def predicted(self, model: BatchTime) -> FloatArray:
        """Return the seconds that a batch time predicts for each round."""
        return np.array([model.durations(one)[0] for one in self.stretches()])


def _cell(text: str | None, column: str, path: str | os.PathLike[str], row: int) -> float:
    try:
        value = as_number(float(text or ""), None, column, minimum=0)
    except ValueError:
        value = -1.0
    if value < 0 or (value == 0 if column == "seconds" else not value.is_integer()):
        raise FileFormatError(path, f"{column} {text!r} is not a number in its range", row=row)
    return value
