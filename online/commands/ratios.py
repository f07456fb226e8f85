"""Competitive ratios: policies compared with the hindsight optimum of the same instances."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight.runtime.resources import available_cores
from instances import Instance, InvalidTypeError, InvalidValueError, UnknownNameError, Workload
from instances.errors import printable
from instances.files import parse_toml, read_bytes, write_atomically
from instances.problem.arrival_source import in_seconds
from online.batch_time.measured_tables import read_batch_time
from online.policy_interface.specs import policy_specs, read_policy
from online.trials.sweep import sweep
from online.trials.trial import FAILED, LATENCY, NOT_RUN

from .console import (
    FAILED_STATUS,
    INTERRUPTED_STATUS,
    check_output,
    fail,
    progress_bar,
    writing,
)
from .demo_instances import POLICIES, demo_instances
from .json_output import JsonFile, answer, check_json
from .options import Jobs, LevelTexts, Policies, TimeLimit, limit_of, service_level
from .ratio_report import SUFFIXES, Report, check_columns
from .sources import SourceTexts, parse_source, read_sources

LISTS = ("policy", "predictions", "slo", "router", "seed")
KINDS: dict[str, Any] = {
    **dict.fromkeys(LISTS, list),
    **dict.fromkeys(("batch_time", "goal", "preemption", "optimum"), str),
    "sources": (list, dict),
    "replicas": int,
    "time_limit": (int, float),
}
"""Keys of a TOML file, which are names of options, and the types of their values."""


def ratios(  # noqa: PLR0913
    sources: SourceTexts = None,
    demo: Annotated[bool, typer.Option("--demo", help="Small instances and six policies.")] = False,
    policy: Policies = None,
    predictions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[(KEY=VALUE, ...)]",
            help="What policies are given of output lengths; repeatable: exact, "
            "'noisy(delta=3)', 'relative(error=0.3)', interval, buckets, 'proportional(spread=1)'.",
        ),
    ] = None,
    batch_time: Annotated[
        str | None,
        typer.Option(
            metavar="NAME, affine:d0,d1,d2 or aiconfigurator:...",
            help="Compare in seconds: a round takes d0 + d1 * tokens processed + d2 * tokens held "
            "seconds. `show presets` lists the names; they set M of traces too.",
        ),
    ] = None,
    goal: Annotated[
        str | None, typer.Option(metavar="latency or makespan", help="Default: latency.")
    ] = None,
    slo: LevelTexts = None,
    preemption: Annotated[
        str | None,
        typer.Option(
            metavar="never, keep or recompute",
            help="Which optimum; default: keep for policies that preempt and keep tokens.",
        ),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Machines of a fleet, each with memory M.")
    ] = None,
    router: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[(KEY=VALUE, ...)] or FILE.py:CLASS",
            help="Router of a fleet; repeatable, each with every policy.",
        ),
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(min=0, help="Seed of random choices; repeatable.")
    ] = None,
    time_limit: TimeLimit = None,
    optimum: Annotated[
        str | None,
        typer.Option(
            metavar="solve, records or none",
            help="Where bounds on optima come from; records: of library instances and their goals.",
        ),
    ] = None,
    jobs: Jobs = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of trials: continued where a run has stopped."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME,...", help="Columns of the table; default: the main ones."),
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Write trials as .csv, the report as .md or .html, its table as .tex; repeatable.",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> int:
    """Compare policies with the hindsight optimum, with ratios as proved intervals.

    SOURCE may also be a TOML file whose keys are names of these options. Its key sources is a list,
    or a table of lists by the label of a group.

    A policy that may preempt requests and keep their tokens is compared with the preemptive
    optimum, other policies with the optimum without preemption. With --batch-time latencies are in
    seconds, and the optimum is the least of every scheduler. With --slo the ratio is that of
    requests on time to the most that any scheduler has on time.

    Ctrl-C ends the searches and shows what was found so far (exit status 130). Exit status 1 if a
    policy raised an error or broke a rule: the tables say why. A policy that stops serving counts
    as failed in the tables only.
    """
    options = {key: it for key, it in locals().items() if key in KINDS and it not in (None, [])}
    for path in out or ():
        check_output(path, SUFFIXES)
    check_json(json_file)
    shown = check_columns(columns)
    if demo == bool(sources):
        fail("give either SOURCEs or --demo; --help explains")
    if demo:
        options = {"policy": POLICIES, **options}
    folder = Path()
    if len(options.get("sources", ())) == 1 and options["sources"][0].endswith(".toml"):
        path = Path(options.pop("sources")[0])
        folder, options = path.parent, {**_toml(path), **options}
    groups, notes = _groups(options, folder, demo_instances() if demo else [])
    size = max(1, sum(map(len, groups.values())))
    with progress_bar(size) as update:
        trials = sweep(
            groups,
            store=store,
            jobs=jobs or min(available_cores(), size),
            time_limit=limit_of(options.get("time_limit")),
            progress=lambda done, total: update(done, f"{done} of {total} problems"),
            **_parameters(options, folder, notes),
        )
    if missing := sum(one.status == NOT_RUN for one in trials):
        notes.append(f"interrupted: {missing} trials not run")
    report = Report(trials, notes, shown)
    for path in out or ():
        with writing():
            write_atomically(path, report.text(path.suffix.lower()))
    answer(json_file, "ratios", report.document(), *report.parts())
    if missing:
        return INTERRUPTED_STATUS
    return FAILED_STATUS if any(one.status == FAILED for one in trials) else 0


def _toml(path: Path) -> dict[str, Any]:
    """Read the options in a TOML file.

    Raises
    ------
    OSError, FileFormatError
        It cannot be read, or is not TOML.
    UnknownNameError, InvalidTypeError, InvalidValueError
        A key is unknown, its value is not of the type of the option, or there are no sources.
    """
    document = parse_toml(read_bytes(path), path)
    for key, value in document.items():
        if key not in KINDS:
            raise UnknownNameError(f"key of {path}", key, [*KINDS])
        if not isinstance(value, KINDS[key]):
            raise InvalidTypeError(str(path), key, value, "is not of the type of this option")
    if "sources" not in document:
        raise InvalidValueError(str(path), "sources", [], "is missing: write sources = [...]")
    return document


def _groups(
    options: dict[str, Any], folder: Path, drawn: list[Instance]
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the problems by the label of their group, and notes on them."""
    time, memory_limit = None, None
    if "batch_time" in options:
        time, memory_limit = read_batch_time(options["batch_time"])
    given = options.get("sources", [])
    groups, notes = dict[str, list[Any]](), list[str]()
    for label, texts in (given if isinstance(given, dict) else {"": given}).items():
        # Files are relative to that of the options.
        parsed = [
            replace(one, name=os.path.join(folder, one.name))
            if one.file or ":" in one.name
            else one
            for one in map(parse_source, map(str, texts))
        ]
        read = read_sources(parsed, batch_time=time, memory_limit=memory_limit)
        named = zip(read.problems, read.stems, strict=True)
        groups[label] = [_checked(one, stem, options.get("replicas")) for one, stem in named]
        notes += read.notes
    if drawn:
        groups[""] = [in_seconds(one, time) for one in drawn]
    return groups, notes


def _checked(problem: Any, stem: str, replicas: int | None) -> Any:
    """Return a problem with a name and the replicas asked for."""
    if not isinstance(problem, Instance | Workload):
        if replicas is not None:
            reason = "answers to a policy: it has one machine"
            raise InvalidValueError(None, "instance", problem.name, reason)
        return problem
    if isinstance(problem, Workload) and problem.batch_time is None:
        reason = "has arrivals in seconds: give --batch-time"
        raise InvalidValueError(None, "instance", problem.name, reason)
    problem = problem if problem.name else problem.renamed(printable(stem))
    return problem if replicas is None else problem.with_replicas(replicas)


def _parameters(options: dict[str, Any], folder: Path, notes: list[str]) -> dict[str, Any]:
    """Return the parameters of `online.sweep` that options stand for."""
    level = service_level(options.get("slo"))
    optimum, goal = options.get("optimum", "solve"), options.get("goal", LATENCY)
    if level is not None:
        from hindsight import OnTime

        goal = OnTime(level)
        unit = "seconds" if "batch_time" in options else "rounds"
        notes.append(f"on time: {level}, in {unit}")
    named = [read_policy(str(text), folder) for text in options.get("policy", ())]
    return {
        "policies": policy_specs(named or None, deadlines=level is not None),
        "predictions": options.get("predictions", ["exact"]),
        "router": options.get("router"),
        "seeds": options.get("seed", [0]),
        "preemption": options.get("preemption"),
        "goal": goal,
        "optimum": None if optimum == "none" else optimum,
    }
