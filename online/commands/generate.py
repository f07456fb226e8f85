"""Instances of any source as JSON files: draws of generators, windows of traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

import instances
from instances import InvalidValueError
from online.tables import table_of

from .console import check_output, fail
from .json_output import JsonFile, answer, check_json
from .sources import SourceTexts, in_rounds, parse_source, read_sources


def generate(
    sources: SourceTexts = None,
    out: Annotated[
        Path | None,
        Option(help="A .json file, or a folder (made if missing); default: write nothing."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Draw instances and write them as JSON. Equal seeds give equal digests."""
    if not sources:
        fail("a SOURCE is missing, such as generator:uniform (llm-hindsight show generators)")
    single = out is not None and bool(out.suffix) and not out.is_dir()
    if single and out is not None and out.suffix.lower() != ".json":
        reason = "is neither a .json file nor a folder; solve --export writes .lp and .mps"
        raise InvalidValueError(None, "--out", str(out), reason)
    check_output(out, folder=not single)
    check_json(json_file)
    read = read_sources(parse_source(text) for text in sources)
    drawn = [in_rounds(one) for one in read.problems]
    if single and len(drawn) > 1:
        fail(f"--out {out} is one file for {len(drawn)} instances; give a folder")
    paths: list[Any] = [
        out if out is None or single else out / f"{stem}.json" for stem in read.stems
    ]
    if out is not None and len(set(paths)) < len(paths):
        double = next(path for path in paths if paths.count(path) > 1)
        raise InvalidValueError(None, "--out", str(double), "would hold two of the instances")
    if out is not None:
        if not single:
            out.mkdir(exist_ok=True)
        for instance, path in zip(drawn, paths, strict=True):
            instances.save(instance, path or out)
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
    columns = ("instance", "n", "M", "digest", "file")[: 4 if out is None else 5]
    shown = [dict(zip(columns, one.values(), strict=False)) for one in found]
    table = table_of(shown, main=("instance", "n", "M", "file", "digest"))
    answer(json_file, "generate", {"instances": found, "notes": read.notes}, *read.notes, table)
