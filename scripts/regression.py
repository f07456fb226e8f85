"""Compare two checkouts by the intervals of 40 library solves, on the processor's clock.

The time limit of each solve counts processor seconds of its process, so a busy machine does not
change the result. Run this script in each checkout, then compare the two files:

    python scripts/regression.py run before.json
    python scripts/regression.py run after.json
    python scripts/regression.py compare before.json after.json
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import _checkout  # noqa: F401
import typer

import hindsight
import instances
from hindsight.records.improvement import solving_goal
from hindsight.runtime import clock
from instances import LibraryEntry

FEWER = ("j25-m1-published", "j25-m2-published", "worst", "reduction", "azure-code")
"""Sets of which the sample has two instances. It has three of every other set."""

app = typer.Typer(add_completion=False, no_args_is_help=True)


def sample(count: int) -> list[LibraryEntry]:
    """Choose library instances evenly over the sizes of every set, at most ``count`` in all."""
    chosen = []
    for one in instances.library().sets:
        ordered = sorted(one, key=lambda entry: (entry.n, entry.name))
        parts = 2 if one.name in FEWER else 3
        chosen += [ordered[(2 * k + 1) * len(ordered) // (2 * parts)] for k in range(parts)]
    return chosen[:: -(-len(chosen) // count)]


def solve(entry: LibraryEntry, seconds: float, seed: int) -> dict[str, Any]:
    """Solve a library instance for its goal. Return a row with the bounds, in the goal's unit."""
    options: dict[str, Any] = {"time_limit": seconds, "threads": 1, "seed": seed, "progress": False}
    result = hindsight.solve(entry.instance, **solving_goal(entry), **options)
    bounds = (result.lower_bound, result.upper_bound, result.certified_lower_bound)
    if entry.level is not None:
        least = entry.n - result.upper_bound
        bounds = (least, entry.n - result.lower_bound, least)
    return dict(zip(("lower", "upper", "certified"), map(_number, bounds), strict=True))


def _number(value: Any) -> float | int | None:
    return value if value is None or isinstance(value, int) else float(value)


def _gap(row: dict[str, Any]) -> float:
    """Return the gap (upper - lower) / upper of a row in percent. It is 100 without bounds."""
    lower, upper = row.get("lower"), row.get("upper")
    if lower is None or upper is None:
        return 100.0
    return 0.0 if upper == lower else 100 * (upper - lower) / upper


@app.command()
def run(
    out: Path,
    seconds: Annotated[float, typer.Option(help="Processor seconds of each solve.")] = 5.0,
    count: Annotated[int, typer.Option(min=1, help="Instances.")] = 40,
    seed: Annotated[int, typer.Option(help="Seed of each solve.")] = 0,
    only: Annotated[str, typer.Option(help="Solve the instances of this pattern alone.")] = "",
) -> None:
    """Solve the sample, and write a row for each instance. Rows already in the file are kept."""
    # All time limits of the package use the clock of this module. Replace it by the processor's.
    vars(clock)["time"] = SimpleNamespace(**{**vars(time), "monotonic": time.process_time})
    rows = json.loads(out.read_text()) if out.exists() else []
    known = {row["name"] for row in rows}
    chosen = instances.library().matching(only) if only else sample(count)
    for entry in (one for one in chosen if one.name not in known):
        began = time.process_time()
        try:
            found = solve(entry, seconds, seed)
        except Exception as error:  # noqa: BLE001 - a row that failed is a lost proof
            found = {"error": repr(error)[:200]}
        cpu = round(time.process_time() - began, 2)
        rows.append({"name": entry.name, "set": entry.set, "seconds": seconds, "cpu": cpu, **found})
        out.write_text(json.dumps(rows, indent=0) + "\n")
        typer.echo(f"{entry.name:36} {_interval(rows[-1])} {cpu} s")


def _interval(row: dict[str, Any]) -> str:
    return f"[{row.get('lower')}, {row.get('upper')}] {row.get('error', '')}"


def _differences(before: list[Any], after: list[Any]) -> Iterator[tuple[Any, Any]]:
    found = {row["name"]: row for row in after}
    return ((row, found[row["name"]]) for row in before if row["name"] in found)


@app.command()
def compare(before: Path, after: Path) -> None:
    """Print lost and new proofs, and mean gaps by set. Exit with status 1 if AFTER is worse."""
    pairs = list(_differences(json.loads(before.read_text()), json.loads(after.read_text())))
    sets: dict[str, list[tuple[float, float]]] = {}
    lost = 0
    for old, new in pairs:
        gaps = _gap(old), _gap(new)
        sets.setdefault(old["set"], []).append(gaps)
        if (gaps[0] == 0) != (gaps[1] == 0):
            lost += gaps[0] == 0
            word = "lost" if gaps[0] == 0 else "new"
            typer.echo(f"{word} proof: {old['name']} {_interval(old)} -> {_interval(new)}")
    sets["all"] = [one for some in sets.values() for one in some]
    for name, found in sets.items():
        mean = [sum(column) / len(found) for column in zip(*found, strict=True)]
        typer.echo(f"{name:18} {len(found):3}  mean gap {mean[0]:7.3f} % -> {mean[1]:7.3f} %")
    if lost:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
