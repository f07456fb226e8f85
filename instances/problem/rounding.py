"""A note for bounds on an instance whose lengths or arrivals are rounded numbers of a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import as_integer, as_number


def rounding_note(metadata: Mapping[str, Any]) -> str | None:
    """Describe in one line how lengths and arrivals were rounded; None if they were not.

    ``metadata`` is that of an instance made from a log or by a generator. A lower or upper bound on
    the optimum of the rounded instance need not be one for the log. The rounded requests hold more
    tokens and run longer, but they also arrive later.
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
        # A user may store values of any kind under these keys. Ignore such values.
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
