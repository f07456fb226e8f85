"""Ratios on the papers' adversarial constructions beside what the theorems claim."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from instances import InvalidValueError
from instances.files import write_atomically
from online.commands.console import (
    check_output,
    fail,
    print_table,
    progress_bar,
    run,
    writing,
)
from online.policy_interface.specs import make_policy
from online.tables import Table
from studies.adversaries.cascade import cascades
from studies.adversaries.ratios import Measurement, growth_of, measurements, paper_constructions
from studies.adversaries.reductions import partition_checks, three_partition_checks
from studies.adversaries.tables import (
    cascade_table,
    growth_table,
    plot_growth,
    ratio_table,
    reduction_table,
)

KINDS = ("ratios", "cascade", "reductions")


def adversaries(  # noqa: PLR0913
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="ratios, cascade or reductions.")
    ] = "ratios",
    memory: Annotated[
        list[int] | None,
        typer.Option(
            min=16,
            help="M of ratios; repeatable. Default: 68 .. 2200; 1000 .. 47000 for the adversary.",
        ),
    ] = None,
    construction: Annotated[
        list[str] | None, typer.Option(help="Generator to include; repeatable. Default: all.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Policy against the adaptive adversary, or in the cascade; repeatable. "
            "Default: mc-sf, or fcfs-greedy and mc-sf."
        ),
    ] = None,
    rounds: Annotated[
        list[int] | None,
        typer.Option(min=3, help="Iterations of the cascade; repeatable. Default: 200, 800."),
    ] = None,
    groups: Annotated[int, typer.Option(min=1, help="Largest m of the 3-Partition instances.")] = 3,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, .. of whatever is random.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Write the tables: .csv (the first) or .md.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write ratios as .png or .svg.")] = None,
) -> None:
    """Measured ratios, throughput lost, or partitions found, with what the papers state."""
    if kind not in KINDS:
        raise InvalidValueError(None, "KIND", kind, f"is not one of {', '.join(KINDS)}")
    check_output(out, (".csv", ".md"))
    check_output(plot, (".png", ".svg"), "--plot")
    for name in policy or []:
        make_policy(name)
    if plot is not None and kind != "ratios":
        fail(f"--plot draws ratios, not {kind}")
    if kind == "ratios":
        measured = _measure(memory, construction, policy, seeds)
        tables = [ratio_table(measured), growth_table(growth_of(measured))]
        if plot is not None:
            with writing():
                _draw(measured, plot)
    elif kind == "cascade":
        names = policy or ["fcfs-greedy", "mc-sf"]
        tables = [cascade_table(list(cascades(names, rounds or [200, 800], seeds)))]
    else:
        found = list(three_partition_checks(range(1, groups + 1), seeds))
        tables = [reduction_table([*found, *partition_checks([6, 10, 14], seeds)])]
    if out is not None:
        with writing():
            write_atomically(out, _rendered(tables, out.suffix.lower()))
    for number, table in enumerate(tables):
        if number:
            print()
        print_table(table)


def _measure(
    memory: list[int] | None, wanted: list[str] | None, policies: list[str] | None, seeds: int
) -> list[Measurement]:
    chosen = paper_constructions(policies or ["mc-sf"])
    known = sorted({found.generator for found in chosen})
    for name in wanted or []:
        if name not in known:
            reason = f"is not one of {', '.join(known)}"
            raise InvalidValueError(None, "--construction", name, reason)
    if wanted:
        chosen = [found for found in chosen if found.generator in wanted]
    sizes = sorted(set(memory)) if memory else None
    total = sum(len(sizes or found.memory_limits) for found in chosen)
    measured = []
    with progress_bar(total) as update:
        for row in measurements(chosen, sizes, seeds):
            measured.append(row)
            update(len(measured), row.construction.label)
    return measured


def _rendered(tables: list[Table], suffix: str) -> str:
    if suffix == ".csv":
        return tables[0].to_csv()
    return "\n".join(table.to_markdown() for table in tables)


def _draw(measured: list[Measurement], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5.5))
    plot_growth(axes, measured)
    figure.tight_layout()
    stream = io.BytesIO()
    figure.savefig(stream, format=path.suffix[1:].lower())
    write_atomically(path, stream.getvalue())


if __name__ == "__main__":
    run(adversaries)
