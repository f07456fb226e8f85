"""Instances of any source as JSON files: draws of generators, windows of traces."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import instances
from instances import Instance, InvalidValueError
from instances.files import all_or_nothing
from instances.user_modules import import_sources
from online.runtime.table import Table

from .console import Wide, check_output, fail, parameters_text, print_table, say
from .json_output import JsonFile, check_json, write_json
from .policy_options import Imports
from .sources import SourceTexts, in_rounds, parse_source, read_sources, rounding_notes


def generate(
    sources: SourceTexts = None,
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
    if not sources:
        fail("a SOURCE is missing, such as generator:uniform; --list shows the generators")
    single = out is not None and out.suffix.lower() == ".json" and not out.is_dir()
    check_output(out, folder=not single)
    parsed = [parse_source(text) for text in sources]
    read = read_sources(parsed)
    drawn = [in_rounds(one) for one in read.problems]
    if single and len(drawn) > 1:
        fail(f"--out {out} is one file for {len(drawn)} instances; give a folder")
    paths = [out if out is None or single else out / f"{stem}.json" for stem in read.stems]
    if out is not None and len(set(paths)) < len(paths):
        double = next(path for path in paths if paths.count(path) > 1)
        raise InvalidValueError(None, "--out", str(double), "would hold two of the instances")
    _save(drawn, paths)
    notes = read.notes + rounding_notes(drawn)
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
    if not write_json(json_file, "generate", {"instances": found, "notes": notes}):
        for note in notes:
            say(note)
        print_table(_drawn_table(found, is_written=out is not None), wide=wide)


def _drawn_table(found: Sequence[dict[str, Any]], *, is_written: bool) -> Table:
    columns = ("instance", "n", "M", "digest", "file")[: 5 if is_written else 4]
    rows = tuple(tuple(str(value or "") for value in one.values())[: len(columns)] for one in found)
    text = frozenset({"instance", "digest", "file"})
    return Table("", columns, rows, text, ("instance", "n", "M", "file", "digest"))


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
