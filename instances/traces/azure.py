"""Azure LLM inference traces (AzurePublicDataset), 2023 and 2024."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from .row import TICK_DIGITS, TICKS_PER_SECOND, Clock, TraceFormat

_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,24}))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1)
_EPOCH_IN_ZONE = datetime(1970, 1, 1, tzinfo=UTC)


def _new_clock() -> Clock:
    """Dates with a time; the 2023 files carry no zone, those of 2024 do, and none mixes."""
    zoned: bool | None = None

    def ticks(value: Any) -> int:
        nonlocal zoned
        stamp = _STAMP.fullmatch(str(value).strip())
        if stamp is None:
            raise ValueError("is not a time")
        whole, digits, zone = stamp.groups()
        try:
            moment = datetime.fromisoformat(whole + (zone or ""))
        except ValueError:
            raise ValueError("is not a time") from None
        if zoned is None:
            zoned = zone is not None
        elif zoned != (zone is not None):
            raise ValueError("has a time zone, or none, unlike the rows before")
        elapsed = moment - (_EPOCH_IN_ZONE if zoned else _EPOCH)
        count: int = (elapsed.days * 86_400 + elapsed.seconds) * TICKS_PER_SECOND
        return count + (int(digits.ljust(TICK_DIGITS, "0")) if digits else 0)

    return ticks


AZURE = TraceFormat(
    name="azure",
    source="Azure LLM Inference Dataset 2023 and 2024",
    container="csv",
    time="TIMESTAMP",
    prompt="ContextTokens",
    output="GeneratedTokens",
    new_clock=_new_clock,
)
