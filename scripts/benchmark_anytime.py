"""How fast versions of this package close the interval around the optimum."""

from __future__ import annotations

import json
import math
import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import _checkout  # noqa: F401
import typer

import instances
from online.commands.console import check_output, fail, print_table, progress_bar, run, say, writing
from online.pictures import style
from studies.benchmarks import anytime
from studies.library.versions import VersionRow, check_against_records, put_row, sample


def benchmark_anytime(  # noqa: PLR0913
    versions: Annotated[list[str], typer.Argument(metavar="NAME=FOLDER...", help="Checkouts.")],
    seconds: Annotated[
        list[float], typer.Option(min=0.1, help="Times at which to look; repeatable.")
    ] = [1, 3, 10, 30],  # noqa: B006
    patterns: Annotated[
        list[str], typer.Option("--instances", metavar="PATTERN", help="Repeatable.")
    ] = [],  # noqa: B006
    largest: Annotated[float, typer.Option(min=1, help="Most requests.")] = math.inf,
    repeats: Annotated[int, typer.Option(min=1, help="Solves of each instance.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of each solve. Default: every core.")
    ] = None,
    cold: Annotated[bool, typer.Option("--cold", help="Count loading of loops too.")] = False,
    out: Annotated[Path, typer.Option(help="All intervals.")] = Path("anytime.jsonl"),
    plot: Annotated[Path | None, typer.Option(help="Picture: .svg, .png or .pdf.")] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Solve the sample of docs/library.md, and keep a row each.")
    ] = None,
) -> None:
    """Compare the gaps of versions over time, on a sample of the library and twelve draws.

    Every solve has a process of its own and the largest of the times as its limit; versions take
    turns on each instance. A checkout is run by its .venv/bin/python, or by this interpreter where
    it has none. Given twice by two names, a version shows the noise. What is in --out already is
    not solved again: after Ctrl-C the same command goes on.
    """
    check_output(out, (".jsonl",))
    check_output(plot, style.SUFFIXES, "--plot")
    check_output(rows, (".json",), "--rows")
    folders, seconds = _folders(versions), sorted(set(seconds))
    names, library = [*folders], instances.library()
    chosen = sample(library) if rows else anytime.problems(library, patterns, largest)
    if not chosen:
        fail("no instance is left")
    alike = {"limit": seconds[-1], "threads": threads, "cold": cold}
    lines = _measured(out, alike)
    known = {(one["version"], one["instance"], one["repeat"]) for one in lines}
    tasks = [
        (name, one, repeat)
        for repeat in range(repeats)
        for number, one in enumerate(chosen)
        # Each version comes first equally often.
        for name in (names * 2)[(number + repeat) % len(names) :][: len(names)]
        if (name, one.name, repeat) not in known
    ]
    with writing(), out.open("a", encoding="utf-8") as file, progress_bar(len(tasks)) as update:
        if file.tell() and not out.read_bytes().endswith(b"\n"):
            file.write("\n")
        for done, (name, one, repeat) in enumerate(tasks):
            update(done, f"{name}, {one.name}")
            task = {**anytime.task_of(one, threads), "seconds": seconds, "cold": cold}
            told = {
                "version": name,
                "set": one.set,
                "instance": one.name,
                "repeat": repeat,
                **alike,
            }
            date = f"{datetime.now(UTC):%F %T}"
            lines.append({**told, "date": date, **anytime.solve_with(folders[name], task)})
            file.write(json.dumps(lines[-1]) + "\n")
            file.flush()
    asked = {one.name for one in chosen}
    lines = [one for one in lines if one["instance"] in asked]
    solved: anytime.Solved = {name: {} for name in names}
    for line in lines:
        if "intervals" in line and line["version"] in solved:
            key = (line["set"], line["instance"], line["repeat"])
            solved[line["version"]][key] = anytime.gap_steps(line["intervals"])
    print_table(anytime.gaps_table(solved, seconds))
    for name, score in anytime.scores(solved, seconds).items():
        say(f"{name}: {100 * score:.2f} % is the mean gap over log time, of what all solved")
    for name in names:
        _tell(name, [one for one in lines if one["version"] == name])
    with writing():
        if plot is not None:
            style.save(anytime.picture(solved, seconds), plot)
        if rows is not None:
            for name in names:
                _keep_row(rows, name, [one for one in lines if one["version"] == name], len(chosen))


def _folders(versions: list[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in versions:
        name, _, folder = text.partition("=")
        if not folder or not (Path(folder) / "hindsight" / "__init__.py").is_file():
            fail(f"version {text!r} is not NAME=FOLDER with a checkout in the folder")
        if name in found:
            fail(f"version {name!r} is given twice: name them apart")
        found[name] = Path(folder)
    return found


def _measured(path: Path, alike: dict[str, Any]) -> list[dict[str, Any]]:
    """Read what was measured in the same way; a line that was broken off is none."""
    lines = []
    for text in path.read_text("utf-8").splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            lines.append(json.loads(text))
    return [one for one in lines if alike.items() <= one.items() and "failed" not in one]


def _keep_row(path: Path, version: str, lines: list[dict[str, Any]], count: int) -> None:
    """Write what a version proves into the file of the page of the library."""
    bounds = {one["instance"]: tuple(one["certified"]) for one in lines if "certified" in one}
    if len(bounds) < count:
        fail(f"version {version!r} has solved {len(bounds)} of {count} instances: no row")
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    row = VersionRow(version, lines[-1]["date"][:10], machine, lines[-1]["limit"], bounds)
    check_against_records(row, instances.library(), instances.RecordStore())
    put_row(path, row)


def _tell(version: str, lines: list[dict[str, Any]]) -> None:
    """Say how a version was measured, and what it did not solve."""
    for how in sorted({one["how"] for one in lines if "how" in one}):
        say(f"{version}: {how}")
    for kind in ("lacks", "failed"):
        for reason in sorted({one[kind] for one in lines if kind in one}):
            names = dict.fromkeys(one["instance"] for one in lines if one.get(kind) == reason)
            say(f"{version}: {len(names)} not solved, {reason}: {', '.join(names)}")


if __name__ == "__main__":
    run(benchmark_anytime)
