"""Subcommand `generate`: instances from generators, traces or the library, as JSON files."""

from __future__ import annotations

import re
from pathlib import Path

import instances
from instances import Instance, InvalidValueError

from .console import check_output
from .json_output import answer, check_json, instance_fields
from .sources import parse_source, read_instances


def generate(sources: list[str], *, out: Path | None = None, json: Path | None = None) -> None:
    """Draw instances and write them as JSON. Equal seeds give equal digests.

    Parameters
    ----------
    sources : SOURCE...
        INSTANCE.json, a name or library:PATTERN of the library, 'generator:NAME(n=10, seed=0,
        count=1)', 'worst:POLICY(n=12)' or 'trace:FILE(memory_limit=M)'; docs/commands.md has their
        settings.
    out : FILE.json or FOLDER
        File for the instance, or folder (made if missing) with a file for each instance, named
        after it; default: write nothing.
    json : FILE
        Write the answer as JSON; - is standard output, which then has nothing else.
    """
    is_folder = out is not None and (out.is_dir() or not out.suffix)
    if not is_folder:
        check_output(out, (".json",))
    check_json(json)
    drawn, notes = read_instances(map(parse_source, sources))
    files = [out / _file_name(one) if out and is_folder else out for one in drawn]
    if out and len({*files}) < len(files):
        reason = f"is {len({*files})} file(s) for {len(files)} instances: give a folder for several"
        raise InvalidValueError(None, "--out", str(out), reason)
    if out and is_folder:
        out.mkdir(exist_ok=True)
    for instance, path in zip(drawn, files, strict=True):
        if path:
            instances.save(instance, path)
    found = [
        {**({"file": path} if path else {}), **instance_fields(one)}
        for one, path in zip(drawn, files, strict=True)
    ]
    answer(json, "generate", {"instances": found, "notes": notes}, *notes, found)


def _file_name(instance: Instance) -> str:
    return re.sub(r"[^\w.-]+", "-", instance.name or "").strip("-") + ".json"
