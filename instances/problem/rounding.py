"""Notes on rounding: an optimum is that of the rounded instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import as_integer, as_number


def rounding_note(metadata: Mapping[str, Any]) -> str | None:
    """Describe the rounding of traces or scaled lengths in a line; None if nothing was rounded.

    Bounds of a rounded instance are none of the log's, in neither direction: its requests hold more
    and run longer, but they count as arrived only when they can start.
    """
    trace, origin = metadata.get("trace"), metadata.get("origin")
    source = "drawn lengths" if trace is None else "log"
    found = origin.get("parameters") if trace is None and isinstance(origin, Mapping) else trace
    if not isinstance(found, Mapping):
        return None
    try:
        scale = as_integer(found.get("token_scale", 1), None, "token_scale", minimum=1)
        seconds = as_number(found.get("round_seconds", 1), None, "round_seconds", above=0)
    except (InvalidTypeError, InvalidValueError):
        # Metadata may hold anything, under these names too.
        return None
    parts = []
    if scale > 1:
        text = f"so requests hold and run at least what the {source} say{'s' * (source == 'log')}"
        parts.append(f"tokens are rounded up to multiples of {scale}, {text}")
    if found.get("has_arrival_times") is True:
        parts.append(f"arrivals are rounded up to round boundaries, every {seconds:g} s")
    if not parts:
        return None
    return f"bounds are of the rounded instance, not of the {source}: {'; '.join(parts)}"
