"""Evidence for the unit in which the times of a log are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from .cells import MILLISECONDS, SECONDS, TICKS_PER_SECOND, Clock, as_count
from .formats import MOONCAKE_BLOCK, QWEN_BLOCK
from .paths import lookup

QWEN_KEYS = {"chat_id", "parent_chat_id", "turn"}


def likely_unit(records: Sequence[Mapping[str, Any]], time: str, prompt: str) -> str | None:
    """Return the unit in which relative times of records are, seconds or milliseconds.

    Blocks of prompts tell Mooncake's format, in milliseconds, from Qwen's, in seconds. Other whole
    numbers are milliseconds where they differ by 10 from row to row or more, and seconds where by
    less than 1; for numbers with fractions these limits are 100 and 10.

    Parameters
    ----------
    records : sequence of mapping
        The first records of a file.
    time, prompt : str
        Their columns.

    Returns
    -------
    str or None
        The unit; None in doubt.
    """
    if any(QWEN_KEYS & one.keys() for one in records):
        return SECONDS
    stamps, votes = [], {MILLISECONDS: 0, SECONDS: 0}
    for one in records:
        with suppress(ValueError):
            stamps.append(Clock(SECONDS)(lookup(one, time)))
            tokens, hashes = as_count(lookup(one, prompt)), one.get("hash_ids")
            if isinstance(hashes, list) and hashes:
                votes[MILLISECONDS] += len(hashes) == -(-tokens // MOONCAKE_BLOCK)
                votes[SECONDS] += len(hashes) == -(-tokens // QWEN_BLOCK)
    if votes[SECONDS] != votes[MILLISECONDS]:
        return max(votes, key=lambda unit: votes[unit])
    if len(stamps) < 2 or max(stamps) == min(stamps):
        return MILLISECONDS
    step = (max(stamps) - min(stamps)) / TICKS_PER_SECOND / (len(stamps) - 1)
    is_whole = not any(one % TICKS_PER_SECOND for one in stamps)
    fewest, most = (1, 10) if is_whole else (10, 100)
    return SECONDS if step < fewest else MILLISECONDS if step >= most else None
