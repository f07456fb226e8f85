"""Table and plot of simulated ratios against the closed forms of [C25]."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from instances import InvalidValueError
from instances.files import TableWriter, write_atomically
from online.commands.console import check_output, fail, run, say, writing
from studies.reproduction.c25.closed_form_convergence import (
    Extrapolation,
    SimulatedRatio,
    by_case,
    extrapolate,
    paper_cases,
    plot_convergence,
    simulated_ratios,
)

COLUMNS = (
    "policy and instance | M | n | mean_ratio | standard_error | closed_form | "
    "policy/formula | h-sf/formula | evictions/n"
)


def closed_form_convergence(
    memory: Annotated[
        list[int] | None, typer.Option(min=30, help="M; repeatable. Default: 100, 200, 400.")
    ] = None,
    batches: Annotated[
        list[int] | None, typer.Option(min=1, help="n / M; repeatable. Default: 20, 40.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, .. of every ratio.")] = 4,
    largest: Annotated[int, typer.Option(min=1, help="Leave out instances of more requests.")] = (
        16_000
    ),
    only: Annotated[str, typer.Option(help="Only cases whose label contains this.")] = "",
    out: Annotated[Path | None, typer.Option(help="A .csv file to write.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A .png or .svg file to write.")] = None,
) -> None:
    """Print mean ratios to H-SF with their standard errors, then their limits, a line a case."""
    check_output(out, (".csv",))
    check_output(plot, (".png", ".svg"), "--plot")
    cases = [case for case in paper_cases() if only in case.label]
    if not cases:
        fail(f"no case has {only!r} in its label")
    say(COLUMNS)
    results = []
    limits = memory or [100, 200, 400]
    for r in simulated_ratios(cases, limits, batches or [20, 40], seeds, largest):
        results.append(r)
        say(" | ".join(cells(r)))
    say("policy and instance | limit for M and n / M | limit -+ 1.96 standard errors | closed_form")
    fits: dict[str, Extrapolation] = {}
    for label, group in by_case(results).items():
        closed_form = f"{group[0].case.closed_form:.4f}"
        try:
            fit = fits[label] = extrapolate(group)
        except InvalidValueError:
            say(f"{label} | - | - | {closed_form}")
            continue
        say(f"{label} | {fit.limit:.4f} | [{fit.low:.4f}, {fit.high:.4f}] | {closed_form}")
    if out is not None:
        with writing():
            write_csv(results, out)
    if plot is not None and results:
        with writing():
            draw(results, fits, plot)


def cells(r: SimulatedRatio) -> list[str]:
    """A line of the table."""
    numbers = [
        r.mean_ratio,
        r.standard_error,
        r.case.closed_form,
        r.policy_over_formula,
        r.h_sf_over_formula,
        r.evictions_per_request,
    ]
    return [r.case.label, str(r.memory_limit), str(r.requests), *(f"{x:.4f}" for x in numbers)]


def write_csv(results: list[SimulatedRatio], path: Path) -> None:
    """The table, one line a case, M and n."""
    text = io.StringIO(newline="")
    writer = TableWriter(text)
    writer.writerow(COLUMNS.split(" | "))
    writer.writerows(cells(r) for r in results)
    write_atomically(path, text.getvalue())


def draw(results: list[SimulatedRatio], fits: dict[str, Extrapolation], path: Path) -> None:
    """Draw one panel for each case."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = by_case(results)
    columns = min(4, len(groups))
    rows = -(-len(groups) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(4.2 * columns, 2.8 * rows), squeeze=False
    )
    for ax, (label, group) in zip(axes.flat, groups.items(), strict=False):
        plot_convergence(ax, group, fits.get(label))
    for ax in list(axes.flat)[len(groups) :]:
        ax.remove()
    axes.flat[0].legend(fontsize=6)
    figure.tight_layout()
    stream = io.BytesIO()
    figure.savefig(stream, format=path.suffix[1:].lower(), dpi=80)
    write_atomically(path, stream.getvalue())


if __name__ == "__main__":
    run(closed_form_convergence)
