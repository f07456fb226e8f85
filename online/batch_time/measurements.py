"""Measured rounds of an engine: tokens processed, tokens in the KV cache, and seconds of each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from instances import FileFormatError
from instances.arrays import FloatArray
from instances.files import read_bytes

COLUMNS = ("tokens", "kv_tokens", "seconds")
FURTHER_COLUMNS = ("decodes", "prompt_squares", "prompt_past")


@dataclass(frozen=True, slots=True)
class Measurements:
    """Measured rounds, as columns of shape (number of rounds,).

    Attributes
    ----------
    tokens : float64 array
        Tokens processed in the round (prompt tokens, and one for each decoding request), >= 0.
    kv_tokens : float64 array
        KV tokens resident in the round, >= 0.
    seconds : float64 array
        Duration of the round, > 0.
    decodes : float64 array or None, default None
        Number of decoding requests in the round; None if unknown.
    prompt_squares, prompt_past : float64 array or None, default None
        Sums of n^2, and of n y, over the requests whose prompts are processed in the round. n is
        the number of prompt tokens of a request processed in the round, y the number of its tokens
        processed before. None if unknown.
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
            A column is missing, there are no rows, or a cell is not a number in its range. The
            message has the row of the cell.
        """
        import pandas

        try:
            table = pandas.read_csv(BytesIO(read_bytes(path)), dtype=str, encoding="utf-8-sig")
        except ValueError as error:
            raise FileFormatError(path, f"not a CSV file: {error}") from None
        missing = [name for name in COLUMNS if name not in table]
        if missing or table.empty:
            reason = f"column {missing[0]!r} is missing" if missing else "holds no measurements"
            raise FileFormatError(path, reason)
        found = {}
        for name in [name for name in (*COLUMNS, *FURTHER_COLUMNS) if name in table]:
            numbers = pandas.to_numeric(table[name], errors="coerce").to_numpy(np.float64)
            good = (numbers > 0) if name == "seconds" else (numbers >= 0) & (numbers % 1 == 0)
            _refuse(path, table[name], good & np.isfinite(numbers), "is not a number in its range")
            found[name] = numbers
        if "decodes" in found:
            good = found["decodes"] <= found["tokens"]
            _refuse(path, table["decodes"], good, "is more than all tokens processed")
        return cls(**found)


def _refuse(path: str | os.PathLike[str], cells: Any, good: Any, reason: str) -> None:
    """Raise `FileFormatError` for the first cell of a column for which ``good`` is False."""
    if not good.all():
        row = int(good.argmin())
        raise FileFormatError(path, f"{cells.name} {cells[row]!r} {reason}", row=row + 2)
