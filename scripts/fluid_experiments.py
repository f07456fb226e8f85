"""Tables and figures for the claims of [A25]: gaps to the fluid value, instability, memory."""

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
    Wide,
    check_output,
    fail,
    print_table,
    progress_bar,
    run,
    writing,
)
from online.runtime.table import Table
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
    "segments": (
        "rate",
        "T, s",
        "delta",
        "segments",
        *(f"{term}, tokens" for term in ("batch", "boundary", "buffer", "total")),
    ),
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
    plot: Annotated[Path | None, typer.Option(help="A .png or .svg file to write.")] = None,
    wide: Wide = False,
) -> None:
    """Simulate what [A25] makes claims about, or evaluate its formulas.

    gaps: throughput short of the fluid value over T, with the fitted exponent. loads: mean latency
    on both sides of Proposition 1 and of M* = C. memory: peak memory of Nested WAIT with the
    requirement of (14), and with M_pi alone. segments: the terms of (17) over the number of
    segments (Figures 16-18).
    """
    check_output(out, (".csv",), "--out")
    check_output(plot, (".png", ".svg"), "--plot")
    if plot is not None:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            fail("plots need the package 'matplotlib': pip install 'llm-hindsight[plot]'")
    if experiment not in EXPERIMENTS:
        raise UnknownNameError("experiment", experiment, list(EXPERIMENTS))
    measure: dict[str, Callable[..., Iterator[Measured]]] = {
        "gaps": gaps,
        "loads": loads,
        "memory": memory,
        "segments": segments,
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
            print_table(table, wide=wide)
    if out is not None:
        names = [field.name for field in dataclasses.fields(rows[0])]
        text = io.StringIO()
        writer = TableWriter(text)
        writer.writerow(names)
        writer.writerows(dataclasses.astuple(row) for row in rows)
        with writing():
            write_atomically(out, text.getvalue())
    if plot is not None:
        with writing():
            draw(experiment, rows, plot)


Measured = tuple[Sequence[Any], Sequence[tuple[str, ...]]]
"""What was measured of a case, and its rows in the table."""


def gaps(seeds: Sequence[int], horizon: list[float] | None) -> Iterator[Measured]:
    """Measure throughput short of the fluid value; a row for each T, the last has the exponent."""
    horizons = sorted(horizon or [250, 500, 1000, 2000, 4000])
    cases = experiments.gap_cases()
    with progress_bar(len(cases), is_long=True) as update:
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
    with progress_bar(len(LOADS), is_long=True) as update:
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


def segments(seeds: Sequence[int], horizon: list[float] | None) -> Iterator[Measured]:
    """Evaluate the terms of (17) for the parameters of Figures 16 to 18."""
    for row in experiments.segment_panels(experiments.SEGMENT_TIME):
        case = (row.arrival_rate, row.horizon, row.overflow_probability)
        terms = (row.segments, row.batch, row.boundary, row.buffer, row.total)
        yield [row], [(*(f"{one:g}" for one in case), *(f"{one:.0f}" for one in terms))]


def draw(experiment: str, rows: list[Any], path: Path) -> None:
    """The figure of an experiment."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if experiment == "segments":
        figure = draw_segments(pyplot, rows)
    else:
        figure, axis = pyplot.subplots(figsize=(10 if experiment == "loads" else 7, 4.5))
        panels: dict[str, Callable[..., None]] = {
            "gaps": draw_gaps,
            "loads": draw_loads,
            "memory": draw_memory,
        }
        panels[experiment](axis, rows)
        if experiment == "loads":
            axis.legend(fontsize=8, bbox_to_anchor=(1.02, 1), loc="upper left")
        else:
            axis.legend(fontsize=8)
    figure.tight_layout()
    stream = io.BytesIO()
    figure.savefig(stream, format=path.suffix[1:].lower())
    write_atomically(path, stream.getvalue())


def draw_gaps(axis: Any, rows: list[experiments.Gap]) -> None:
    """Gap over T, both logarithmic, with the orders of [A25] as dashed lines."""
    for case in experiments.gap_cases():
        own = [row for row in rows if row.case == case.label]
        x = [row.horizon for row in own]
        axis.errorbar(
            x,
            [row.mean_gap for row in own],
            yerr=[1.96 * row.standard_error for row in own],
            marker="o",
            capsize=3,
            label=f"{case.label} ([A25]: T^{case.order:g})",
        )
        reference = [own[0].mean_gap * (value / x[0]) ** case.order for value in x]
        axis.plot(x, reference, color="grey", linestyle="--", linewidth=0.8)
    axis.set(xscale="log", yscale="log", xlabel="T, seconds", ylabel="Thr* - Thr, tokens a second")


def draw_loads(axis: Any, rows: list[experiments.Load]) -> None:
    """Mean latency over T, a line for each policy and load."""
    styles = {"wait": "-", "fcfs-greedy": ":"}
    order = sorted({row.load for row in rows})
    for policy, style in styles.items():
        for place, load in enumerate(order):
            own = [row for row in rows if row.policy == policy and row.load == load]
            axis.plot(
                [row.horizon for row in own],
                [row.mean_latency for row in own],
                style,
                color=f"C{place}",
                marker=".",
                label=f"{policy}, d1 W = {load:g}, M*/C > 1: {own[0].memory_load > 1}",
            )
    axis.set(xscale="log", yscale="log", xlabel="T, seconds", ylabel="mean latency, seconds")


def draw_memory(axis: Any, rows: list[experiments.MemoryUse]) -> None:
    """Peaks with the buffer, against both limits."""
    limits = sorted({row.memory_limit for row in rows})
    peaks = [row.peak_memory for row in rows if row.memory_limit == limits[-1]]
    axis.hist(peaks, bins=40, label=f"peaks with C = {limits[-1]}")
    axis.axvline(limits[-1], color="black", label="requirement (14)")
    axis.axvline(limits[0], color="black", linestyle="--", label="M_pi, no buffer")
    axis.set(xlabel="peak memory, tokens", ylabel="runs")


def draw_segments(pyplot: Any, rows: list[experiments.SegmentPanel]) -> Any:
    """Draw one panel for each rate, T and delta, as in Figures 16 to 18."""
    panels: dict[tuple[float, float, float], list[experiments.SegmentPanel]] = {}
    for row in rows:
        key = (row.arrival_rate, row.horizon, row.overflow_probability)
        panels.setdefault(key, []).append(row)
    figure, axes = pyplot.subplots(-(-len(panels) // 2), 2, figsize=(10, 10), squeeze=False)
    for axis, ((rate, horizon, delta), own) in zip(axes.flat, panels.items(), strict=False):
        x = [row.segments for row in own]
        for term, mark in (("batch", "o"), ("boundary", "s"), ("buffer", "^"), ("total", "x")):
            axis.plot(x, [getattr(row, term) for row in own], marker=mark, label=term)
        axis.set(
            xscale="log",
            ylim=(1e3, None),
            yscale="log",
            xlabel="segments",
            ylabel="tokens",
            title=f"rate {rate:g}, T = {horizon:g}, delta = {delta:g}",
        )
    axes.flat[0].legend(fontsize=8)
    return figure


if __name__ == "__main__":
    run(fluid)
