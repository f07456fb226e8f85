"""JSON output of commands: numbers as numbers, intervals as pairs, units in names."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from instances import Instance
from instances.files import write_atomically
from online.tables import Table
from online.trials.bootstrap import Confidence
from online.trials.intervals import Interval

from .console import check_output, print_fields, print_table, say, writing

STANDARD_OUTPUT = Path("-")

JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write what is found as JSON; - is standard output, where nothing else is then.",
    ),
]


_set_apart: int | None = None
"""Standard output, as long as it is kept for the JSON."""


def check_json(path: Path | None, source: Path | None = None) -> None:
    """Refuse a file that could not be written, as `check_output` does.

    From here on what a policy of the user's prints, in workers too, goes to the error output where
    standard output is to have the JSON.
    """
    global _set_apart
    if path != STANDARD_OUTPUT:
        check_output(path, (".json",), "--json", source=source)
        return
    if _set_apart is not None:
        return
    # Where it is no file, as in a notebook, there are no workers that share it either.
    with suppress(OSError):
        sys.stdout.flush()
        _set_apart = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def write_json(path: Path | None, subcommand: str, found: Mapping[str, Any]) -> bool:
    """Write what a subcommand found; return whether that takes the place of what it prints."""
    global _set_apart
    if path is None:
        return False
    document = {"format": f"llm-hindsight/{subcommand}", "version": 1, **found}
    text = json.dumps(plain(document), indent=1, allow_nan=False) + "\n"
    if path == STANDARD_OUTPUT:
        if _set_apart is not None:
            sys.stdout.flush()
            os.dup2(_set_apart, sys.stdout.fileno())
            os.close(_set_apart)
            _set_apart = None
        sys.stdout.write(text)
        return True
    with writing():
        write_atomically(path, text)
    return False


def answer(
    path: Path | None,
    subcommand: str,
    found: Mapping[str, Any],
    *parts: Table | Mapping[str, str] | str,
) -> None:
    """Write what a subcommand found; unless that took the place of the screen, print its parts."""
    if write_json(path, subcommand, found):
        return
    for part in parts:
        if isinstance(part, Table):
            print_table(part)
        elif isinstance(part, str):
            say(part)
        else:
            print_fields(part)


def about(instance: Instance) -> dict[str, Any]:
    """Name an instance, as every document about one does first."""
    return {
        "instance": instance.name,
        "digest": instance.digest,
        "requests": len(instance),
        "memory_limit_tokens": instance.memory_limit,
        **({"sum_of_weights": instance.total_weight} if instance.is_weighted else {}),
        **({"replicas": instance.replicas} if instance.replicas > 1 else {}),
    }


def about_fields(found: Mapping[str, Any]) -> dict[str, str]:
    """Lines of the screen from what `about` says."""
    return {
        "instance": found["instance"] or "",
        "digest": found["digest"],
        "requests": str(found["requests"]),
        "memory limit": str(found["memory_limit_tokens"]),
        **({"sum of weights": str(weight)} if (weight := found.get("sum_of_weights")) else {}),
        **({"replicas": str(count)} if (count := found.get("replicas")) else {}),
    }


def plain(value: Any) -> Any:
    """Return a value in JSON's types: intervals as [low, high], None for what is not known."""
    if isinstance(value, Interval):
        value = value.ends
    elif isinstance(value, Confidence):
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
