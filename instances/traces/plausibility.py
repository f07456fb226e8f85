"""Evidence for the unit in which the times of a trace are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .row import MILLISECONDS, SECONDS, TICKS_PER_SECOND, as_count, as_ticks
from .trace_format import lookup

MOONCAKE_BLOCK, QWEN_BLOCK = 512, 16
"""Tokens of a block in the traces of Mooncake, and in those of Qwen's service."""

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
        hashes = one.get("hash_ids")
        try:
            stamps.append(as_ticks(lookup(one, time)))
            tokens = as_count(lookup(one, prompt))
        except ValueError:
            continue
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
