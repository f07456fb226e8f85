"""What commands find, for machines: numbers as numbers, intervals as pairs, units in names."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from instances.files import write_atomically
from online.comparison.bootstrap import ConfidenceInterval
from online.comparison.ratios import Interval
from online.comparison.records import Record

from .console import check_output, writing

STANDARD_OUTPUT = Path("-")

JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write what is found as JSON; - is standard output, where nothing else is then.",
    ),
]


def check_json(path: Path | None, source: Path | None = None) -> None:
    """Refuse a file that could not be written, as `check_output` does."""
    if path != STANDARD_OUTPUT:
        check_output(path, (".json",), "--json", source=source)


def write_json(path: Path | None, subcommand: str, found: Mapping[str, Any]) -> bool:
    """Write what a subcommand found; whether that takes the place of what it prints."""
    if path is None:
        return False
    document = {"format": f"llm-hindsight/{subcommand}", "version": 1, **found}
    text = json.dumps(plain(document), indent=1, allow_nan=False) + "\n"
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return True
    with writing():
        write_atomically(path, text)
    return False


def record_entry(record: Record) -> dict[str, Any]:
    """A record; its latencies are in the unit that it names."""
    entry = plain(record)
    for name in ("in_seconds", "optimum_upper", "optimum_lower"):
        del entry[name]
    for name, new in (("memory_limit", "memory_limit_tokens"), ("lower_bound", "bound_name")):
        entry[new] = entry.pop(name)
    return {
        **entry,
        "unit": record.unit,
        "compared_with": record.compared_with,
        "optimum": plain([record.optimum_lower, record.optimum_upper]),
        "is_proved": record.is_proved,
        "ratio": plain(record.ratio),
        "mean_latency": plain(record.mean_latency),
        "mean_optimum": plain(record.mean_optimum),
        "waiting": plain(record.waiting),
        "optimum_waiting": plain(record.optimum_waiting),
        "waiting_ratio": plain(record.waiting_ratio),
    }


def plain(value: Any) -> Any:
    """A value in JSON's types: intervals as [low, high], null for what is not known."""
    if isinstance(value, Interval):
        value = value.ends
    elif isinstance(value, ConfidenceInterval):
        value = (value.low, value.high)
    elif isinstance(value, Fraction):
        value = float(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
