"""Competitive ratios: policies against the hindsight optimum of the same instances."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import instances
from hindsight.outcomes.results import percent
from instances import MemoryRule, Workload
from instances.batch_time import BatchTime, parse_batch_time, preset_names
from instances.errors import printable
from instances.files import write_atomically
from instances.generators.registry import SYNTHETIC
from instances.settings import parse_settings
from instances.user_modules import import_sources
from online.comparison.parallel import Comparison, ComparisonProgress, compare_many
from online.comparison.ratio_tables import (
    Confidences,
    confidences_of,
    optimum_notes,
    reasons_table,
    records_csv,
    records_table,
    report_markdown,
    summary_notes,
    summary_sentence,
    summary_table,
)
from online.comparison.summaries import PolicySummary, summarise

from .console import (
    INTERRUPTED_STATUS,
    Wide,
    check_output,
    fail,
    print_table,
    progress_bar,
    say,
    writing,
)
from .demo_instances import POLICIES, SECONDS, demo_instances
from .json_output import JsonFile, check_json, plain, record_entry, write_json
from .library_names import goal_notes
from .policy_options import Imports, Policies, chosen_policies
from .time_limits import DEFAULT_SECONDS, limit_note, limit_of
from .trace_options import (
    BadRows,
    BlockSize,
    Column,
    DurationSeconds,
    EmittedToken,
    MaxRequests,
    MemoryLimit,
    PromptAllocation,
    RoundSeconds,
    Sort,
    StartSeconds,
    TokenScale,
    TooLong,
    TraceFormat,
    Windows,
    load_instance,
    read_windows,
    rounding_notes,
    under_rule,
    window_options,
)

FEW_RECORDS = 10
"""Trials up to which they are shown one by one without --trials."""

FAILED_STATUS = 1

IN_SECONDS = "In seconds"
SOURCES = "Where the instances come from (choose one)"


def ratios(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="INSTANCE.json or NAME...",
            help="Files, or instances of the library. Or --generator, --trace, --demo.",
        ),
    ] = None,
    instance: Annotated[
        list[Path] | None, typer.Option(hidden=True, help="As the arguments; repeatable.")
    ] = None,
    generator: Annotated[
        str | None, typer.Option(help="Registered generator.", rich_help_panel=SOURCES)
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Trace: CSV, JSON lines; plain or gzip.", rich_help_panel=SOURCES),
    ] = None,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Built-in small instances, six policies.", rich_help_panel=SOURCES
        ),
    ] = False,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Parameter of --generator; repeatable."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Instances drawn by --generator, seeds ascending.")
    ] = None,
    memory_limit: MemoryLimit = None,
    trace_format: TraceFormat = None,
    column: Column = None,
    bad_rows: BadRows = None,
    sort: Sort = False,
    round_seconds: RoundSeconds = None,
    token_scale: TokenScale = None,
    start_seconds: StartSeconds = None,
    duration_seconds: DurationSeconds = None,
    max_requests: MaxRequests = None,
    too_long: TooLong = None,
    windows: Windows = None,
    block_size: BlockSize = 1,
    emitted_token: EmittedToken = "now",
    prompt_allocation: PromptAllocation = "whole",
    batch_time: Annotated[
        str | None,
        typer.Option(
            metavar="NAME or affine:d0,d1,d2",
            help="Compare in seconds: a round lasts d0 + d1 * tokens processed + d2 * tokens held "
            f"seconds. Names: {', '.join(preset_names())}; they set --memory-limit too.",
            rich_help_panel=IN_SECONDS,
        ),
    ] = None,
    faster: Annotated[
        float | None,
        typer.Option(help="Arrivals come this many times as fast.", rich_help_panel=IN_SECONDS),
    ] = None,
    policy: Policies = None,
    imports: Imports = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of policies and solver, and of the first drawn instance.")
    ] = 0,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0,
            help=f"Seconds an optimum; default: {DEFAULT_SECONDS:g}. inf: until it is proved.",
        ),
    ] = None,
    policy_time_limit: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds for each policy's run, which then counts as failed."),
    ] = None,
    preemptive: Annotated[
        bool,
        typer.Option(
            "--preemptive",
            help="Compare every policy with the preemptive optimum, not only those that preempt.",
        ),
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Solver threads in each; default: 1 if --jobs > 1.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write records as .csv, the whole report as .md, or its table as .tex."),
    ] = None,
    trials: Annotated[
        bool,
        typer.Option(
            "--trials",
            help="Show the trials too, a row each; without it only where they are at most "
            f"{FEW_RECORDS}.",
        ),
    ] = False,
    wide: Wide = False,
    json_file: JsonFile = None,
) -> int:
    """How far policies are from the hindsight optimum, as proved intervals.

    It is the optimum without preemption, unless a run kept the tokens of requests it preempted.
    With --batch-time latencies are in seconds, and the optimum is the least of every scheduler,
    whatever it may do; arrival times of instances count as seconds.
    Ctrl-C ends the searches and shows what was found so far (exit status 130). Exit status 1 if a
    policy failed: the tables say why, and have what the others did.
    """
    check_output(out, (".csv", ".md", ".tex"))
    check_json(json_file)
    files = [*(files or []), *(instance or [])]
    import_sources(imports or [])
    specs = chosen_policies(policy or (POLICIES if demo else None))
    _check_sources(files, generator, trace, param, count, demo=demo)
    seconds: BatchTime | None = None
    if batch_time is not None:
        if preemptive:
            fail("--preemptive goes without --batch-time: in seconds any scheduler may preempt")
        seconds, preset_limit = parse_batch_time(batch_time)
        if trace is not None and memory_limit is None:
            memory_limit = preset_limit
    elif faster is not None:
        fail("--faster goes with --batch-time")
    window = window_options(
        trace,
        in_seconds=seconds is not None,
        memory_limit=memory_limit,
        trace_format=trace_format,
        column=column or None,
        bad_rows=bad_rows,
        sort=sort or None,
        round_seconds=round_seconds,
        token_scale=token_scale,
        start_seconds=start_seconds,
        duration_seconds=duration_seconds,
        max_requests=max_requests,
        too_long=too_long,
        windows=windows,
    )
    rule = MemoryRule(block_size, cast(Any, emitted_token), cast(Any, prompt_allocation))
    notes: list[str] = []
    problems: list[Any]
    if trace is not None:
        problems, notes = read_windows(trace, window, rule, in_seconds=seconds is not None)
    elif generator is not None:
        settings = parse_settings(param or [])
        seeds = range(seed, seed + (count or 1))
        problems = [instances.generate(generator, one, **settings) for one in seeds]
    elif files:
        problems = [_load(path) for path in files]
    else:
        problems = demo_instances()
    default = SECONDS if demo else DEFAULT_SECONDS
    problems = [under_rule(one, rule) for one in problems]
    if seconds is None and any(isinstance(one, Workload) for one in problems):
        fail(f"generator {generator!r} draws arrivals in seconds: give --batch-time")
    if faster is not None:
        from hindsight.seconds.solving import as_workload

        problems = [as_workload(one).faster(faster) for one in problems]
    notes += _synthetic(problems)
    notes += rounding_notes(problems)
    if seconds is None:
        goal = "preemptive_total_latency" if preemptive else "total_latency"
        notes += goal_notes(problems, goal, {"preemptive_total_latency": "--preemptive"})
    adaptive = sorted({str(one.name) for one in problems if getattr(one, "adaptive", False)})
    notes += [f"adaptive arrivals, answering each policy: {name}" for name in adaptive]
    from hindsight.runtime.interruption import interruption

    # However often it is pressed: what Ctrl-C has ended is saved.
    with interruption(math.inf):
        with progress_bar(len(problems)) as update:
            found = compare_many(
                problems,
                specs,
                jobs=jobs or min(os.cpu_count() or 1, len(problems)),
                time_limit=limit_of(time_limit, default),
                seed=seed,
                threads=threads,
                progress=_teller(update),
                policy_time_limit=policy_time_limit,
                preemptive=preemptive,
                batch_time=seconds,
            )
        if found.interrupted:
            notes.append(f"interrupted: {found.finished} of {found.total} instances compared")
        ended = {limit_note(time_limit, one.stop_reason, default) for one in found.records}
        notes += [f"time limit of an optimum: {line}" for line in ended if line]
        if out is not None:
            with writing():
                write_atomically(out, _rendered(found, notes, out.suffix.lower()))
    summaries, confidences = summarise(found.records), confidences_of(found.records)
    document = {
        "notes": [*notes, *summary_notes(found.records, confidences)],
        "interrupted": found.interrupted,
        "policies": [_entry(summary, k, confidences) for k, summary in enumerate(summaries)],
        "records": [record_entry(record) for record in found.records],
    }
    if not write_json(json_file, "ratios", document):
        _show(found, notes, trials=trials, wide=wide)
        if demo and (sentence := summary_sentence(found.records)):
            say(sentence)
    if found.interrupted:
        return INTERRUPTED_STATUS
    return FAILED_STATUS if any(record.status == "failed" for record in found.records) else 0


def _check_sources(
    files: Sequence[Path] | None,
    generator: str | None,
    trace: Path | None,
    param: Sequence[str] | None,
    count: int | None,
    *,
    demo: bool,
) -> None:
    if sum(map(bool, (files, generator, trace, demo))) != 1:
        fail("choose one of INSTANCE.json, --generator, --trace and --demo; --help explains")
    if (param or count) and generator is None:
        fail("--param and --count go with --generator")


def _load(path: Path) -> instances.Instance:
    loaded = load_instance(path)
    return loaded if loaded.name else loaded.renamed(printable(path.stem))


def _synthetic(problems: Sequence[Any]) -> list[str]:
    """What instances stand in for, said on every report they enter."""
    imitated = {one.metadata.get(SYNTHETIC) for one in problems if hasattr(one, "metadata")}
    return [f"synthetic: {text}" for text in sorted(imitated - {None})]


def _teller(update: Callable[[int, str], None]) -> Callable[[ComparisonProgress], None]:
    def tell(news: ComparisonProgress) -> None:
        gap = "done" if news.gap is None else f"gap {percent(news.gap)}"
        update(news.finished, f"{news.instance}: {gap}")

    return tell


def _rendered(found: Comparison, notes: Sequence[str], suffix: str) -> str:
    if suffix == ".csv":
        return records_csv(found.records)
    if suffix == ".tex":
        table = summary_table(summarise(found.records), confidences_of(found.records))
        return table.to_latex() + "".join(f"% {note}\n" for note in notes)
    return report_markdown(found.records, summarise(found.records), notes)


def _entry(summary: PolicySummary, place: int, confidences: Confidences | None) -> dict[str, Any]:
    mean, totals = (None, None) if confidences is None else confidences[place]
    return {**plain(summary), "mean_ratio_95": mean, "ratio_of_totals_95": totals}


def _show(found: Comparison, notes: Sequence[str], *, trials: bool, wide: bool) -> None:
    for note in [*notes, *optimum_notes(found.records)]:
        say(note)
    if not found.records:
        return
    confidences = confidences_of(found.records)
    if trials or len(found.records) <= FEW_RECORDS:
        print_table(records_table(found.records), wide=wide)
        print()
    print_table(summary_table(summarise(found.records), confidences), wide=wide)
    print()
    for note in summary_notes(found.records, confidences):
        say(note)
    if any(record.ratio is None for record in found.records):
        print_table(reasons_table(found.records), wide=wide)
        print()
