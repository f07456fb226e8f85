"""A results file as one HTML page: ratios, and schedules beside their optima."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from instances.files import write_atomically
from online.experiment import read_results
from online.report import build_report, compare_in_full
from online.report.results import records_of_results

from .console import check_output, fail
from .demo_instances import SECONDS, demo_instances

DEMO_POLICIES = ("mc-sf", "mc-benchmark", "a-min", "fcfs")


def report(
    results: Annotated[
        Path | None,
        typer.Argument(metavar="RESULTS.sqlite", help="Written by llm-hindsight experiment."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "--output", "-o", help="The page to write, .html.")
    ] = Path("report.html"),
    demo: Annotated[
        bool, typer.Option("--demo", help="Instead of results: policies on built-in instances.")
    ] = False,
    experiment: Annotated[
        str | None, typer.Option(help="Only this experiment; default: all in the file.")
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Competitive ratios",
) -> None:
    """Write one self-contained page that needs no network.

    The ratio table with confidence intervals, every ratio in a picture; for the trial picked,
    policy and optimum side by side as stacked memory, with the figures of each request on hover.
    """
    if demo == (results is not None):
        fail("one of RESULTS.sqlite and --demo is needed")
    check_output(out, (".html", ".htm"))
    note = ""
    if results is None:
        records = compare_in_full(demo_instances(), DEMO_POLICIES, time_limit=SECONDS, threads=1)
    else:
        found = read_results(results, experiment)
        records = records_of_results(found)
        if len(records) < len(found):
            note = f"{len(found) - len(records)} trials not yet run"
    write_atomically(out, build_report(records, title, note))
    print(f"{out}: {len(records)} trials" + (f", {note}" if note else ""))
