"""Table and plot of simulated ratios against the closed forms of [C25]."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from _console import check_output, fail, run, typer

from online.closed_form_convergence import SimulatedRatio, paper_cases, simulated_ratios


def closed_form_convergence(
    memory: Annotated[
        list[int] | None, typer.Option(min=30, help="M; repeatable. Default: 50, 100, 200.")
    ] = None,
    batches: Annotated[int, typer.Option(min=1, help="Requests per token of memory.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, .. of every ratio.")] = 5,
    plot: Annotated[Path | None, typer.Option(help="A .png or .svg file to write.")] = None,
) -> None:
    """Print mean ratios to H-SF with their standard errors, one line a case and M."""
    check_output(plot, (".png", ".svg"), "--plot")
    if plot is not None:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            fail("plots need the package 'matplotlib': pip install 'llm-hindsight[plot]'")
    print("policy and instance | M | n | mean_ratio | standard_error | closed_form | evictions/n")
    results = []
    for r in simulated_ratios(paper_cases(), memory or [50, 100, 200], batches, seeds):
        results.append(r)
        print(
            f"{r.case.label} | {r.memory_limit} | {r.requests} | {r.mean_ratio:.4f} | "
            f"{r.standard_error:.4f} | {r.case.closed_form:.4f} | {r.evictions_per_request:.3f}",
            flush=True,
        )
    if plot is not None:
        draw(results, plot)


def draw(results: list[SimulatedRatio], path: Path) -> None:
    """One panel a case: ratios with error bars over M, the closed form as a line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    by_case: dict[str, list[SimulatedRatio]] = {}
    for result in results:
        by_case.setdefault(result.case.label, []).append(result)
    rows = -(-len(by_case) // 2)
    figure, axes = pyplot.subplots(rows, 2, figsize=(10, 2.6 * rows), squeeze=False)
    for axis, (label, group) in zip(axes.flat, by_case.items(), strict=False):
        axis.errorbar(
            [r.memory_limit for r in group],
            [r.mean_ratio for r in group],
            yerr=[r.standard_error for r in group],
            marker="o",
            capsize=3,
            label="simulated",
        )
        axis.axhline(group[0].case.closed_form, color="black", linestyle="--", label="closed form")
        axis.set_xscale("log")
        axis.set_title(label, fontsize=8)
        axis.set_xlabel("M")
        axis.set_ylabel("ratio to H-SF")
    for axis in list(axes.flat)[len(by_case) :]:
        axis.remove()
    axes.flat[0].legend(fontsize=8)
    figure.tight_layout()
    unfinished = path.with_name(f".{path.name}.part{path.suffix}")
    figure.savefig(unfinished)
    os.replace(unfinished, path)


if __name__ == "__main__":
    run(closed_form_convergence)
