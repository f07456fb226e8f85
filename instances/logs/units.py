"""Evidence for the units of a log: names of columns, sizes of numbers, and what no server does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from .cells import MILLISECONDS, SECONDS, TICKS_PER_SECOND, Clock, as_count
from .formats import MOONCAKE_BLOCK, QWEN_BLOCK
from .paths import lookup

if TYPE_CHECKING:
    from .request_log import RequestLog

QWEN_KEYS = {"chat_id", "parent_chat_id", "turn"}

LEAST_LOAD, LARGEST_LOAD = 0.01, 20.0
"""A server whose load is outside of these was hardly measured in the units that are taken."""

LONGEST_STEP, SHORTEST_STEP = 1.0, 5e-5
"""Seconds per output token that no server takes, in the median of a log."""


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


def doubts(log: RequestLog, load: float | None = None) -> list[str]:
    """List the combinations in a log that no server has, each in a line that asks.

    Latencies are doubted where columns were named by the user: tools say in which units they are.

    Parameters
    ----------
    log : RequestLog
        The log.
    load : float or None, default None
        Machine seconds asked for in a second, as `online.headroom.waiting.load` has it.
    """
    found = []
    whole = np.flatnonzero(np.isfinite(log.latencies) & (log.format == "columns"))
    if len(whole):
        latency, span = float(log.latencies[whole].mean()), float(log.arrival_times[-1])
        step = float(np.median(log.latencies[whole] / log.output_lengths[whole]))
        per_token = f"{step:.3g} s per output token in the median"
        if step > LONGEST_STEP and latency > span:
            found.append(
                f"the mean latency of {latency:,.0f} s is longer than the log, whose arrivals span "
                f"{span:,.3g} s ({per_token}): are latencies in milliseconds? Then name them with "
                "latency_ms"
            )
        elif step < SHORTEST_STEP:
            found.append(
                f"the mean latency is {latency:.3g} s ({per_token}): are latencies in seconds? "
                "Then name them with latency"
            )
        later = int((log.times_to_first_token[whole] > 2 * log.latencies[whole]).sum())
        if 2 * later > len(whole):
            found.append(
                f"the time to the first token is longer than the latency in {later} of "
                f"{len(whole)} requests: are both in the units that were named?"
            )
    if load is not None and not LEAST_LOAD <= load <= LARGEST_LOAD:
        bound = f"below {LEAST_LOAD:g}" if load < 1 else f"above {LARGEST_LOAD:g}"
        hint = "? arrival_ms names arrivals in milliseconds" if log.format == "columns" else "?"
        found.append(
            f"the load of {load:.2g} (machine seconds asked for in a second) is {bound}: are "
            f"arrivals ({log.time_unit}) and the batch time (seconds) in these units{hint}"
        )
    return [f"In doubt: {one}" for one in found]
