"""A results file as one HTML page: ratios, and schedules beside their optima."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from instances.files import write_atomically
from online.comparison.comparing import compare
from online.comparison.trial import Trial
from online.experiment import read_results
from online.report import build_report
from online.report.self_contained import written_by

from .console import check_output, fail
from .demo_instances import SECONDS, demo_instances
from .options import OneExperiment

DEMO_POLICIES = ("mc-sf", "mc-benchmark", "a-min", "fcfs")


def report(
    results: Annotated[
        Path | None,
        typer.Argument(metavar="RESULTS.sqlite", help="Written by llm-hindsight experiment."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write, .html.")] = Path("report.html"),
    demo: Annotated[
        bool, typer.Option("--demo", help="Instead of results: policies on built-in instances.")
    ] = False,
    experiment: OneExperiment = None,
    title: Annotated[
        str | None,
        typer.Option(help="Title of the page. Default: competitive ratios, and the experiment."),
    ] = None,
    ids: Annotated[
        bool, typer.Option("--ids", help="Show the ids of requests, instead of their positions.")
    ] = False,
) -> None:
    """Write one self-contained page that needs no network.

    The ratio table with confidence intervals, every ratio in a picture; for the trial picked,
    policy and optimum side by side as stacked memory, with the figures of each request on hover.
    """
    if demo == (results is not None):
        fail("one of RESULTS.sqlite and --demo is needed")
    check_output(out, (".html", ".htm"))
    missing, studies = "", ["the built-in instances"]
    if results is None:
        trials: list[Trial] = [
            trial
            for instance in demo_instances()
            for trial in compare(instance, DEMO_POLICIES, time_limit=SECONDS, threads=1)
        ]
    else:
        found = read_results(results, experiment)
        trials = found.run
        studies = list(dict.fromkeys(one.experiment for one in found))
        versions = ", ".join(dict.fromkeys(one.version for one in found))
        if len(trials) < len(found):
            missing = f"{len(found) - len(trials)} trials not yet run"
    heading = title or f"Competitive ratios: {', '.join(studies)}"
    ran = f"experiment {', '.join(studies)}, run by llm-hindsight {versions}" if results else ""
    note = "; ".join(filter(None, [ran, f"page written on {written_by()}", missing]))
    write_atomically(out, build_report(trials, heading, note, ids=ids))
    print(f"{out}: {len(trials)} trials" + (f", {missing}" if missing else ""))
