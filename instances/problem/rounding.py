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
    parts = []
    try:
        if isinstance(trace, Mapping):
            whose = "log"
            scale = as_integer(trace.get("token_scale"), None, "token_scale", minimum=1)
            if trace.get("has_arrival_times") is True:
                seconds = as_number(trace.get("round_seconds"), None, "round_seconds", above=0)
                parts.append(f"arrivals are rounded up to round boundaries, every {seconds:g} s")
        elif isinstance(origin, Mapping) and isinstance(origin.get("parameters"), Mapping):
            whose = "drawn lengths"
            scale = as_integer(
                origin["parameters"].get("token_scale", 1), None, "token_scale", minimum=1
            )
        else:
            return None
    except (InvalidTypeError, InvalidValueError):
        # Metadata may hold anything, under these names too.
        return None
    if scale > 1:
        told = f"so requests hold and run at least what the {whose} say{'s' * (whose == 'log')}"
        parts.insert(0, f"tokens are rounded up to multiples of {scale}, {told}")
    if not parts:
        return None
    return f"bounds are of the rounded instance, not of the {whose}: {'; '.join(parts)}"
