"""Subcommand `ratios`: compare policies with the hindsight optimum of the same instances."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from typer import Context

from hindsight import OnTime
from hindsight.runtime.resources import available_cores
from instances import FileFormatError, Instance, InvalidValueError, Workload
from instances.files import parse_toml, read_bytes, write_atomically
from instances.progress import progress_bar
from online.batch_time.measured_tables import read_batch_time
from online.trials.sweep import sweep
from online.trials.trial import FAILED, NOT_RUN

from .console import FAILED_STATUS, INTERRUPTED_STATUS, check_output, fail, writing
from .json_output import answer, check_json
from .options import DEFAULT_SECONDS, chosen_policies, limit_of, service_level
from .ratio_report import SUFFIXES, Report
from .sources import parse_source, read_sources

DEMO = Path(__file__).with_name("demo.toml")


def ratios(  # noqa: PLR0913
    context: Context,
    sources: list[str] | None = None,
    *,
    demo: bool = False,
    policy: list[str] | None = None,
    predictions: list[str] | None = None,
    batch_time: str | None = None,
    goal: str = "latency",
    slo: list[str] | None = None,
    preemption: str | None = None,
    replicas: int | None = None,
    router: list[str] | None = None,
    seed: list[int] | None = None,
    time_limit: float = DEFAULT_SECONDS,
    optimum: str = "solve",
    jobs: int | None = None,
    store: Path | None = None,
    out: list[Path] | None = None,
    json: Path | None = None,
) -> int:
    """Compare policies with the hindsight optimum, with ratios as proved intervals.

    SOURCE may also be a TOML file whose keys are names of these options. Its key sources is a list
    of sources, or a table with a list for each label of a group.

    A policy that may preempt requests and keep their tokens is compared with the preemptive
    optimum, other policies with the optimum without preemption. With --batch-time latencies are in
    seconds, and the optimum is over all schedulers. With --slo the ratio is the number of requests
    on time divided by the most that any scheduler has on time.

    Ctrl-C ends the searches and shows the results so far (exit status 130). Exit status 1 if a
    policy raised an error or broke a rule: the tables show the reason. A policy that stops serving
    counts as failed in the tables only.

    Parameters
    ----------
    context : Context
        The parsed command line.
    sources : SOURCE...
        INSTANCE.json, a name or library:PATTERN of the library, 'generator:NAME(n=10, seed=0,
        count=1)', 'worst:POLICY(n=12)' or 'trace:FILE(memory_limit=M)'; docs/commands.md has their
        settings.
    demo : FLAG
        Small instances and six policies.
    policy : NAME[:KEY=VALUE,...] or FILE.py:CLASS
        Policy; repeatable. Registered, or of a file or module: 'my.py:Mine(alpha=0.2)'. Default:
        all registered that need no parameters.
    predictions : NAME[(KEY=VALUE, ...)]
        Predicted output lengths that policies get; repeatable: exact, 'noisy(delta=3)',
        'relative(error=0.3)', interval, buckets, 'proportional(spread=0.5)'.
    batch_time : NAME, affine:d0,d1,d2 or aiconfigurator:...
        Compare in seconds: a round takes d0 + d1 * tokens processed + d2 * tokens held seconds.
        `show presets` lists the names; they set M of traces too.
    goal : latency or makespan
        Cost of a run.
    slo : NAME=TIME
        Service level: the most seconds (or rounds) that a request on time may take. NAME is latency
        (e2e), first_token (ttft) or time_per_token (tpot); repeatable, all must hold.
    preemption : never, keep or recompute
        Compare all policies with one optimum; recompute is for seconds only. Default: keep for
        policies that preempt and keep tokens, never for the others; with records theirs. keep is
        proved in time for few requests only: begin with n=5 and short outputs.
    replicas : NUMBER
        Number of identical machines, each with memory M.
    router : NAME[(KEY=VALUE, ...)] or FILE.py:CLASS
        Router of several machines; repeatable.
    seed : NUMBER
        Seed of the random choices and predictions of a run; repeatable. At equal seeds all policies
        get the same predictions.
    time_limit : SECONDS
        Time limit of the search for each optimum. inf: no limit.
    optimum : solve, records or none
        Bounds on optima: computed (solve), from the library's records (records), or none.
    jobs : NUMBER
        Number of processes; default: one per core.
    store : FILE
        File that keeps the trials of one experiment; a later run continues with those that it
        lacks. Tables of a file that several experiments share have the trials of all.
    out : FILE
        Write trials as .csv, the report as .md or .html, its table as .tex; repeatable.
    json : FILE
        Write the answer as JSON; - is standard output, which then has nothing else.
    """
    if demo == bool(sources):
        fail("give SOURCEs or --demo, and not both")
    options, groups, folder = _options(context, sources or [str(DEMO)])
    for path in options["out"]:
        check_output(path, SUFFIXES)
    check_json(options["json"])
    level, notes = service_level(options["slo"]), list[str]()
    specs = chosen_policies(options["policy"], "" if policy else folder, deadlines=bool(level))
    if level is not None:
        unit = "seconds" if options["batch_time"] else "rounds"
        notes.append(f"on time: {level}, in {unit}")
    problems = {label: [*_read(texts, folder, options, notes)] for label, texts in groups.items()}
    size = max(1, sum(map(len, problems.values())))
    with progress_bar(size) as update:
        trials = sweep(
            problems,
            specs,
            store=options["store"],
            seeds=options["seed"] or [0],
            predictions=options["predictions"] or ["exact"],
            router=options["router"] or None,
            goal=options["goal"] if level is None else OnTime(level),
            preemption=options["preemption"],
            optimum=None if options["optimum"] == "none" else options["optimum"],
            time_limit=limit_of(options["time_limit"]),
            jobs=options["jobs"] or min(available_cores(), size),
            progress=lambda done, total: update(done, f"{done} of {total} problems"),
        )
    if missing := sum(one.status == NOT_RUN for one in trials):
        notes.append(f"interrupted: {missing} trials not run")
    report = Report(trials, notes)
    for path in options["out"]:
        with writing():
            write_atomically(path, report.text(path.suffix.lower()))
    answer(options["json"], "ratios", report.document(), *report.parts())
    if missing:
        return INTERRUPTED_STATUS
    return FAILED_STATUS if any(one.status == FAILED for one in trials) else 0


def _options(
    context: Context, named: list[str]
) -> tuple[dict[str, Any], dict[str, list[str]], Path]:
    """Return the options, the sources by label of their group, and the folder for relative paths.

    If the only source is a TOML file, the sources and options are read from it. Options on the
    command line replace those of the file.

    Raises
    ------
    OSError, FileFormatError
        A TOML file cannot be read, is not TOML, or has no sources.
    """
    if len(named) > 1 or not named[0].endswith(".toml"):
        return dict(context.params), {"": named}, Path()
    path = Path(named[0])
    document = parse_toml(read_bytes(path), path)
    sources = document.pop("sources", None)
    if not sources:
        raise FileFormatError(path, "sources is missing: write sources = [...]")
    words = [
        f"--{key.replace('_', '-')}={value}"
        for key, values in document.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    options = context.command.make_context(named[0], words).params
    for name, value in context.params.items():
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE":
            options[name] = value
    return options, sources if isinstance(sources, dict) else {"": sources}, path.parent


def _read(
    texts: list[str], folder: Path, options: dict[str, Any], notes: list[str]
) -> Iterator[Any]:
    """Yield the problems of the sources ``texts``, with as many machines as --replicas gives.

    ``options`` has the values of all options by name. Paths in ``texts`` are relative to
    ``folder``. Notes on the problems are added to ``notes``.
    """
    time, memory_limit = None, None
    if options["batch_time"]:
        time, memory_limit = read_batch_time(options["batch_time"])
    parsed = []
    for one in map(parse_source, map(str, texts)):
        # Paths of files in the sources are relative to the folder of the TOML file.
        is_file = one.file or ":" in one.name
        parsed.append(replace(one, name=os.path.join(folder, one.name)) if is_file else one)
    problems, own = read_sources(parsed, batch_time=time, memory_limit=memory_limit)
    notes += own
    replicas = options["replicas"]
    for problem in problems:
        reason = ""
        if isinstance(problem, Workload) and problem.batch_time is None:
            reason = "has arrivals in seconds: give --batch-time"
        elif replicas is not None and not isinstance(problem, Instance | Workload):
            reason = "reacts to the policy: it has one machine"
        if reason:
            raise InvalidValueError(None, "instance", problem.name, reason)
        yield problem if replicas is None else problem.replaced(replicas=replicas)
