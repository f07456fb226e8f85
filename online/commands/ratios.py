"""Competitive ratios: policies compared with the hindsight optimum of the same instances."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from typer import Option

from hindsight.runtime.resources import available_cores
from instances import Instance, InvalidTypeError, InvalidValueError, UnknownNameError, Workload
from instances.files import parse_toml, read_bytes, write_atomically
from online.batch_time.measured_tables import read_batch_time
from online.trials.intervals import LATENCY
from online.trials.sweep import sweep
from online.trials.trial import FAILED, NOT_RUN

from .console import (
    FAILED_STATUS,
    INTERRUPTED_STATUS,
    check_output,
    fail,
    progress_bar,
    writing,
)
from .json_output import JsonFile, answer, check_json
from .options import LevelTexts, Policies, TimeLimit, chosen_policies, limit_of, service_level
from .ratio_report import COLUMNS, SUFFIXES, Report
from .sources import SourceTexts, parse_source, read_sources

DEMO = Path(__file__).with_name("demo.toml")
KINDS: dict[str, Any] = {
    **dict.fromkeys(("policy", "predictions", "slo", "router", "seed"), list),
    **dict.fromkeys(("batch_time", "goal", "preemption", "optimum"), str),
    "sources": (list, dict),
    "replicas": int,
    "time_limit": (int, float),
}
"""Keys of a TOML file, which are names of options, and the types of their values."""

CALL = "NAME[(KEY=VALUE, ...)]"
Text: TypeAlias = str | None
Texts: TypeAlias = list[str] | None

Demo = Annotated[bool, Option("--demo", help="Small instances and six policies.")]
Predictions = Annotated[
    Texts,
    Option(
        metavar=CALL,
        help="What policies are given of output lengths; repeatable: exact, 'noisy(delta=3)', "
        "'relative(error=0.3)', interval, buckets, 'proportional(spread=1)'.",
    ),
]
BatchTimeText = Annotated[
    Text,
    Option(
        metavar="NAME, affine:d0,d1,d2 or aiconfigurator:...",
        help="Compare in seconds: a round takes d0 + d1 * tokens processed + d2 * tokens held "
        "seconds. `show presets` lists the names; they set M of traces too.",
    ),
]
Goal = Annotated[Text, Option(metavar="latency or makespan", help="Default: latency.")]
Preemption = Annotated[
    Text,
    Option(
        metavar="never, keep or recompute",
        help="Compare all policies with one optimum. Default: keep (rarely proved above 8 "
        "requests) for policies that preempt and keep tokens, never for the others.",
    ),
]
Replicas = Annotated[int | None, Option(min=1, help="Machines of a fleet, each with memory M.")]
Routers = Annotated[
    Texts, Option("--router", metavar=f"{CALL} or FILE.py:CLASS", help="Router; repeatable.")
]
Seeds = Annotated[list[int] | None, Option("--seed", min=0, help="Seed; repeatable.")]
Optimum = Annotated[
    Text,
    Option(
        metavar="solve, records or none",
        help="Bounds on optima: computed (solve), of the library's records (records), or none.",
    ),
]
Jobs = Annotated[int | None, Option(min=1, help="Processes; default: one per core.")]
Store = Annotated[
    Path | None, Option(metavar="FILE", help="File of trials, continued if a run has stopped.")
]
Columns = Annotated[Text, Option(metavar="NAME,NAME,...", help="Columns of the table.")]
Outs = Annotated[
    list[Path] | None,
    Option(
        "--out",
        metavar="FILE",
        help="Write trials as .csv, the report as .md or .html, its table as .tex; repeatable.",
    ),
]


def ratios(  # noqa: PLR0913
    sources: SourceTexts = None,
    demo: Demo = False,
    policy: Policies = None,
    predictions: Predictions = None,
    batch_time: BatchTimeText = None,
    goal: Goal = None,
    slo: LevelTexts = None,
    preemption: Preemption = None,
    replicas: Replicas = None,
    router: Routers = None,
    seed: Seeds = None,
    time_limit: TimeLimit = None,
    optimum: Optimum = None,
    jobs: Jobs = None,
    store: Store = None,
    columns: Columns = None,
    out: Outs = None,
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
    shown = None if columns is None else columns.split(",")
    for name in shown or ():
        if name not in COLUMNS:
            raise UnknownNameError("column", name, [*COLUMNS])
    if demo == bool(sources):
        fail("give SOURCEs or --demo, and not both")
    named, is_given = options.pop("sources", [str(DEMO)]), "policy" in options
    if len(named) == 1 and named[0].endswith(".toml"):
        folder, options = Path(named[0]).parent, {**_toml(Path(named[0])), **options}
    else:
        folder, options["sources"] = Path(), named
    groups, notes = _groups(options, folder)
    size = max(1, sum(map(len, groups.values())))
    with progress_bar(size) as update:
        trials = sweep(
            groups,
            store=store,
            jobs=jobs or min(available_cores(), size),
            time_limit=limit_of(options.get("time_limit")),
            progress=lambda done, total: update(done, f"{done} of {total} problems"),
            **_parameters(options, Path() if is_given else folder, notes),
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


def _groups(options: dict[str, Any], folder: Path) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the problems by the label of their group, and notes on them."""
    time, memory_limit = None, None
    if "batch_time" in options:
        time, memory_limit = read_batch_time(options["batch_time"])
    given = options["sources"]
    groups, notes = dict[str, list[Any]](), list[str]()
    for label, texts in (given if isinstance(given, dict) else {"": given}).items():
        parsed = []
        for one in map(parse_source, map(str, texts)):
            # Files are relative to that of the options.
            is_file = one.file or ":" in one.name
            parsed.append(replace(one, name=os.path.join(folder, one.name)) if is_file else one)
        read = read_sources(parsed, batch_time=time, memory_limit=memory_limit)
        groups[label] = [_checked(one, options.get("replicas")) for one in read.problems]
        notes += read.notes
    return groups, notes


def _checked(problem: Any, replicas: int | None) -> Any:
    """Return a problem with the replicas asked for."""
    reason = ""
    if isinstance(problem, Workload) and problem.batch_time is None:
        reason = "has arrivals in seconds: give --batch-time"
    elif replicas is not None and not isinstance(problem, Instance | Workload):
        reason = "answers to a policy: it has one machine"
    if reason:
        raise InvalidValueError(None, "instance", problem.name, reason)
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
    return {
        "policies": chosen_policies(options.get("policy"), folder, deadlines=level is not None),
        "predictions": options.get("predictions", ["exact"]),
        "router": options.get("router"),
        "seeds": options.get("seed", [0]),
        "preemption": options.get("preemption"),
        "goal": goal,
        "optimum": None if optimum == "none" else optimum,
    }
