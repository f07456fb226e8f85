"""Competitive ratios: policies against the hindsight optimum of the same instances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight.outcomes.result import percent
from hindsight.runtime.resources import available_cores
from instances import Instance, InvalidValueError, Workload
from instances.batch_time import preset_names
from instances.errors import printable
from instances.files import write_atomically
from instances.generators.registry import SYNTHETIC
from instances.problem.arrival_source import batch_time_of, in_seconds
from instances.problem.batches import BatchTime
from online.batch_time.measured_tables import read_batch_time
from online.comparison import ratio_tables
from online.comparison.comparing import Comparison, ComparisonProgress, compare_many
from online.comparison.summaries import PolicySummary, summarise
from online.comparison.trial import AnyProblem
from online.runtime.table import Table

from .console import (
    FAILED_STATUS,
    INTERRUPTED_STATUS,
    Wide,
    check_output,
    fail,
    progress_bar,
    writing,
)
from .demo_instances import POLICIES, SECONDS, demo_instances
from .json_output import JsonFile, answer, plain, record_entry
from .options import (
    DEFAULT_SECONDS,
    Jobs,
    LevelTexts,
    Policies,
    Seed,
    TimeLimit,
    chosen_policies,
    importing,
    limit_note,
    limit_of,
    service_level,
)
from .sources import SourceTexts, goal_notes, parse_source, read_sources, rounding_notes

FEW_RECORDS = 10
"""Trials up to which they are shown one by one without --trials."""


@importing
def ratios(  # noqa: PLR0913
    sources: SourceTexts = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Built-in small instances, six policies.")
    ] = False,
    batch_time: Annotated[
        str | None,
        typer.Option(
            metavar="NAME, affine:d0,d1,d2 or aiconfigurator:...",
            help="Compare in seconds: a round lasts d0 + d1 * tokens processed + d2 * tokens held "
            f"seconds. Names: {', '.join(preset_names())}; they set M of traces too.",
        ),
    ] = None,
    policy: Policies = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Machines of a fleet, each with memory M.")
    ] = None,
    router: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[(KEY=VALUE, ...)] or FILE.py:CLASS",
            help="Router of a fleet; repeatable, each with every policy. `policies` lists them.",
        ),
    ] = None,
    slo: LevelTexts = None,
    seed: Seed = 0,
    time_limit: TimeLimit = None,
    policy_time_limit: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds for each policy's run, which then counts as failed."),
    ] = None,
    preemptive: Annotated[
        bool,
        typer.Option(
            "--preemptive",
            help="Compare every policy with the preemptive optimum, not only those that may.",
        ),
    ] = False,
    jobs: Jobs = None,
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
    """Compare policies with the hindsight optimum, with ratios as proved intervals.

    It is the optimum without preemption; for a policy that may preempt requests and keep their
    tokens (it declares it, or did so in some run) the preemptive one, on all instances.
    With --slo a search as long again finds the most requests that any scheduler has on time, and
    tables tell the share of requests on time, and which part of the attainable that is.
    With --batch-time latencies are in seconds, and the optimum is the least of every scheduler,
    whatever it may do; arrival times of instances count as seconds.
    Ctrl-C ends the searches and shows what was found so far (exit status 130). Exit status 1 if a
    policy failed: the tables say why, and have what the others did.
    """
    check_output(out, (".csv", ".md", ".tex"))
    level = service_level(slo)
    chosen = policy or (POLICIES if demo else None)
    specs = chosen_policies(chosen, deadlines=level is not None)
    if demo == bool(sources):
        fail("give either SOURCEs or --demo; --help explains")
    if preemptive and batch_time is not None:
        fail("--preemptive goes without --batch-time: in seconds any scheduler may preempt")
    seconds, memory_limit = read_batch_time(batch_time) if batch_time else (None, None)
    problems, notes = _problems(sources or (), seconds, memory_limit)
    if replicas is not None:
        problems = [_fleet(one, replicas) for one in problems]
    if seconds is None:
        goal = "preemptive_total_latency" if preemptive else "total_latency"
        notes += goal_notes(problems, goal, {"preemptive_total_latency": "--preemptive"})
    if level is not None:
        unit = "seconds" if any(map(batch_time_of, problems)) else "rounds"
        notes.append(ratio_tables.level_note(level, unit))
    adaptive = sorted({str(one.name) for one in problems if getattr(one, "adaptive", False)})
    notes += [f"adaptive arrivals, answering each policy: {name}" for name in adaptive]
    default = SECONDS if demo else DEFAULT_SECONDS
    from instances.ctrl_c import Interruption

    # However often it is pressed: what Ctrl-C has ended is saved.
    with Interruption(math.inf):
        with progress_bar(len(problems)) as update:

            def tell(news: ComparisonProgress) -> None:
                gap = "done" if news.gap is None else f"gap {percent(news.gap)}"
                update(news.finished, f"{news.instance}: {gap}")

            found = compare_many(
                problems,
                specs,
                jobs=jobs or min(available_cores(), len(problems)),
                time_limit=limit_of(time_limit, default),
                seed=seed,
                threads=threads,
                progress=tell,
                policy_time_limit=policy_time_limit,
                preemptive=preemptive,
                level=level,
                routers=router,
            )
        if found.interrupted:
            notes.append(f"interrupted: {found.finished} of {found.total} instances compared")
        ended = {limit_note(time_limit, one.stop_reason, default) for one in found.records}
        notes += [f"time limit of an optimum: {line}" for line in ended if line]
        if out is not None:
            with writing():
                write_atomically(out, _rendered(found, notes, out.suffix.lower()))
    sentence = ratio_tables.summary_sentence(found.records) if demo else None
    parts = [*_parts(found, notes, trials=trials), *([sentence] if sentence else [])]
    answer(json_file, "ratios", _document(found, notes), *parts, wide=wide)
    if found.interrupted:
        return INTERRUPTED_STATUS
    return FAILED_STATUS if any(record.status == "failed" for record in found.records) else 0


def _problems(
    sources: Sequence[str], batch_time: BatchTime | None, memory_limit: int | None
) -> tuple[list[Any], list[str]]:
    """Read the sources, or the demo where there is none; with what is to be said about them."""
    if not sources:
        return [in_seconds(one, batch_time) for one in demo_instances()], []
    parsed = [parse_source(text) for text in sources]
    read = read_sources(parsed, batch_time=batch_time, memory_limit=memory_limit)
    problems = [
        one if one.name or not isinstance(one, AnyProblem) else one.renamed(printable(stem))
        for one, stem in zip(read.problems, read.stems, strict=True)
    ]
    for one in problems:
        if isinstance(one, Workload) and one.batch_time is None:
            reason = "has arrivals in seconds: give --batch-time"
            raise InvalidValueError(None, "instance", one.name, reason)
    # What instances stand in for is said on every report they enter.
    described = [one.metadata for one in problems if hasattr(one, "metadata")]
    imitated = sorted({one[SYNTHETIC] for one in described if one.get(SYNTHETIC) is not None})
    synthetic = [f"synthetic: {text}" for text in imitated]
    return problems, [*read.notes, *synthetic, *rounding_notes(problems)]


def _fleet(problem: Any, replicas: int) -> Any:
    """Return the problem with another number of replicas."""
    if isinstance(problem, Instance | Workload):
        return problem.with_replicas(replicas)
    reason = "answers to a policy: it has one machine"
    raise InvalidValueError(None, "instance", problem.name, reason)


def _rendered(found: Comparison, notes: Sequence[str], suffix: str) -> str:
    if suffix == ".csv":
        return ratio_tables.records_csv(found.records)
    if suffix == ".tex":
        table = ratio_tables.summary_table(
            summarise(found.records), ratio_tables.confidences_of(found.records)
        )
        return table.to_latex() + "".join(f"% {note}\n" for note in notes)
    return ratio_tables.report_markdown(found.records, summarise(found.records), notes)


def _document(found: Comparison, notes: Sequence[str]) -> dict[str, Any]:
    summaries, confidences = summarise(found.records), ratio_tables.confidences_of(found.records)
    intervals: Sequence[Any] = confidences or [(None, None)] * len(summaries)
    return {
        "notes": [*notes, *ratio_tables.summary_notes(found.records, confidences)],
        "interrupted": found.interrupted,
        "policies": [
            {**_summary_entry(summary), "mean_ratio_95": mean, "ratio_of_totals_95": totals}
            for summary, (mean, totals) in zip(summaries, intervals, strict=True)
        ],
        "records": [record_entry(record) for record in found.records],
    }


def _summary_entry(summary: PolicySummary) -> dict[str, Any]:
    """Return a summary for JSON, with what it says of a service level where there is one."""
    left_out = {"share_on_time", "of_attainable"} if summary.share_on_time is None else set()
    return {key: value for key, value in plain(summary).items() if key not in left_out}


def _parts(found: Comparison, notes: Sequence[str], *, trials: bool) -> list[str | Table]:
    """Notes and tables of the screen."""
    parts: list[str | Table] = [*notes, *ratio_tables.optimum_notes(found.records)]
    if not found.records:
        return parts
    confidences = ratio_tables.confidences_of(found.records)
    if trials or len(found.records) <= FEW_RECORDS:
        parts += [ratio_tables.records_table(found.records), ""]
    parts += [ratio_tables.summary_table(summarise(found.records), confidences), ""]
    parts += ratio_tables.summary_notes(found.records, confidences)
    if any(record.ratio is None for record in found.records):
        parts += [ratio_tables.reasons_table(found.records), ""]
    return parts
