"""Rows of a trace that cannot be read: why, and how many were skipped for which reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, NamedTuple, get_args

from instances.errors import InvalidValueError

OnBadRows = Literal["refuse", "skip"]

LONGEST_SHOWN = 80
"""Characters of a refused cell that its error repeats."""

MOST_NAMED = 3
"""Rows that are named for each reason."""

WAY_OUT = "bad_rows='skip' leaves such rows out"


class BadRow(NamedTuple):
    """Why a row cannot be read.

    Attributes
    ----------
    reason : str
        The same for all rows with this fault, such as ``"output is missing"``.
    message : str
        What an error about this row says: the reason with the refused value.
    """

    reason: str
    message: str


def bad_cell(column: str, value: Any, reason: str) -> BadRow:
    """Say why a cell cannot be read.

    Parameters
    ----------
    column : str
        Its column.
    value : Any
        What it holds.
    reason : str
        What is wrong with it; an empty cell is always missing.
    """
    text = "" if value is None else str(value).strip()
    if not text:
        return BadRow(f"{column} is missing", f"{column} is missing")
    is_plain = isinstance(value, (float, Decimal)) or text.removeprefix("-").isdigit()
    shown = text if is_plain else repr(value)
    if len(shown) > LONGEST_SHOWN:
        shown = f"{shown[:LONGEST_SHOWN]}..."
    return BadRow(f"{column} {reason}", f"{column} {shown} {reason}")


@dataclass
class SkippedRows:
    """Rows of a trace that were skipped, counted by reason; `str` says it in a line.

    Attributes
    ----------
    rows : int
        All rows read so far, skipped or not.
    counts : dict[str, int]
        How many rows were skipped for which reason.
    first_rows : dict[str, list[int]]
        The numbers of the first of them.
    """

    rows: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    first_rows: dict[str, list[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def add(self, number: int, reason: str) -> None:
        """Count a row that was skipped."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        named = self.first_rows.setdefault(reason, [])
        if len(named) < MOST_NAMED:
            named.append(number)

    def __str__(self) -> str:
        most = ", more than half of them" if 2 * len(self) > self.rows else ""
        return f"{len(self):,} of {self.rows:,} rows skipped{most}: {self.reasons()}"

    def reasons(self) -> str:
        """Name the reasons, the most frequent first, with the first rows of each."""
        parts = []
        for reason, count in sorted(self.counts.items(), key=lambda one: -one[1]):
            named = ", ".join(map(str, self.first_rows[reason]))
            more = ", ..." if count > MOST_NAMED else ""
            parts.append(f"{count:,} because {reason} (row{'s'[: count - 1]} {named}{more})")
        return ", ".join(parts)


def check_bad_rows(value: Any) -> OnBadRows:
    """``value`` if it says what becomes of rows that cannot be read.

    Raises
    ------
    InvalidValueError
        It does not.
    """
    if value not in get_args(OnBadRows):
        raise InvalidValueError(None, "bad_rows", value, "is neither 'refuse' nor 'skip'")
    found: OnBadRows = value
    return found
