"""Instances of the registered generators, or windows of a trace, as JSON files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import instances
from instances import Instance, MemoryRule, Workload
from instances.files import all_or_nothing
from instances.settings import parse_settings
from instances.user_modules import import_sources
from online.runtime.table import Table

from .console import Wide, check_output, fail, parameters_text, print_table, say
from .json_output import JsonFile, check_json, write_json
from .policy_options import Imports
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
    read_windows,
    rounding_notes,
    under_rule,
    window_options,
)


def generate(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Generator; --list shows them.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="Seed of the first instance (default: 0); the next take the next seeds."
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Parameter of the generator; repeatable."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="How many instances; default: 1.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Instead of NAME, a trace or log; plain or gzip.")
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
    out: Annotated[
        Path | None,
        typer.Option(help="A .json file, or a folder (made if missing); default: write nothing."),
    ] = None,
    imports: Imports = None,
    wide: Wide = False,
    json_file: JsonFile = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show the generators and their parameters.")
    ] = False,
) -> None:
    """Draw instances and write them as JSON. Equal seeds give equal digests."""
    check_json(json_file)
    import_sources(imports or [])
    if list_:
        listed = _catalogue()
        known = [dict(zip(listed.columns, row, strict=True)) for row in listed.rows]
        if not write_json(json_file, "generate", {"generators": known}):
            print_table(listed, wide=wide)
        return
    window = window_options(
        trace,
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
    if name is None and trace is None:
        fail("a generator's NAME is missing; --list shows them")
    if trace is not None and (name or seed is not None or count or param):
        fail("--trace takes the place of NAME, --seed, --param and --count")
    rule = MemoryRule(block_size, cast(Any, emitted_token), cast(Any, prompt_allocation))
    number = windows or count or 1
    single = out is not None and out.suffix.lower() == ".json" and not out.is_dir()
    if single and number > 1:
        fail(f"--out {out} is one file for {number} instances; give a folder")
    check_output(out, folder=not single)
    if name is None:
        assert trace is not None
        drawn, notes = read_windows(trace, window, rule)
        stems = [f"{trace.name.partition('.')[0]}-window{k}" for k in range(number)]
        notes = [*notes, *rounding_notes(drawn)]
    else:
        notes = []
        settings = parse_settings(param or [])
        seeds = range(seed or 0, (seed or 0) + number)
        drawn = [under_rule(_draw(name, one, settings), rule) for one in seeds]
        stems = [f"{name}-seed{one}" for one in seeds]
    paths = [out if out is None or single else out / f"{stem}.json" for stem in stems]
    _save(drawn, paths)
    found = [
        {
            "instance": one.name,
            "requests": len(one),
            "memory_limit_tokens": one.memory_limit,
            "digest": one.digest,
            "file": path,
        }
        for one, path in zip(drawn, paths, strict=True)
    ]
    if write_json(json_file, "generate", {"instances": found, "notes": notes}):
        return
    for note in notes:
        say(note)
    columns = ["instance", "n", "M", "digest"]
    rows = [[i.name or "", str(len(i)), str(i.memory_limit), i.digest] for i in drawn]
    if out is not None:
        columns.append("file")
        rows = [[*row, str(path)] for row, path in zip(rows, paths, strict=True)]
    table = Table(
        "",
        tuple(columns),
        tuple(map(tuple, rows)),
        frozenset({"instance", "digest", "file"}),
        ("instance", "n", "M", "file", "digest"),
    )
    print_table(table, wide=wide)


def _save(drawn: Sequence[Instance], paths: Sequence[Path | None]) -> None:
    """Write all the files, or none and no folder."""
    folder = paths[0].parent if paths[0] is not None else None
    is_new = folder is not None and not folder.exists()
    try:
        if folder is not None:
            folder.mkdir(exist_ok=True)
        with all_or_nothing():
            for instance, path in zip(drawn, paths, strict=True):
                if path is not None:
                    instances.save(instance, path)
    except BaseException:
        if folder is not None and is_new:
            with suppress(OSError):
                folder.rmdir()
        raise


def _draw(name: str, seed: int, settings: dict[str, object]) -> Instance:
    drawn = instances.generate(name, seed, **settings)
    if not isinstance(drawn, Instance):
        if isinstance(drawn, Workload):
            fail(f"generator {name!r} draws arrivals in seconds: they make no instance in rounds")
        fail(f"generator {name!r} answers to a policy: it has no instance before a run")
    return drawn


def _catalogue() -> Table:
    rows = []
    for name in instances.generator_names():
        settings = parameters_text(instances.generator_parameters(name))
        described = instances.generator_documentation(name)
        rows.append((name, settings, described.partition("\n")[0]))
    columns = ("generator", "parameters", "what")
    prose = frozenset({"parameters", "what"})
    order = ("generator", "what", "parameters")
    return Table("", columns, tuple(rows), frozenset(columns), order, prose)
