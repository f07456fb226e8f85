"""What each policy came to on each instance of the library, and the file it is kept in."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from instances import FileFormatError, Library
from instances.files import read_bytes
from online.comparison.ratios import Latency
from online.experiment.documents import seconds_of_text, seconds_text
from online.runtime.table import csv_text

EXACT, INTERVAL = "exact lengths", "interval"
"""What policies are told of output lengths: each, or the least and the largest of the instance."""

HEAD = ("instance", "told", "version", "digest")
_FIGURE = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?")


@dataclass(frozen=True)
class Score:
    """One policy on one instance of the library.

    Attributes
    ----------
    instance, digest : str
        Name in the library, and content hash.
    policy : str
        Label.
    told : str
        What it was told of output lengths: `EXACT` or `INTERVAL`.
    version : str
        Of this package, when it ran.
    figure : int or Fraction or None
        What the instance's goal asks for: total latency or makespan, in rounds or seconds.
    reason : str or None
        Why there is none to be compared, in one line.
    """

    instance: str
    digest: str
    policy: str
    told: str
    version: str
    figure: Latency | None
    reason: str | None = None


def scores_csv(scores: Sequence[Score]) -> str:
    """A line for each instance and what was told, a column for each policy."""
    policies = sorted({score.policy for score in scores})
    lines: dict[tuple[str, str, str, str], dict[str, str]] = {}
    for score in scores:
        key = (score.instance, score.told, score.version, score.digest)
        lines.setdefault(key, {})[score.policy] = _cell(score)
    rows = [(*key, *(found.get(policy, "") for policy in policies)) for key, found in lines.items()]
    return csv_text([(*HEAD, *policies), *rows])


def _cell(score: Score) -> str:
    if score.figure is None:
        return score.reason or "no figure"
    return str(score.figure) if isinstance(score.figure, int) else seconds_text(score.figure)


def read_scores(path: str | os.PathLike[str], library: Library) -> list[Score]:
    """What `scores_csv` wrote, of the instances that ``library`` has now.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        It is no such file, or of another instance than the library has by that name.
    """
    head, *rows = _rows(path)
    if tuple(head[: len(HEAD)]) != HEAD:
        raise FileFormatError(path, f"does not begin with the columns {', '.join(HEAD)}")
    policies = head[len(HEAD) :]
    found: list[Score] = []
    for row in rows:
        if len(row) != len(head):
            raise FileFormatError(path, f"has a line of {len(row)} cells, not {len(head)}")
        name, told, version, digest = row[: len(HEAD)]
        if name not in library:
            raise FileFormatError(path, f"{name} is not in the library")
        if library[name].digest != digest:
            reason = f"is of another instance {name} than the library has: run it again"
            raise FileFormatError(path, reason)
        found += _scores(name, digest, told, version, zip(policies, row[len(HEAD) :], strict=True))
    return found


def _rows(path: str | os.PathLike[str]) -> list[list[str]]:
    try:
        return [*csv.reader(io.StringIO(read_bytes(path).decode("utf-8")))] or [[]]
    except UnicodeDecodeError:
        raise FileFormatError(path, "is no text") from None
    except csv.Error as error:
        raise FileFormatError(path, f"is no table: {error}") from None


def _scores(
    name: str, digest: str, told: str, version: str, cells: Iterable[tuple[str, str]]
) -> Iterable[Score]:
    for policy, cell in cells:
        if not cell:
            continue
        figure: Latency | None = None
        if _FIGURE.fullmatch(cell):
            figure = seconds_of_text(policy, cell) if "/" in cell else int(cell)
        reason = cell if figure is None else None
        yield Score(name, digest, policy, told, version, figure, reason)
