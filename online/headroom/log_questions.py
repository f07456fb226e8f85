"""Make a question of a log, with the engine settings that the log states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instances import InvalidValueError, MemoryRule, RequestLog, ServiceLevel
from instances.problem.memory_rule import TOKENS
from online.policy_interface.specs import AnyPolicy, AnyRouter, PolicySpec

from .batch_times import FIT, find_batch_time, preset_memory_limit
from .closed_loops import arrivals_of_log, with_own_times
from .engine_settings import settings_told, stated_memory, with_settings
from .log_requests import replicas_of_log, requests_of_log
from .question import BASELINE, ROUTERS, Question


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
    max_concurrency: int | None = None,
    **window: Any,
) -> Question:
    """Ask about the requests of a log.

    Parameters
    ----------
    log : RequestLog
        The log, read with its block hashes.
    batch_time : str
        A preset, ``affine:d0,d1,d2``, a CSV file of measured rounds, or ``fit``.
    memory_limit : int or None, default None
        M, tokens; None takes that of the log, or of the preset.
    memory_rule : MemoryRule or None, default None
        How memory is counted; None takes the rule that the log states, or counts tokens.
    today : AnyPolicy, default `BASELINE`
        The scheduler of today; it takes over the settings that the log states.
    proposals : Sequence[AnyPolicy] or None, default None
        See `Question`.
    replicas : int or None, default None
        Number of replicas; None takes as many as the log names workers, or 1.
    router : AnyRouter or None, default None
        Today's router; None takes that of the log, or `ROUTERS`.
    level : ServiceLevel or None, default None
        See `Question`.
    max_concurrency : int or None, default None
        Most requests at once, for a log without start times.
    **window : Any
        Which requests are taken, see `requests_of_log`.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        A parameter is out of range, or M is not known.
    """
    preset_limit = preset_memory_limit(batch_time)
    stated_rule, stated_limit = stated_memory(log.settings)
    limits = (memory_limit, stated_limit, preset_limit)
    limit = next((one for one in limits if one is not None), None)
    if limit is None:
        reason = "is not known: how many tokens does the KV cache hold?"
        raise InvalidValueError(None, "--memory", None, reason)
    rule = memory_rule or stated_rule or TOKENS
    engine = PolicySpec.of(today)
    specs = [engine, *map(PolicySpec.of, proposals or ())]
    engine, *others = (with_settings(one, engine.name, log.settings) for one in specs)
    workload, measured, shared, facts = requests_of_log(log, limit, memory_rule=rule, **window)
    concurrency, made_up = arrivals_of_log(log, max_concurrency)
    workload, logged, routing = replicas_of_log(log, workload, replicas)
    if router is not None and workload.replicas == 1:
        reason = "needs several replicas: give --replicas"
        raise InvalidValueError(None, "--router", str(router), reason)
    # Rounds are as long as all requests of the log made them.
    is_played = made_up and batch_time == FIT
    time, source = find_batch_time(
        batch_time, with_own_times(log, concurrency) if is_played else log
    )
    is_assumed = memory_rule is None and stated_rule is None
    settings = settings_told(log.settings, engine, "tokens" if is_assumed else "")
    first = [one for one in (router, logged) if one is not None]
    return Question(
        workload.with_batch_time(time),
        engine,
        others if proposals else None,
        [*first, *ROUTERS],
        level,
        measured=measured,
        shared_tokens=shared,
        concurrency=concurrency,
        made_up=made_up,
        facts={**facts, **routing, **settings, "a round lasts": source},
    )
