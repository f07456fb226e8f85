"""Choose the requests of a log, with what it measured of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from instances import InvalidValueError, RequestLog, Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_rule import TOKENS, MemoryRule
from instances.problem.request import RequestId
from instances.validation import as_integer, as_number
from online.policy_interface.policy import VisibleRequest
from online.policy_interface.router import ReplicaView, Router
from online.policy_interface.specs import RouterSpec

from .measured import Measured
from .question import LOGGED

TooLong = Literal["refuse", "drop"]

NAMED = 3
"""Requests above M that are named."""


class LoggedRouter(Router):
    """Every request goes to the replica that the log names.

    Parameters
    ----------
    replicas : Mapping[RequestId, int]
        Replica of each request by its id.
    """

    name = LOGGED
    looks = False

    def __init__(self, replicas: Mapping[RequestId, int]) -> None:
        super().__init__(0.0)
        self.replicas = replicas

    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the replica of the log."""
        return self.replicas[request.id]


def requests_of_log(
    log: RequestLog,
    memory_limit: int,
    *,
    too_long: TooLong = "refuse",
    start_seconds: float = 0.0,
    duration_seconds: float | None = None,
    max_requests: int | None = None,
    faster: float = 1.0,
    memory_rule: MemoryRule = TOKENS,
) -> tuple[Workload, Measured | None, IntArray | None, dict[str, str]]:
    """Make a workload of a window of a log.

    Parameters
    ----------
    log : RequestLog
        The log.
    memory_limit : int
        M, tokens.
    too_long : {"refuse", "drop"}, default "refuse"
        What happens where requests need more than M.
    start_seconds, duration_seconds : float, float or None
        The window, from the first request; None runs to the end.
    max_requests : int or None, default None
        Requests that the window holds at most.
    faster : float, default 1.0
        Arrivals come so many times as fast.
    memory_rule : MemoryRule, default TOKENS
        How memory is counted.

    Returns
    -------
    tuple[Workload, Measured or None, int64 array or None, dict[str, str]]
        The requests; the measured latencies, unless the log lacks some or arrivals are not its own;
        tokens of each prompt that other requests of the log could supply, if it shows them; and
        what was read, dropped and measured, by name.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A parameter out of range, an empty window, or requests that need more than M.
    """
    limit = as_integer(memory_limit, None, "memory_limit", minimum=1)
    start = as_number(start_seconds, None, "start_seconds", minimum=0)
    faster = as_number(faster, None, "faster", above=0)
    if too_long not in ("refuse", "drop"):
        raise InvalidValueError(None, "too_long", too_long, "is neither refuse nor drop")
    facts = {"read": str(log)}
    if log.prompt_blocks is not None:
        # Requests outside the window supply prefixes too.
        log, facts["shared prompts"] = _with_shared_tokens(log, memory_rule)
    times = log.arrival_times
    inside = times >= start
    if duration_seconds is not None:
        inside &= times < start + as_number(duration_seconds, None, "duration_seconds", above=0)
    places = np.flatnonzero(inside)
    if max_requests is not None:
        places = places[: as_integer(max_requests, None, "max_requests", minimum=1)]
    if not len(places):
        raise InvalidValueError(None, "start_seconds", start, f"leaves none of {len(log)} requests")
    window = log.select(places)
    stored = window.prompt_lengths + window.output_lengths - memory_rule.unstored
    fits = memory_rule.held(stored) <= memory_rule.limit(limit)
    dropped = int((~fits).sum())
    if dropped and (too_long == "refuse" or dropped == len(window)):
        raise InvalidValueError(None, "memory_limit", limit, _too_small(window, fits))
    kept = window.select(fits)
    begin = float(kept.arrival_times[0])
    workload = Workload(
        (kept.arrival_times - begin) / faster,
        kept.prompt_lengths,
        kept.output_lengths,
        memory_limit=limit,
        ids=kept.ids,
        name=log.source,
        memory_rule=memory_rule,
    )
    if log.skipped:
        facts["skipped"] = str(log.skipped)
    if len(window) < len(log):
        facts["window"] = f"{len(window)} requests from {start:g} s on"
    if dropped:
        facts["dropped"] = f"{dropped} requests that need more than M"
    if faster != 1:
        facts["arrivals"] = f"{faster:g} times as fast as in the log"
    latencies = kept.latencies
    why_not = _why_not_measured(kept, latencies, faster, len(log))
    if why_not is not None:
        return workload, None, kept.shared_tokens, {**facts, "measured latency": why_not}
    first = kept.times_to_first_token if np.isfinite(kept.times_to_first_token).all() else None
    return workload, Measured(latencies, first), kept.shared_tokens, facts


def _why_not_measured(
    kept: RequestLog, latencies: FloatArray, faster: float, count: int
) -> str | None:
    """Return why the latencies in the log are not compared with anything, or None."""
    known = int(np.isfinite(latencies).sum())
    if not known:
        return "the log has none"
    if faster != 1:
        return "left out: arrivals are not those of the log"
    if known < len(kept):
        return f"left out: the log has it of {known} of {len(kept)} requests"
    if len(kept) < count:
        return "left out: other requests of the log ran at the same time"
    return None if latencies.any() else "left out: it is 0 throughout"


def _with_shared_tokens(log: RequestLog, memory_rule: MemoryRule) -> tuple[RequestLog, str]:
    """Add the tokens of each prompt that a cache with these blocks could supply, in words too."""
    try:
        in_blocks = log.without_shared_prefixes().shared_tokens
        shared = log.without_shared_prefixes(cache_block_size=memory_rule.block_size).shared_tokens
    except InvalidValueError as error:
        return log, f"not known: {error}"
    whole, most = (
        100 * int(one.sum()) / int(log.prompt_lengths.sum())
        for one in (in_blocks, shared)
        if one is not None
    )
    said = f"{whole:.1f} % of all prompt tokens in whole blocks of the log, up to {most:.1f} % with"
    return replace(log, shared_tokens=shared), f"{said} parts of blocks"


def replicas_of_log(
    log: RequestLog, workload: Workload, replicas: int | None = None
) -> tuple[Workload, RouterSpec | None, dict[str, str]]:
    """Give requests of a log their replicas, and the router that the log had.

    Parameters
    ----------
    log : RequestLog
        The log.
    workload : Workload
        Some of its requests, by their ids.
    replicas : int or None, default None
        How many there are; None takes as many as the log names, or 1.

    Returns
    -------
    tuple[Workload, RouterSpec or None, dict[str, str]]
        The requests on these replicas; the router, if the log names the replica of each; and what
        was found, by name.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        No number of replicas, or fewer than the log names.
    """
    labels: dict[RequestId, str | None] = {}
    if log.workers is not None:
        labels.update(zip(log.ids, log.workers.tolist(), strict=True))
    served = [labels.get(one) for one in workload.ids]
    named = sorted({one for one in served if one is not None})
    count = max(1, len(named)) if replicas is None else replicas
    count = as_integer(count, None, "replicas", minimum=1)
    if len(named) > count:
        reason = f"is less than the {len(named)} workers that the log names"
        raise InvalidValueError(None, "replicas", count, reason)
    facts, router = {}, None
    if count > 1 and named and None not in served:
        facts["replicas"] = "numbered in the order of their names in the log"
        places = {one: k for k, one in enumerate(named)}
        homes = {one: places[labels[one] or ""] for one in workload.ids}
        router = RouterSpec(LOGGED, {}, LoggedRouter(homes))
    elif named and None in served:
        known = f"{len(served) - served.count(None)} of {len(served)}"
        facts["routing of the log"] = f"left out: the log names the worker of {known} requests"
    return workload if count == 1 else workload.with_replicas(count), router, facts


def _too_small(window: RequestLog, fits: npt.NDArray[np.bool_]) -> str:
    """Name the requests that need more than M, the largest first."""
    sizes = window.prompt_lengths + window.output_lengths
    above = np.flatnonzero(~fits)
    largest = above[np.argsort(-sizes[above], kind="stable")][:NAMED]
    named = ", ".join(f"row {window.row_numbers[one]}: {sizes[one]}" for one in largest.tolist())
    more = ", ..." if len(above) > NAMED else ""
    return (
        f"is too small for {len(above)} of {len(window)} requests ({named}{more} tokens): "
        "too_long='drop' leaves them out (in a command FILE(too_long=drop))"
    )
