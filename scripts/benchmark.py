"""Measure processor time and memory of solves, relaxations and policies for growing instances."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import _checkout  # noqa: F401
import pandas as pd
import typer

import hindsight
import online
from instances import Instance, generate
from instances.files import write_atomically
from instances.progress import progress_bar
from online.commands.console import check_output, fail, run, say, writing
from studies.fits import fit_power_law

CHILD = "--child"
WARM_UP = 5
"""Number of requests of a first run, which is not measured."""
ARRIVALS_PER_ROUND = 0.1
"""About the rate that a machine with M = 16,492 can serve, so that queues build up and remain."""
FAMILIES: dict[str, dict[str, Any]] = {
    "at-once": {},
    "arriving": {"arrival_rate": ARRIVALS_PER_ROUND},
}
"""Mixes of long and short requests, 1:4."""


def measure(family: str, n: int, method: str, time_limit: float) -> dict[str, Any]:
    """Run a method on an instance of ``n`` requests, and return a row with time and memory.

    ``method`` is ``solve``, ``relax``, ``rows`` (a relaxation with all starts) or a policy's name.
    """
    instance: Instance = generate("mixed-long-short", 0, n=n, **FAMILIES[family])
    if n > WARM_UP:
        # A first run compiles or loads compiled loops, so that this time is not measured.
        measure(family, WARM_UP, method, time_limit)
    begun, found = time.process_time(), dict[str, Any]()
    if method == "solve":
        solved = hindsight.solve(instance, time_limit, threads=1)
        found = {"lower": solved.lower_bound, "upper": solved.upper_bound, "ended": solved.status}
    elif method in ("relax", "rows"):
        kind: Any = "lagrangian" if method == "relax" else "lp"
        bound = hindsight.relax(instance, method=kind, time_limit=time_limit, threads=1)
        found = {"lower": bound.certified_bound, "ended": bound.stop_reason}
    else:
        record = online.simulate(instance, method)
        done = record.status == "completed"
        found = {"upper": int(record.total_latency) if done else None, "ended": record.status}
    spent, peak = time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row = {"family": family, "n": n, "method": method, "cpu_seconds": round(spent, 2)}
    # Linux counts in KiB, macOS in bytes.
    return {**row, "peak_mb": round(peak / (1e6 if sys.platform == "darwin" else 1e3)), **found}


def in_child(*given: Any) -> dict[str, Any]:
    """Call `measure` in a new process, because peak memory can be read only for a whole process."""
    command = [sys.executable, __file__, CHILD, json.dumps(given)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == 0:
        row: dict[str, Any] = json.loads(ended.stdout)
        return row
    why = (ended.stderr.strip().splitlines() or ["killed"])[-1]
    return dict(zip(("family", "n", "method", "ended"), (*given[:3], why), strict=True))


def benchmark(
    method: Annotated[
        list[str] | None,
        typer.Argument(help="solve, relax, rows (all starts in HiGHS), policies. Default: solve."),
    ] = None,
    requests: Annotated[
        list[int] | None, typer.Option("-n", "--requests", min=1, help="Sizes; repeatable.")
    ] = None,
    family: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(FAMILIES)}; repeatable. Default: all.")
    ] = None,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds per row.")] = 60,
    out: Annotated[Path | None, typer.Option(help="Write the rows: .csv.")] = None,
) -> None:
    """Measure each method on each family of instances at each size.

    Then fit how time and memory grow with the number of requests.
    """
    check_output(out, (".csv",))
    for name in family or ():
        if name not in FAMILIES:
            fail(f"unknown family {name!r}; known: {', '.join(FAMILIES)}")
    for name in set(method or ()) - {"solve", "relax", "rows"}:
        online.make_policy(name)
    sizes = sorted(requests or (100, 200, 500, 1000, 2000, 5000))
    tasks = [
        (one, n, way) for one in family or FAMILIES for way in method or ["solve"] for n in sizes
    ]
    rows = []
    with progress_bar(len(tasks)) as update:
        for place, task in enumerate(tasks):
            update(place, "{}, n = {}, {}".format(*task))
            rows.append(in_child(*task, time_limit))
    table = pd.DataFrame(rows)
    say(table.to_string(index=False, na_rep=""))
    for names, group in table.groupby(["family", "method"], sort=False):
        measured = group.dropna(subset="cpu_seconds")
        if measured["n"].nunique() > 2 and (measured["cpu_seconds"] > 0).all():
            time_fit, memory_fit = (
                fit_power_law([*measured["n"]], [*measured[column]])
                for column in ("cpu_seconds", "peak_mb")
            )
            say(f"{', '.join(names)}: processor time ~ n^{time_fit}, memory ~ n^{memory_fit}")
    if out is not None:
        with writing():
            write_atomically(out, table.to_csv(index=False))


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        print(json.dumps(measure(*json.loads(sys.argv[2]))))
    else:
        run(benchmark)
