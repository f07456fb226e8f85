"""Defaults that end: how long searches take that nobody gave a limit."""

from __future__ import annotations

import math
from typing import Annotated

import typer

DEFAULT_SECONDS = 60.0
"""For each optimum or bound: most of what is proved at all is proved in less."""

TimeLimit = Annotated[
    float | None,
    typer.Option(
        min=0, help=f"Seconds; default: {DEFAULT_SECONDS:g}. inf: until it is proved or at its end."
    ),
]


def limit_of(given: float | None, default: float = DEFAULT_SECONDS) -> float | None:
    """The limit that an option stands for; None where it was lifted."""
    limit = default if given is None else given
    return None if limit == math.inf else limit


def limit_note(
    given: float | None, stop_reason: str | None, default: float = DEFAULT_SECONDS
) -> str | None:
    """A line for a search that a limit ended which nobody gave."""
    if given is not None or stop_reason != "time-limit":
        return None
    return f"{default:g} s by default, which ended it; --time-limit inf lifts it"
