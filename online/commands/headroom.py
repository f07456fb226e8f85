"""Headroom of a log: the most that any scheduler could have saved, and each policy's share."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hindsight.runtime.clock import Clock
from hindsight.runtime.resources import available_cores
from instances import read_log
from instances.batch_time import preset_names
from instances.ctrl_c import Interruption
from instances.files import write_atomically
from instances.logs.doubts import doubts
from instances.problem.memory_rule import TOKENS
from online.headroom import Headroom, HeadroomProgress, headroom_page, measure_headroom
from online.headroom.batch_times import FIT, LARGEST_ERROR, find_batch_time, preset_memory_limit
from online.headroom.closed_loops import arrivals_of_log, with_own_times
from online.headroom.engine_settings import (
    settings_told,
    stated_memory,
    with_settings,
    without_effect,
)
from online.headroom.log_requests import replicas_of_log, requests_of_log
from online.headroom.measuring import BASELINE, CHALLENGER, ROUTERS, SHARE
from online.headroom.records import headroom_record
from online.headroom.tables import fields, notes, sentence, tables
from online.report.self_contained import written_by

from .console import (
    FAILED_STATUS,
    INTERRUPTED_STATUS,
    check_output,
    fail,
    progress_bar,
    writing,
)
from .json_output import JsonFile, answer, check_json
from .options import (
    POLICY_METAVAR,
    Jobs,
    LevelTexts,
    Seed,
    chosen_policies,
    importing,
    service_level,
)
from .sources import LOG_SETTINGS, MEMORY_SETTINGS, Source, parse_source, trace_options

LEAST_SHARE = 0.25
"""Of the time limit, for the computation, however long the log takes to read."""

READING = ("format", "columns", "bad_rows")
"""Settings of a log that say how it is read."""


@importing
def headroom(  # noqa: PLR0913
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="Log or trace, plain or gzip; with settings 'FILE(arrival=COLUMN, faster=2)', see "
            "docs/reference/commands.md.",
        ),
    ],
    batch_time: Annotated[
        str,
        typer.Option(
            metavar="NAME, affine:d0,d1,d2, aiconfigurator:..., FILE.csv or fit",
            help="Seconds of a round: d0 + d1 * tokens processed + d2 * tokens held. A name "
            f"({', '.join(preset_names())}) sets --memory-limit too, and so do the "
            "measured tables of aiconfigurator:SYSTEM/ENGINE/MODEL/tpGPUS (an extra); a file has "
            "measured rounds (columns tokens, kv_tokens, seconds); fit takes the log's own "
            "inter-token times.",
        ),
    ],
    memory_limit: Annotated[
        int | None, typer.Option(help="M: tokens that the KV cache holds.")
    ] = None,
    memory_rule: Annotated[
        str | None,
        typer.Option(
            metavar="tokens, vllm or blocks:SIZE",
            help="How the engine counts memory: blocks are vLLM's, of 16 tokens or SIZE. Default: "
            "as the log states, else tokens.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write one self-contained page, .html.")] = None,
    json_file: JsonFile = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar=POLICY_METAVAR,
            help="Policy; repeatable. Default: all that need no parameters, and what is proposed "
            "for vllm.",
        ),
    ] = None,
    baseline: Annotated[
        str, typer.Option(help="The policy that stands for what is there today.")
    ] = BASELINE.name,
    challenger: Annotated[
        str | None,
        typer.Option(
            help="The policy beside it at other memories and loads. Default: "
            f"{CHALLENGER.name} with the shortest output first."
        ),
    ] = None,
    prediction_error: Annotated[
        float,
        typer.Option(
            min=0,
            max=10,
            help="Policies also run on predicted output lengths, off by this share of the truth in "
            "the mean; 0: they do not.",
        ),
    ] = 0.5,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds for everything.")] = 600.0,
    jobs: Jobs = None,
    seed: Seed = 0,
    slo: LevelTexts = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Identical replicas, each with --memory-limit. Default: as many as the log names "
            "workers, or 1.",
        ),
    ] = None,
    router: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...] or FILE.py:CLASS",
            help="Router of several replicas; repeatable, the first stands for what is there "
            f"today. Default: {', '.join(ROUTERS)}; today's is the log's own if it names workers.",
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1,
            help="With --slo and several replicas: how few can have this share on time. "
            f"Default: {SHARE}.",
        ),
    ] = None,
    worker_names: Annotated[
        bool,
        typer.Option("--worker-names", help="Show what the log calls the workers."),
    ] = False,
    fit_error: Annotated[
        float,
        typer.Option(min=0, help="A fit that is off by more in the mean is refused."),
    ] = LARGEST_ERROR,
) -> int:
    """Compute how much latency could have been saved at most, in seconds, and by which policy.

    The best possible is an interval around the least mean latency of every scheduler of these
    requests, whatever it may do; the headroom is today's mean latency less that. Ctrl-C and the
    time limit show what is done so far (exit status 130 and 1). With --slo the answer begins with
    the share of requests on time, today and at most. With --replicas it also tells what the router
    loses and what the schedulers on the replicas lose.
    """
    clock = Clock()
    source = _log_source(log)
    check_output(out, (".html", ".htm"), source=source.file)
    check_json(json_file, source=source.file)
    level = service_level(slo)
    told = level is not None
    specs = chosen_policies(policy, deadlines=told) if policy else []
    (current,) = chosen_policies([baseline], deadlines=told)
    (other,) = chosen_policies([challenger], deadlines=told) if challenger else [CHALLENGER]
    preset_limit = preset_memory_limit(batch_time)
    if memory_rule is not None:
        source = replace(source, settings={**source.settings, "memory_rule": memory_rule})
    rule = source.memory_rule()
    options = trace_options(source)
    reading = {key: options.pop(key) for key in READING if key in options}
    most = options.pop("max_concurrency", None)
    with progress_bar(100, lines=True) as update:
        update(0, f"reading {Path(source.name).name}")
        whole = read_log(source.name, block_hashes=True, **reading)
        stated_rule, stated_limit = stated_memory(whole.settings)
        memory_limit = _memory_limit(memory_limit, stated_limit, preset_limit)
        if stated_rule is not None and not {*MEMORY_SETTINGS} & {*source.settings}:
            rule = stated_rule
        given = [current, *([other] if challenger else []), *specs]
        current, *specs = (with_settings(one, current.name, whole.settings) for one in given)
        other = specs.pop(0) if challenger else other
        workload, measured, shared, said = requests_of_log(
            whole, memory_limit, memory_rule=rule, **options
        )
        concurrency, made_up = arrivals_of_log(whole, most)
        workload, logged, told_of_replicas = replicas_of_log(
            whole, workload, replicas, names=worker_names
        )
        _refuse_unused(workload.replicas, router=router, share=share, is_told=told)
        # Rounds are as long as all that they served asked for, whatever is looked at.
        is_played = made_up and batch_time == FIT
        timed = with_own_times(whole, concurrency) if is_played else whole
        time, where_from = find_batch_time(batch_time, timed, fit_error)

        def tell(news: HeadroomProgress) -> None:
            update(100 * news.done // news.total, news.text)

        with Interruption(math.inf):
            found = measure_headroom(
                workload.with_batch_time(time),
                specs or None,
                baseline=current,
                challenger=other,
                error=prediction_error,
                measured=measured,
                # Reading takes its time too.
                time_limit=max(time_limit - clock.seconds(), LEAST_SHARE * time_limit),
                jobs=jobs or available_cores(),
                seed=seed,
                level=level,
                routers=[*([logged] if logged else []), *(router or ROUTERS)],
                share=SHARE if share is None else share,
                shared_tokens=shared,
                concurrency=concurrency,
                made_up=made_up,
                progress=tell,
            )
    idle = without_effect(current, found.workload, found.run(found.baseline))
    unsaid = "tokens" if rule == TOKENS and "memory_rule" not in source.settings else ""
    facts = {**said, **told_of_replicas, **settings_told(whole.settings, current, unsaid, idle)}
    facts |= {"a round lasts": where_from, "computed on": written_by()}
    if out is not None:
        with writing():
            write_atomically(out, headroom_page(found, facts, f"Headroom of {workload.name}"))
    record = {**headroom_record(found), "skipped_rows": whole.skipped}
    said_first = "\n".join([*doubts(whole, found.load), sentence(found)])
    shown = [part for table in tables(found).values() for part in ("", table)]
    parts = (said_first, "", fields(found, facts), *shown, "", *notes(found))
    answer(json_file, "headroom", record, *parts)
    return _status(found)


def _status(found: Headroom) -> int:
    """Return the exit status."""
    if found.interrupted:
        return INTERRUPTED_STATUS
    is_whole = not (found.unfinished or found.errors or found.left_out)
    return 0 if is_whole and found.saving is not None else FAILED_STATUS


def _log_source(log: str) -> Source:
    source = parse_source(log, bare="trace")
    if source.kind != "trace":
        fail(f"headroom reads a log, and {log} is not one: give its file")
    source.refuse_settings_except(LOG_SETTINGS)
    return source


def _memory_limit(*limits: int | None) -> int:
    """Return the first limit that is known."""
    known = next((one for one in limits if one is not None), None)
    if known is None:
        fail("--memory-limit is needed: how many tokens does the KV cache hold?")
    return known


def _refuse_unused(
    replicas: int, *, router: list[str] | None, share: float | None, is_told: bool
) -> None:
    if router and replicas == 1:
        fail("--router needs several replicas: give --replicas")
    if share is not None and (replicas == 1 or not is_told):
        fail("--share needs --slo and several replicas")
