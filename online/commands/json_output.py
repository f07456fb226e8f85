"""Answers of commands, for the screen and as JSON: intervals as pairs, units in names."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TextIO

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
        help="Write the answer as JSON; - is standard output, where nothing else is then.",
    ),
]

_kept: list[TextIO] = []
"""Standard output, while it is kept for the JSON."""


def check_json(path: Path | None, source: Path | None = None) -> None:
    """Refuse a file that could not be written, as `check_output` does.

    If standard output is to have the JSON, other code prints on the error output from here on.
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
    *parts: Table | Mapping[str, str] | str,
) -> None:
    """Write the answer of a subcommand as JSON, and print its parts unless JSON is printed."""
    if path is not None:
        document = {"format": f"llm-hindsight/{subcommand}", "version": 1, **found}
        text = json.dumps(plain(document), indent=1, allow_nan=False) + "\n"
        if path == STANDARD_OUTPUT:
            sys.stdout = _kept.pop() if _kept else sys.stdout
            sys.stdout.write(text)
            return
        with writing():
            write_atomically(path, text)
    for part in parts:
        if isinstance(part, Table):
            print_table(part)
        elif isinstance(part, str):
            say(part)
        else:
            print_fields(part)


class Answer:
    """What a subcommand found about one thing: each value once, for JSON and for the screen.

    Attributes
    ----------
    found : dict[str, Any]
        Values for JSON.
    shown : dict[str, str]
        Lines of the screen.
    """

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.shown: dict[str, str] = {}

    def add(self, key: str, value: Any, label: str = "", text: object = None) -> None:
        """Add a value by its name in JSON, and by its label on the screen if it has one.

        The screen has the text, else the value; no line where that is None or empty.
        """
        self.found[key] = value
        self.show(label, value if text is None else text)

    def show(self, label: str, text: object) -> None:
        """Add a line for the screen alone."""
        if label and text not in (None, ""):
            self.shown[label] = str(text)

    def add_instance(self, instance: Instance) -> None:
        """Name an instance, as every document about one does first."""
        self.add("instance", instance.name, "instance")
        self.add("digest", instance.digest, "digest")
        self.add("requests", len(instance), "requests")
        self.add("memory_limit_tokens", instance.memory_limit, "memory limit")
        if instance.is_weighted:
            self.add("sum_of_weights", instance.total_weight, "sum of weights")
        if instance.replicas > 1:
            self.add("replicas", instance.replicas, "replicas")


def plain(value: Any) -> Any:
    """Return a value in the types of JSON: intervals as [low, high], None for an unknown value."""
    if isinstance(value, Interval):
        value = value.ends
    elif isinstance(value, Confidence):
        value = (value.low, value.high)
    elif isinstance(value, Fraction):
        value = float(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
