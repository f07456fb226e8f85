"""Table of relaxations and schedules at scale: time, memory, gap, waiting, growth."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from hindsight.outcomes.result import percent
from instances import UnknownNameError, load
from instances.files import write_atomically
from online.commands.console import (
    check_output,
    fail,
    print_table,
    progress_bar,
    run,
    say,
    writing,
)
from online.tables import Table
from studies.fits import fit_power_law
from studies.scale import DEFAULT_SIZES, FAMILIES, METHODS, ScaleRow, measure

COLUMNS = (
    "family",
    "n",
    "method",
    "seconds",
    "cpu_seconds",
    "peak_MB",
    "certified",
    "value",
    "gap",
    "waiting_low",
    "waiting_high",
    "waiting_gap",
    "ended",
)
MAIN_COLUMNS = ("family", "n", "method", "gap", "seconds", "peak_MB", "waiting_gap", "ended")
CHILD = "--child"


def benchmark_scale(  # noqa: C901, PLR0913
    family: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(FAMILIES)}; repeatable. Default: all.")
    ] = None,
    requests: Annotated[
        list[int] | None,
        typer.Option("-n", "--requests", min=1, help="Sizes; repeatable. Default: 100 .. 20000."),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="scale, rows, solve; repeatable. Default: scale, rows.")
    ] = None,
    instance: Annotated[
        list[Path] | None, typer.Option(help="Instance files, instead of families; repeatable.")
    ] = None,
    tolerance: Annotated[float, typer.Option(min=1e-9, max=1, help="Relative, of scale.")] = 0.01,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds a row.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Of the instances.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Of each row.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the rows as CSV.")] = None,
) -> None:
    """Relax or solve synthetic families, or instance files, a fresh process a row.

    ``at-once`` and ``arriving`` mix long and short requests, M = 16,492, 0.1 a round where they
    arrive; ``long-at-once`` and ``long-arriving`` have outputs longer than prompts, M = 80,000.
    ``value`` is that of the relaxation, from below for ``scale``, or the latency of the schedule
    for ``solve``, which is `hindsight.solve(method="beams")`. Waiting is latency beyond the output
    lengths.
    ``rows`` is the sparse linear program of all starts in HiGHS; once it does not finish within the
    limit or its memory, larger sizes are left out for it.
    """
    check_output(out, (".csv",))
    families, sizes = family or list(FAMILIES), sorted(requests or DEFAULT_SIZES)
    methods = method or list(METHODS[:2])
    for known, names, label in ((FAMILIES, families, "family"), (METHODS, methods, "method")):
        for name in names:
            if name not in known:
                raise UnknownNameError(label, name, sorted(known))
    if instance:
        if family or requests:
            fail("--instance takes the place of --family and --requests")
        for path in instance:
            # What cannot be read is told before anything is measured.
            load(path)
        families, sizes = [str(path) for path in instance], [0]
    rows: list[ScaleRow] = []
    with progress_bar(len(families) * len(methods) * len(sizes)) as update:
        done = 0
        for one in families:
            for way in methods:
                for n in sizes:
                    update(done, f"{one}, n = {n}, {way}")
                    done += 1
                    row = _in_child(one, n, way, tolerance, time_limit, seed, threads)
                    rows.append(row)
                    if out is not None:
                        with writing():
                            write_atomically(out, _table(rows).to_csv())
                    # A long run that is broken off has said what it measured.
                    print(_line(row), file=sys.stderr, flush=True)
                    if way == "rows" and not row.finished:
                        break
    table = _table(rows)
    print_table(table)
    for line in _growth(rows):
        say(line)


def _growth(rows: list[ScaleRow]) -> list[str]:
    """Exponents of seconds and memory, where there are sizes enough for a fit."""
    lines = []
    for family, method in dict.fromkeys((row.family, row.method) for row in rows):
        chosen = [r for r in rows if (r.family, r.method) == (family, method) and r.met_its_end]
        if len({row.requests for row in chosen}) < 3:
            continue
        sizes = [float(row.requests) for row in chosen]
        time = fit_power_law(sizes, [row.cpu_seconds for row in chosen])
        memory = fit_power_law(sizes, [float(row.peak_bytes) for row in chosen])
        lines.append(f"{family}, {method}: processor time ~ n^{time}, peak memory ~ n^{memory}")
    return lines


def _in_child(
    family: str,
    n: int,
    method: str,
    tolerance: float,
    time_limit: float,
    seed: int,
    threads: int,
) -> ScaleRow:
    """Peak memory is that of a process: every row gets its own."""
    told = json.dumps([family, n, method, tolerance, time_limit, seed, threads])
    try:
        ended = subprocess.run(
            [sys.executable, __file__, CHILD, told],
            capture_output=True,
            text=True,
            check=False,
            # Compiled loops are loaded, and HiGHS looks at its clock, outside the limit.
            timeout=1.5 * time_limit + 60,
        )
    except subprocess.TimeoutExpired:
        return ScaleRow.failed(family, n, method, "killed: well over the limit")
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines()
        return ScaleRow.failed(family, n, method, lines[-1] if lines else "killed")
    return ScaleRow(**json.loads(ended.stdout))


def _cells(row: ScaleRow) -> tuple[str, ...]:
    return (
        row.family,
        str(row.requests),
        row.method,
        f"{row.seconds:.2f}",
        f"{row.cpu_seconds:.2f}",
        f"{row.peak_bytes / 1e6:.0f}",
        "" if row.certified_bound is None else str(row.certified_bound),
        "" if row.objective is None else f"{row.objective:.1f}",
        "-" if row.gap is None else percent(row.gap),
        "" if row.waiting_bound is None else str(row.waiting_bound),
        "" if row.waiting is None else f"{row.waiting:.1f}",
        "-" if row.waiting_gap is None else percent(row.waiting_gap),
        row.ended,
    )


def _line(row: ScaleRow) -> str:
    named = zip(COLUMNS[3:], _cells(row)[3:], strict=True)
    said = ", ".join(f"{name} {cell}" for name, cell in named if cell)
    return f"{row.family}, n = {row.requests}, {row.method}: {said}"


def _table(rows: list[ScaleRow]) -> Table:
    cells = tuple(_cells(row) for row in rows)
    text = frozenset({"family", "method", "ended"})
    return Table("", COLUMNS, cells, text, MAIN_COLUMNS, frozenset({"ended"}))


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        print(json.dumps(measure(*json.loads(sys.argv[2])).as_dict()))
    else:
        run(benchmark_scale)
