"""Exact methods side by side: time to proof, or the gap at the limit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from hindsight.outcomes.results import percent
from instances import generate
from instances.files import write_atomically
from online.commands.console import Wide, check_output, print_table, progress_bar, run, writing
from online.runtime.table import Table
from studies.benchmarks.exact_methods import (
    SOLVERS,
    BenchmarkRow,
    BenchmarkSummary,
    run_benchmark,
    summarise_benchmark,
)

ROW_COLUMNS = ("instance", "n", "solver", "seconds", "proved", "upper", "lower", "gap")
SUMMARY_COLUMNS = ("solver", "proved", "median_seconds", "median_gap", "seconds_ratio")


def benchmark_exact(
    generator: Annotated[str, typer.Option(help="Instance generator.")] = "arrival-model-1",
    requests: Annotated[int, typer.Option("-n", "--requests", min=1, help="Requests.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="First seed.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="Instances: seeds seed, seed + 1, ...")] = 10,
    solver: Annotated[
        list[str] | None, typer.Option(help=f"Repeatable: {', '.join(SOLVERS)}. Default: all.")
    ] = None,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds a solver and instance.")] = 60,
    out: Annotated[Path | None, typer.Option(help="Write the rows as CSV or Markdown.")] = None,
    wide: Wide = False,
) -> None:
    """Time every exact method on the same instances, one thread each, in one run.

    Ratios are to the first solver named. CP-SAT runs in a process of its own and needs the extra
    ``benchmark``.
    """
    check_output(out, (".csv", ".md"))
    chosen = solver or list(SOLVERS)
    drawn = [generate(generator, seed=seed + k, n=requests) for k in range(count)]
    # Compiled code is loaded once, outside the clock.
    run_benchmark(generate(generator, seed=seed, n=2), chosen[0], time_limit)
    rows: list[BenchmarkRow] = []
    with progress_bar(len(drawn) * len(chosen)) as update:
        for instance in drawn:
            for name in chosen:
                update(len(rows), f"{name} on {instance.name}")
                rows.append(run_benchmark(instance, name, time_limit, seed))
    summary = _summary_table(summarise_benchmark(rows), len(drawn), time_limit)
    detail = _row_table(rows)
    if out is not None:
        parts = (summary.to_markdown(), detail.to_markdown())
        content = detail.to_csv() if out.suffix == ".csv" else "\n".join(parts)
        with writing():
            write_atomically(out, content)
    print_table(summary, wide=wide)


def _gap(gap: float | None) -> str:
    return "-" if gap is None else percent(gap)


def _row_table(rows: list[BenchmarkRow]) -> Table:
    cells = tuple(
        (
            row.instance_name,
            str(row.requests),
            row.solver,
            f"{row.seconds:.2f}",
            "yes" if row.is_proved else "no",
            "" if row.upper_bound is None else str(row.upper_bound),
            "" if row.lower_bound is None else str(row.lower_bound),
            _gap(row.gap),
        )
        for row in rows
    )
    return Table("", ROW_COLUMNS, cells, frozenset({"instance", "solver", "proved"}))


def _summary_table(summaries: list[BenchmarkSummary], instances: int, time_limit: float) -> Table:
    cells = tuple(
        (
            one.solver,
            f"{one.proved}/{one.trials}",
            f"{one.median_seconds:.2f}",
            _gap(one.median_gap),
            f"{one.ratio:.1f}",
        )
        for one in summaries
    )
    title = f"{instances} instances, {time_limit:g} s a solver and instance, one thread"
    return Table(title, SUMMARY_COLUMNS, cells, frozenset({"solver"}))


if __name__ == "__main__":
    run(benchmark_exact)
