"""Tables for the claims of [A25]: gaps to the fluid value, instability, memory."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import _checkout  # noqa: F401
import typer

from instances import UnknownNameError
from instances.files import TableWriter, write_atomically
from online.commands.console import (
    check_output,
    print_table,
    progress_bar,
    run,
    writing,
)
from online.tables import Table
from studies.reproduction.a25 import fluid_experiments as experiments

COLUMNS = {
    "gaps": (
        "case",
        "T, s",
        "mean gap, tokens/s",
        "standard error",
        "exponent [95 %]",
        "exponent in [A25]",
    ),
    "loads": (
        "policy",
        "d1 W",
        "W (d1 + d0 / C)",
        "T, s",
        "mean latency, s",
        "standard error",
    ),
    "memory": ("C, tokens", "runs", "runs with overflow", "evictions", "highest peak, tokens"),
}
EXPERIMENTS = tuple(COLUMNS)
LOADS = (0.5, 0.7, 0.8, 0.9, 1.1, 1.3)


def fluid(
    experiment: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}.")],
    seeds: Annotated[int, typer.Option(min=2, help="Seeds 0, 1, .. of every case.")] = 20,
    horizon: Annotated[
        list[float] | None, typer.Option(min=1, help="T, seconds; repeatable for gaps and loads.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A .csv file to write.")] = None,
) -> None:
    """Simulate what [A25] makes claims about.

    gaps: throughput short of the fluid value over T, with the fitted exponent. loads: mean latency
    on both sides of Proposition 1 and of M* = C. memory: peak memory of Nested WAIT with the
    requirement of (14), and with M_pi alone.
    """
    check_output(out, (".csv",), "--out")
    if experiment not in EXPERIMENTS:
        raise UnknownNameError("experiment", experiment, list(EXPERIMENTS))
    measure: dict[str, Callable[..., Iterator[Measured]]] = {
        "gaps": gaps,
        "loads": loads,
        "memory": memory,
    }
    rows: list[Any] = []
    cells: list[tuple[str, ...]] = []
    try:
        for found, shown in measure[experiment](range(seeds), horizon):
            rows += found
            cells += shown
    finally:
        # Ctrl-C loses nothing that was measured.
        if cells:
            table = Table("", COLUMNS[experiment], tuple(cells), frozenset({"case", "policy"}))
            print_table(table)
    if out is not None:
        names = [field.name for field in dataclasses.fields(rows[0])]
        text = io.StringIO()
        writer = TableWriter(text)
        writer.writerow(names)
        writer.writerows(dataclasses.astuple(row) for row in rows)
        with writing():
            write_atomically(out, text.getvalue())


Measured = tuple[Sequence[Any], Sequence[tuple[str, ...]]]
"""What was measured of a case, and its rows in the table."""


def gaps(seeds: Sequence[int], horizon: list[float] | None) -> Iterator[Measured]:
    """Measure throughput short of the fluid value; a row for each T, the last has the exponent."""
    horizons = sorted(horizon or [250, 500, 1000, 2000, 4000])
    cases = experiments.gap_cases()
    with progress_bar(len(cases)) as update:
        for number, case in enumerate(cases, 1):
            measured, found = experiments.measure_gaps(case, horizons, seeds)
            fitted = (
                "" if found is None else f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
            )
            shown = [
                (row.case, f"{row.horizon:g}", f"{row.mean_gap:.4f}", f"{row.standard_error:.4f}")
                for row in measured
            ]
            ends = [("", "")] * (len(shown) - 1) + [(fitted, f"{case.order:g}")]
            yield measured, [(*row, *end) for row, end in zip(shown, ends, strict=True)]
            update(number, case.label)


def loads(seeds: Sequence[int], horizon: list[float] | None) -> Iterator[Measured]:
    """Measure mean latencies; a row for each load, policy and T."""
    horizons = sorted(horizon or [100, 200, 400])
    with progress_bar(len(LOADS)) as update:
        for number, load in enumerate(LOADS, 1):
            for row in experiments.latency_under_load(load, horizons, seeds):
                latency = (f"{row.mean_latency:.2f}", f"{row.standard_error:.2f}")
                load_cells = (f"{row.load:g}", f"{row.memory_load:.3f}", f"{row.horizon:g}")
                yield [row], [(row.policy, *load_cells, *latency)]
            update(number, f"d1 W = {load:g}")


def memory(seeds: Sequence[int], horizon: list[float] | None) -> Iterator[Measured]:
    """Count how often Nested WAIT overflows with and without the buffer of (14)."""
    length = (horizon or [1000.0])[0]
    plan = experiments.THREE_LENGTHS_PLAN
    need = math.ceil(plan.memory_requirement(length, 0.01).total)
    for limit in (need, math.ceil(plan.batch_memory)):
        use = experiments.nested_memory_use(experiments.THREE_LENGTHS, plan, limit, length, seeds)
        counts = (
            limit,
            len(use),
            sum(u.evictions > 0 for u in use),
            sum(u.evictions for u in use),
            max(u.peak_memory for u in use),
        )
        yield use, [tuple(map(str, counts))]


if __name__ == "__main__":
    run(fluid)
