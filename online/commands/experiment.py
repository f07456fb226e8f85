"""Run an experiment, or what is missing of it, into a results file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hindsight.runtime.resources import available_cores
from online import experiment as experiments

from .console import FAILED_STATUS, INTERRUPTED_STATUS, Wide, fail
from .json_output import JsonFile, answer, plain
from .options import Jobs, importing, trial_bar


@importing
def experiment(
    results: Annotated[
        Path, typer.Option(help="SQLite file; made if it is not there, otherwise completed.")
    ],
    declaration: Annotated[
        Path | None, typer.Argument(metavar="EXPERIMENT.toml", help="What is to be run.")
    ] = None,
    preset_name: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help=f"An experiment that comes along: {', '.join(experiments.preset_names())}.",
        ),
    ] = None,
    jobs: Jobs = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try those again that ended with an error.")
    ] = False,
    wide: Wide = False,
    json_file: JsonFile = None,
) -> int:
    """Every trial of an experiment that the results file does not hold yet.

    Interrupted in whatever way, the same command goes on where it stopped. Exit status 0, or 1 if
    trials failed: they are recorded with their errors. What is to be run is declared in TOML:

        name = "mine"
        policies = ["mc-sf", "fcfs", "my_rules.py:MyRule(alpha=0.2)"]
        [[instances]]
        generator = "uniform"
        parameters = { n = 10 }
        seeds = { start = 0, count = 20 }
        [[instances]]
        trace = "log.csv"
        parameters = { memory_limit = 4000, duration_seconds = 10, windows = 5 }
        [solver]
        time_limit = 60
    """
    if (declaration is None) == (preset_name is None):
        fail("choose one of EXPERIMENT.toml and --preset; --help explains")
    declared = (
        experiments.preset(preset_name or "")
        if declaration is None
        else experiments.read_experiment(declaration)
    )
    try:
        with trial_bar() as update:
            outcome = experiments.run_experiment(
                declared,
                results,
                jobs=jobs or available_cores(),
                retry_failed=retry_failed,
                progress=update,
            )
    except KeyboardInterrupt:
        fail("interrupted; what was finished is stored", INTERRUPTED_STATUS)
    rows = (
        experiments.ratio_rows(experiments.read_results(results, declared.name))
        if outcome.failed
        else []
    )
    told = [
        {
            **{name: getattr(row, name) for name in ("family", "predictions", "policy")},
            "trials": count,
            "status": status,
            "reason": reason,
        }
        for row in rows
        for count, status, reason in row.reasons
    ]
    found = {"experiment": declared.name, "results": results, **plain(outcome), "reasons": told}
    line = (
        f"{declared.name}: {outcome.trials} trials and {outcome.optima} optima in {results}, "
        f"{outcome.computed} computed now, {outcome.failed} failed"
    )
    parts = (line, experiments.ratio_reasons(rows)) if told else (line,)
    answer(json_file, "experiment", found, *parts, wide=wide)
    return FAILED_STATUS if outcome.failed else 0
