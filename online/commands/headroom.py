"""Subcommand `headroom`: latency that a better scheduler could have saved on a log."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hindsight.runtime.clock import Clock
from instances import read_log
from instances.files import write_atomically
from instances.progress import progress_bar
from online.headroom import Headroom, headroom_page, measure_headroom, question_of_log
from online.headroom.batch_times import FIT
from online.headroom.measuring import Progress
from online.headroom.question import BASELINE
from online.headroom.tables import record, tables
from online.headroom.words import answer_lines, facts, remarks
from online.tables import Table

from .console import FAILED_STATUS, INTERRUPTED_STATUS, check_output, fail, writing
from .json_output import answer, check_json
from .options import chosen_policies, service_level
from .sources import LOG_SETTINGS, Source, parse_source, trace_options

LEAST_SHARE = 0.25
"""The computation gets at least this share of the time limit, even if reading the log was slow."""

READING = ("format", "columns", "bad_rows")
"""Settings of a log that `instances.read_log` uses. Others choose or change its requests."""


def headroom(  # noqa: PLR0913
    log: str,
    *,
    batch_time: str = FIT,
    memory: int | None = None,
    rule: str | None = None,
    policy: list[str] | None = None,
    today: str = BASELINE.name,
    replicas: int | None = None,
    router: str | None = None,
    slo: list[str] | None = None,
    slo_share: float = 0.99,
    time_limit: float = 600.0,
    quick: bool = False,
    details: bool = False,
    out: Path | None = None,
    json: Path | None = None,
) -> int:
    """Compute how much latency the best scheduler could have saved on a log, in seconds.

    Simulations come first: today's scheduler, and how much a proposed policy saves. Bounds follow:
    no scheduler of these requests has a mean latency below the limit, even if it knows the future.
    With --slo a table shows the requests on time for several numbers of replicas: of today's
    scheduler, and at most of any scheduler. After Ctrl-C or the time limit the results so far are
    shown (exit status 130 after Ctrl-C, 1 without an answer).

    Parameters
    ----------
    log : LOG
        Log or trace, plain or gzip; with settings 'FILE(arrival=COLUMN, faster=2)', see
        docs/commands.md.
    batch_time : NAME, affine:d0,d1,d2, aiconfigurator:..., FILE.csv or fit
        Seconds of a round: d0 + d1 * tokens processed + d2 * tokens held. A preset (`show presets`
        lists them) or aiconfigurator:SYSTEM/ENGINE/MODEL/tpGPUS sets --memory too; a file has
        measured rounds (columns tokens, kv_tokens, seconds); fit takes the inter-token times of the
        log. Default: fit.
    memory : TOKENS
        M: tokens that the KV cache holds. vLLM prints it as "GPU KV cache size", SGLang as
        "max_total_num_tokens", TensorRT-LLM as "max tokens in paged KV cache". A log of vLLM
        without --metadata does not state it and needs --memory, or a preset.
    rule : tokens, vllm or blocks:SIZE
        How the engine counts memory: in tokens, or in blocks of 16 or SIZE tokens. Default: as the
        log states, else tokens.
    policy : NAME[:KEY=VALUE,...] or FILE.py:CLASS
        Policy to compare with today's; repeatable. Default: the shortest job first, then all
        policies that need no parameters.
    today : NAME[:KEY=VALUE,...] or FILE.py:CLASS
        The scheduler of today.
    replicas : NUMBER
        Identical replicas, each with --memory. Default: the workers that the log names, or 1.
    router : NAME[(KEY=VALUE, ...)] or FILE.py:CLASS
        The router of today. Default: that of the log if it names workers, or least-requests.
    slo : NAME=TIME
        Service level: the most seconds that a request on time may take. latency (e2e), first_token
        (ttft) or time_per_token (tpot); repeatable, all must hold.
    slo_share : SHARE
        Share of the requests that are to keep --slo, at most 1.
    time_limit : SECONDS
        Time limit of the whole command.
    quick : FLAG
        End after the simulations, after about 10 s; of a long log only the first requests.
    details : FLAG
        Print all tables, facts and notes too.
    out : FILE.html
        Write one self-contained page.
    json : FILE
        Write the answer as JSON; - is standard output, which then has nothing else.
    """
    clock = Clock()
    source = _log_source(log, rule)
    check_output(out, (".html", ".htm"), source=source.file)
    check_json(json, source=source.file)
    level = service_level(slo)
    (engine,) = chosen_policies([today], deadlines=level is not None)
    proposals = chosen_policies(policy, deadlines=level is not None) if policy else None
    options = trace_options(source)
    reading = {key: options.pop(key) for key in READING if key in options}
    with progress_bar(100) as update:
        update(0, f"reading {Path(source.name).name}")
        whole = read_log(source.name, shared_prefixes=True, **reading)
        question = question_of_log(
            whole,
            batch_time,
            memory_limit=memory,
            memory_rule=source.memory_rule() if "memory_rule" in source.settings else None,
            today=engine,
            proposals=proposals,
            replicas=replicas,
            router=router,
            level=level,
            share=slo_share,
            **options,
        )
        # The time that reading the log took counts towards the time limit.
        left = max(time_limit - clock.seconds(), LEAST_SHARE * time_limit)
        found = measure_headroom(question, left, quick=quick, progress=_report(update))
    if out is not None:
        with writing():
            write_atomically(out, headroom_page(found, f"Headroom of {question.workload.name}"))
    document = {**record(found), "skipped_rows": whole.left_out.get("skipped", 0)}
    answer(json, "headroom", document, *_parts(found, details=details))
    is_answered = found.today and (quick or found.best) and not document["errors"]
    return INTERRUPTED_STATUS if found.interrupted else 0 if is_answered else FAILED_STATUS


def _log_source(log: str, rule: str | None) -> Source:
    """Return the log with its settings, from the text LOG and the option --rule.

    The memory rule becomes a setting of the log. Errors end the command.
    """
    source = parse_source(log, bare="trace")
    if source.kind != "trace":
        fail(f"headroom reads a log, and {log} is not one: give its file")
    source.refuse_settings_except(LOG_SETTINGS)
    rules = {} if rule is None else {"memory_rule": rule}
    return Source(source.kind, source.name, {**source.settings, **rules})


def _report(update: Callable[[float, str], None]) -> Progress:
    """Return a function that shows progress, and on a terminal prints the first answer."""

    def report(done: int, total: int, text: str, first: Headroom | None) -> None:
        update(100 * done // total, text)
        if first is not None and sys.stderr.isatty():
            print("\n".join([*answer_lines(first), ""]), file=sys.stderr)

    return report


def _parts(found: Headroom, *, details: bool) -> list[Any]:
    """Return the parts to print, in order: answer, tables, facts, and remarks."""
    parts: list[Any] = ["\n".join(answer_lines(found, whole=details))]
    for title, frame in tables(found).items():
        if details or "by replicas" in title:
            rows = tuple(frame.itertuples(index=False, name=None))
            parts += ["", Table(title, tuple(frame.columns), rows, frozenset({"policy"}))]
    if details:
        parts += ["", facts(found)]
    below = [*remarks(found, details=details)]
    return [*parts, "", *below] if below else parts
