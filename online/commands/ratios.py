"""Competitive ratios: policies compared with the hindsight optimum of the same instances."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight.runtime.resources import available_cores
from instances import Instance, InvalidTypeError, InvalidValueError, Workload
from instances.errors import printable
from instances.files import parse_toml, read_bytes, write_atomically
from instances.generators.registry import SYNTHETIC
from instances.problem.arrival_source import in_seconds
from instances.user_modules import import_sources
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
from .demo_instances import POLICIES, SECONDS, demo_instances
from .json_output import JsonFile, answer
from .options import (
    DEFAULT_SECONDS,
    Jobs,
    LevelTexts,
    Policies,
    TimeLimit,
    importing,
    limit_note,
    limit_of,
    service_level,
)
from .ratio_report import SUFFIXES, Report, check_columns
from .sources import SourceTexts, goal_notes, parse_source, read_sources, rounding_notes

LISTS = ("policy", "predictions", "slo", "router", "seed", "import")
SETTINGS = (
    *LISTS,
    *("sources", "batch_time", "goal", "preemption", "replicas", "time_limit", "optimum"),
)
"""Keys of a TOML file: the names of options."""

KINDS: dict[str, tuple[type, ...]] = dict.fromkeys(LISTS, (list,))
KINDS |= {"sources": (list, dict), "replicas": (int,), "time_limit": (int, float)}
"""Types of the values of keys; the others are texts."""


@importing
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
            help="Write trials as .csv, the report as .md, .html or .json, its table as .tex; "
            "repeatable.",
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
    policy failed: the tables say why.
    """
    given = dict(locals())
    for path in out or ():
        check_output(path, SUFFIXES)
    shown = check_columns(columns)
    options = {
        name: one for name, one in given.items() if name in SETTINGS and one not in (None, [])
    }
    if demo == bool(sources):
        fail("give either SOURCEs or --demo; --help explains")
    study = _study(options, demo)
    default = SECONDS if demo else DEFAULT_SECONDS
    with progress_bar(len(study.problems)) as update:
        trials = sweep(
            study.groups,
            study.policies,
            store,
            jobs=jobs or min(available_cores(), max(1, len(study.problems))),
            time_limit=limit_of(study.time_limit, default),
            progress=lambda done, total: update(done, f"{done} of {total} problems"),
            **study.options,
        )
    is_interrupted = any(one.status == NOT_RUN for one in trials)
    ended = {limit_note(study.time_limit, one.stop_reason, default) for one in trials}
    notes = [*study.notes, *(f"time limit of an optimum: {line}" for line in ended if line)]
    if is_interrupted:
        notes.append(f"interrupted: {sum(one.status == NOT_RUN for one in trials)} trials not run")
    report = Report(trials, notes, shown)
    for path in out or ():
        with writing():
            write_atomically(path, report.text(path.suffix.lower()))
    answer(json_file, "ratios", report.document(), *report.parts())
    if is_interrupted:
        return INTERRUPTED_STATUS
    return FAILED_STATUS if any(one.status == FAILED for one in trials) else 0


@dataclass
class Study:
    """The problems of a sweep by group, its policies and options, and notes on the problems."""

    groups: dict[str, list[Any]]
    policies: Any
    time_limit: float | None
    options: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[Any]:
        """All problems."""
        return [one for members in self.groups.values() for one in members]


def _study(options: dict[str, Any], demo: bool) -> Study:
    """Read the sources, with the options in a TOML file below those of the command line."""
    folder = "."
    if len(options.get("sources", ())) == 1 and options["sources"][0].endswith(".toml"):
        path = options.pop("sources")[0]
        folder = os.path.dirname(path) or "."
        options = {**_toml(path), **options}
        import_sources(options.get("import", []), folder)
    if isinstance(options.get("sources"), list):
        options["sources"] = {"": options["sources"]}
    level = service_level(options.get("slo"))
    time, memory_limit = None, None
    if "batch_time" in options:
        time, memory_limit = read_batch_time(options["batch_time"])
    groups, notes = dict[str, list[Any]](), list[str]()
    if demo:
        groups[""] = [in_seconds(one, time) for one in demo_instances()]
    given = options.get("sources", {})
    for label, texts in given.items():
        groups[label] = _read(texts, folder, time, memory_limit, notes)
    if "replicas" in options:
        groups = {
            label: [_fleet(one, options["replicas"]) for one in own]
            for label, own in groups.items()
        }
    chosen = options.get("policy") or (POLICIES if demo else None)
    if chosen is not None:
        chosen = policy_specs(
            [read_policy(text, folder) for text in chosen], deadlines=level is not None
        )
    taken = {
        "predictions": options.get("predictions", ["exact"]),
        "router": options.get("router"),
        "seeds": options.get("seed", [0]),
        "preemption": options.get("preemption"),
        "goal": options.get("goal", LATENCY),
        "optimum": None if options.get("optimum") == "none" else options.get("optimum", "solve"),
    }
    if level is not None:
        from hindsight import OnTime

        taken["goal"] = OnTime(level)
        notes.append(f"on time: {level}, in {'seconds' if time else 'rounds'}")
    if time is None and taken["optimum"] != "records":
        every = [one for members in groups.values() for one in members]
        notes += goal_notes(
            every, "total_latency", {"preemptive_total_latency": "--preemption keep"}
        )
    return Study(groups, chosen, options.get("time_limit"), taken, notes)


def _toml(path: str) -> dict[str, Any]:
    """Read the options in a TOML file.

    Raises
    ------
    OSError, FileFormatError
        It cannot be read, or is not TOML.
    InvalidValueError, InvalidTypeError
        A key is unknown, or its value is not of the type of the option.
    """
    document = parse_toml(read_bytes(path), path)
    for key, value in document.items():
        if key not in SETTINGS:
            reason = f"is not a valid key ({', '.join(SETTINGS)})"
            raise InvalidValueError(path, key, value, reason)
        if type(value) not in KINDS.get(key, (str,)):
            raise InvalidTypeError(path, key, value, "is not of the type of this option")
        parts = value.values() if isinstance(value, dict) else [value]
        for part in parts if key in (*LISTS, "sources") else ():
            wanted = int if key == "seed" else str
            if not isinstance(part, list) or not all(isinstance(one, wanted) for one in part):
                reason = f"is not a list of {'integers' if key == 'seed' else 'texts'}"
                raise InvalidTypeError(path, key, part, reason)
    if "sources" not in document:
        raise InvalidValueError(path, "sources", [], "is missing: write sources = [...]")
    return document


def _read(
    texts: Iterable[str], folder: str, time: Any, memory_limit: int | None, notes: list[str]
) -> list[Any]:
    """Read the problems of a group, and add to the notes on them."""
    parsed = [
        replace(one, name=os.path.join(folder, one.name)) if one.file else one
        for one in map(parse_source, texts)
    ]
    read = read_sources(parsed, batch_time=time, memory_limit=memory_limit)
    problems = [
        one
        if one.name or not isinstance(one, Instance | Workload)
        else one.renamed(printable(stem))
        for one, stem in zip(read.problems, read.stems, strict=True)
    ]
    for one in problems:
        if isinstance(one, Workload) and one.batch_time is None:
            reason = "has arrivals in seconds: give --batch-time"
            raise InvalidValueError(None, "instance", one.name, reason)
    described = [one.metadata for one in problems if hasattr(one, "metadata")]
    imitated = sorted({one[SYNTHETIC] for one in described if one.get(SYNTHETIC) is not None})
    adaptive = sorted({str(one.name) for one in problems if getattr(one, "adaptive", False)})
    notes += [
        *read.notes,
        *(f"synthetic: {text}" for text in imitated),
        *rounding_notes(problems),
        *(f"adaptive arrivals, answering each policy: {name}" for name in adaptive),
    ]
    return problems


def _fleet(problem: Any, replicas: int) -> Any:
    """Return the problem with another number of replicas."""
    if isinstance(problem, Instance | Workload):
        return problem.with_replicas(replicas)
    reason = "answers to a policy: it has one machine"
    raise InvalidValueError(None, "instance", problem.name, reason)
