"""The formats that are known, and telling which one a file has."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from instances.errors import FileFormatError, InvalidTypeError
from instances.registry import UnknownNameError

from .azure import AZURE
from .burstgpt import BURSTGPT
from .mooncake import MOONCAKE
from .row import TraceFormat
from .vidur import VIDUR

FORMATS: dict[str, TraceFormat] = {one.name: one for one in (AZURE, BURSTGPT, MOONCAKE, VIDUR)}


def format_named(name: Any) -> TraceFormat:
    """The format of that name.

    Raises
    ------
    InvalidTypeError: not a string.
    UnknownNameError: no such format.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(None, "format", name, "is not a string")
    if name not in FORMATS:
        raise UnknownNameError("trace format", name, sorted(FORMATS))
    return FORMATS[name]


def detect_format(
    path: Any, container: Literal["csv", "jsonl"], columns: Collection[str]
) -> TraceFormat:
    """The format whose columns a file has.

    Where none fits, but just one shares a column with the file, it is that one with a column
    missing, and the reader says which.

    Raises
    ------
    FileFormatError: no format or several fit.
    """
    alike = [one for one in FORMATS.values() if one.container == container]
    fitting = [one for one in alike if all(column in columns for column in one.required)]
    if not fitting:
        fitting = [one for one in alike if {one.time, one.prompt, one.output} & set(columns)]
    if len(fitting) != 1:
        known = "; ".join(f"{one.name}: {', '.join(one.required)}" for one in alike)
        raise FileFormatError(
            path,
            f"the columns ({', '.join(columns) or 'none'}) fit "
            f"{'several formats' if fitting else 'no format'} ({known}); name it with format",
        )
    return fitting[0]
