"""Make a `Question` about the requests of a log, with the engine settings that the log states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from instances import (
    FileFormatError,
    InvalidValueError,
    MemoryRule,
    RequestLog,
    ServiceLevel,
    Workload,
)
from instances.batch_time import AffineTime
from instances.problem.memory_rule import TOKENS
from instances.problem.request import RequestId
from instances.validation import as_choice, as_integer, as_number
from online.policy_interface.policy import VisibleRequest
from online.policy_interface.router import ReplicaView, Router
from online.policy_interface.specs import AnyPolicy, AnyRouter, PolicySpec, RouterSpec

from .batch_times import FIT, find_batch_time, fit_doubts
from .closed_loops import with_arrivals
from .engine_settings import settings_facts, stated_memory, with_settings
from .question import BASELINE, LOGGED, ROUTER, Question

NAMED = 3
"""Number of requests that an error message lists as too large for M."""


def question_of_log(  # noqa: PLR0913
    log: RequestLog,
    batch_time: str,
    *,
    memory_limit: int | None = None,
    memory_rule: MemoryRule | None = None,
    today: AnyPolicy = BASELINE,
    proposals: Sequence[AnyPolicy] | None = None,
    replicas: int | None = None,
    router: AnyRouter | None = None,
    level: ServiceLevel | None = None,
    share: float = 0.99,
    max_concurrency: int | None = None,
    faster: float = 1.0,
    **window: Any,
) -> Question:
    """Make the question that `measure_headroom` answers, about the requests of a log.

    Parameters
    ----------
    log : RequestLog
        The log, read with ``shared_prefixes``.
    batch_time : str
        A preset, ``affine:d0,d1,d2``, a CSV file of measured rounds, or ``fit``.
    memory_limit : int or None, default None
        Memory limit M in tokens. None takes that of the log, or of the preset.
    memory_rule : MemoryRule or None, default None
        How memory is counted. None takes the rule that the log states, or counts tokens.
    today : AnyPolicy, default `BASELINE`
        The scheduler of today. Engine settings in the log set its other parameters.
    proposals : Sequence[AnyPolicy] or None, default None
        See `Question`.
    replicas : int or None, default None
        Number of replicas; None takes the number of workers that the log names, or 1.
    router : AnyRouter or None, default None
        Today's router; None sends each request to the worker that the log names, or takes `ROUTER`
        if the log does not name all.
    level, share : ServiceLevel or None, float
        See `Question`.
    max_concurrency : int or None, default None
        Largest number of requests in flight at once. It is needed for the log of a closed loop
        without start times.
    faster : float, default 1.0
        Factor by which all arrival times are divided.
    **window : Any
        Options that choose requests of the log: ``start_seconds`` (after the first arrival),
        ``duration_seconds``, ``max_requests``, and ``too_long="drop"``, which leaves out requests
        that need more than M.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        A parameter is out of range, the window has no requests, or requests need more than M.
    FileFormatError
        Neither ``memory_limit``, nor the log, nor the preset gives M.
    """
    facts = {"read": str(log)}
    log, concurrency, made_up = with_arrivals(log, max_concurrency)
    # A fit of the batch time uses all requests of the log. Requests outside the window load the
    # machine too.
    time, preset_limit, source = find_batch_time(batch_time, None if made_up else log)
    if batch_time == FIT and isinstance(time, AffineTime):
        facts |= fit_doubts(log, float(time.d0))
    stated_rule, stated_limit = stated_memory(log.settings)
    limits = (memory_limit, stated_limit, preset_limit)
    limit = next((one for one in limits if one is not None), None)
    if limit is None:
        reason = "does not say how many tokens the KV cache holds (M): give --memory (see --help)"
        raise FileFormatError(log.source, reason)
    rule = memory_rule or stated_rule or TOKENS
    if log.shared_tokens is not None:
        # A cache reuses whole blocks only. They may be from requests outside the window.
        log = replace(log, shared_tokens=log.shared_tokens // rule.block_size * rule.block_size)
    kept = _requests(log, limit, rule, facts, **window)
    faster = as_number(faster, None, "faster", above=0)
    count, todays_router = _replicas(kept, replicas, router)
    workload = Workload(
        (kept.arrival_times - kept.arrival_times[0]) / faster,
        kept.prompt_lengths,
        kept.output_lengths,
        memory_limit=limit,
        ids=kept.ids,
        name=log.source,
        memory_rule=rule,
        replicas=count,
        batch_time=time,
    )
    engine = PolicySpec.of(today)
    specs = [engine, *map(PolicySpec.of, proposals or ())]
    engine, *others = (with_settings(one, engine.name, log.settings) for one in specs)
    facts |= settings_facts(log.settings, engine, "" if memory_rule or stated_rule else "tokens")
    facts["a round lasts"] = source
    asked = (workload, engine, others if proposals else None, todays_router, level, share)
    known = _measured(kept, facts, is_as_logged=faster == 1 and not made_up)
    known |= {"shared_tokens": kept.shared_tokens, "concurrency": concurrency, "made_up": made_up}
    return Question(*asked, **known, facts=facts)


def _requests(
    log: RequestLog,
    memory_limit: int,
    rule: MemoryRule,
    facts: dict[str, str],
    *,
    too_long: Literal["refuse", "drop"] = "refuse",
    **window: Any,
) -> RequestLog:
    """Return the requests in a window that fit into M, and add to ``facts`` which are left out."""
    limit = as_integer(memory_limit, None, "memory_limit", minimum=1)
    as_choice(too_long, None, "too_long", ("refuse", "drop"))
    kept = log.window(**window)
    if not len(kept):
        reason = f"leaves none of {len(log)} requests"
        raise InvalidValueError(None, "window", window, reason)
    sizes = kept.prompt_lengths + kept.output_lengths
    fits = rule.held(sizes - rule.unstored) <= rule.limit(limit)
    above = np.flatnonzero(~fits)
    if len(above) and (too_long == "refuse" or len(above) == len(kept)):
        largest = above[np.argsort(-sizes[above], kind="stable")][:NAMED].tolist()
        named = ", ".join(f"row {kept.row_numbers[one]}: {sizes[one]}" for one in largest)
        reason = f"is too small for {len(above)} of {len(kept)} requests, the longest of which are "
        reason += f"({named} tokens): FILE(too_long=drop) leaves them out"
        raise InvalidValueError(None, "memory_limit", limit, reason)
    if len(kept) < len(log):
        facts["window"] = f"{len(kept)} of {len(log)} requests; others ran at the same time"
    if len(above):
        facts["dropped"] = f"{len(above)} requests that need more than M"
    return kept.select(fits)


def _measured(kept: RequestLog, facts: dict[str, str], *, is_as_logged: bool) -> dict[str, Any]:
    """Return the fields ``measured`` and ``measured_first`` of a `Question`, if comparable.

    Logged latencies can be compared with simulations if every request has one and the arrivals are
    those of the log. Otherwise nothing is returned, and ``facts`` has the reason.
    """
    first, known = kept.times_to_first_token, int(np.isfinite(kept.latencies).sum())
    if is_as_logged and known == len(kept) and kept.latencies.any():
        has_first = bool(np.isfinite(first).all())
        return {"measured": kept.latencies, "measured_first": first if has_first else None}
    arrivals = "" if is_as_logged else ", and arrivals are not those of the log"
    said = f"not compared: the log has it of {known} of {len(kept)} requests{arrivals}"
    facts["measured latency"] = said
    return {}


class LoggedRouter(Router):
    """Router that sends every request to the replica that served it in the log.

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
        """Return the number of the replica that served the request in the log."""
        return self.replicas[request.id]


def _replicas(
    kept: RequestLog, replicas: int | None, router: AnyRouter | None
) -> tuple[int, AnyRouter]:
    """Return the number of replicas and the router for the requests ``kept`` of a log.

    Without a given router it is `LoggedRouter` if the log names the worker of every request, and
    else `ROUTER`.
    """
    served = [] if kept.workers is None else kept.workers.tolist()
    named = sorted({one for one in served if one is not None})
    count = max(1, len(named)) if replicas is None else replicas
    count = as_integer(count, None, "replicas", minimum=1)
    if len(named) > count:
        reason = f"is less than the {len(named)} workers that the log names"
        raise InvalidValueError(None, "replicas", count, reason)
    if router is not None and count == 1:
        reason = "needs several replicas: give --replicas"
        raise InvalidValueError(None, "--router", str(router), reason)
    if router is not None or count == 1 or not named or None in served:
        return count, router or ROUTER
    homes: dict[RequestId, int] = dict(zip(kept.ids, map(named.index, served), strict=True))
    return count, RouterSpec(LOGGED, {}, LoggedRouter(homes))
