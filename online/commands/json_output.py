"""Write the answer of a command as JSON, or print it as lines."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO

from instances import Instance, Workload
from instances.files import write_atomically
from online.tables import Table, table_of
from online.trials.bootstrap import Confidence
from online.trials.intervals import Interval, rounded_down

from .console import check_output, print_fields, print_table, say, writing

STANDARD_OUTPUT = Path("-")

_kept: list[TextIO] = []
"""The stream of standard output while ``--json -`` reserves it for the JSON, else empty."""


def check_json(path: Path | None, source: Path | None = None) -> None:
    """Raise an error if the file of the option --json could not be written (`check_output`).

    If ``path`` is ``-``, JSON goes to standard output. From then on all other output of the command
    is printed on standard error.
    """
    if path != STANDARD_OUTPUT:
        check_output(path, (".json",), "--json", source=source)
    elif not _kept:
        _kept.append(sys.stdout)
        sys.stdout = sys.stderr


def answer(
    path: Path | None,
    subcommand: str,
    found: Mapping[str, Any],
    *parts: Table | str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> None:
    """Write the answer of a subcommand as JSON, and print it unless JSON is on standard output.

    Parameters
    ----------
    path : Path or None
        File for the JSON, ``-`` for standard output, or None.
    subcommand : str
        Name of the subcommand, for the field ``format`` of the JSON.
    found : Mapping[str, Any]
        The answer as a document.
    *parts : Table or str or Mapping or Sequence[Mapping]
        Parts to print: tables, texts, mappings (a field per line), or lists of mappings (as a
        table). Without parts, ``found`` is printed.
    """
    if path is not None:
        document = {"format": f"llm-hindsight/{subcommand}", "version": 1, **found}
        text = json.dumps(plain(document), indent=1, allow_nan=False) + "\n"
        if path == STANDARD_OUTPUT:
            sys.stdout = _kept.pop() if _kept else sys.stdout
            sys.stdout.write(text)
            return
        with writing():
            write_atomically(path, text)
    for part in parts or [found]:
        if isinstance(part, Table):
            print_table(part)
        elif isinstance(part, str):
            say(part)
        elif isinstance(part, Mapping):
            print_fields(lines_of(part))
        else:
            print_table(_table(part))


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with a row for each mapping in ``rows`` and a column for each field."""
    lines = [lines_of(row) for row in rows]
    labels = [*dict.fromkeys(label for line in lines for label in line)]
    words = {_label(key) for row in rows for key, it in row.items() if isinstance(it, str | Path)}
    filled = [{label: line.get(label, "") for label in labels} for line in lines]
    return table_of(filled, numbers={*labels} - words)


def lines_of(document: Mapping[str, Any], within: str = "") -> dict[str, str]:
    """Return the fields of a JSON document as texts by label, without empty fields.

    ``within`` is put before all labels. The label of a nested field begins with the label of the
    outer field. Items of a list that are not strings are left out.
    """
    lines: dict[str, str] = {}
    for key, value in document.items():
        label = f"{within}{_label(key)}"
        if isinstance(value, Mapping):
            lines |= lines_of(value, f"{label} ")
        elif text := _text(key, value):
            lines[label] = text
    return lines


def _label(key: str) -> str:
    return key.replace("_", " ")


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and key.endswith("gap"):
        from hindsight.outcomes.result import percent

        return percent(value)
    if isinstance(value, float):
        return rounded_down(value)
    if isinstance(value, tuple):
        return Interval.between(*value).text(4 if any(isinstance(n, float) for n in value) else 0)
    if isinstance(value, list):
        return "; ".join(one for one in value if isinstance(one, str))
    return "" if value is None else str(value)


def instance_fields(instance: Instance | Workload) -> dict[str, Any]:
    """Return the fields of a JSON document that identify an instance: name, sizes and digest."""
    weight = getattr(instance, "is_weighted", False) and getattr(instance, "total_weight", 0)
    return {
        "instance": instance.name,
        "requests": len(instance),
        "memory_limit_tokens": instance.memory_limit,
        **({"sum_of_weights": weight} if weight else {}),
        **({"replicas": instance.replicas} if instance.replicas > 1 else {}),
        "digest": instance.digest,
    }


def plain(value: Any) -> Any:
    """Convert a value to the types of JSON.

    An interval becomes [low, high], a fraction a float, and an infinite number or NaN None.
    """
    if isinstance(value, Interval):
        return plain(value.ends)
    if isinstance(value, Fraction):
        return float(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = plain(vars(value))
        return [*fields.values()] if isinstance(value, Confidence) else fields
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
