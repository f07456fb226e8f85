"""Measure what a version of this package proves of a sample of the library in a fixed time."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from _checkout import ROOT

import instances
from hindsight.outcomes.results import percent
from instances import RecordStore
from instances.version import package_version
from online.commands.console import check_output, fail, progress_bar, run, say
from studies.library.versions import (
    SECONDS,
    MeasurementError,
    check_against_records,
    measure,
    put_row,
    sample,
)


def versions(
    label: Annotated[
        str | None,
        typer.Option(
            help="Of the row; one of that label is replaced. Default: this version and the date."
        ),
    ] = None,
    python: Annotated[
        Path, typer.Option(help="Interpreter with what that version requires.")
    ] = Path(sys.executable),
    sources: Annotated[
        Path | None,
        typer.Option(help="Checkout of that version; default: this one, or what --python has."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="For each instance.")] = SECONDS,
    names: Annotated[
        list[str] | None,
        typer.Option("--instance", help="Instead of the sample; repeatable, patterns too."),
    ] = None,
    out: Annotated[Path, typer.Option(help="File of the rows.")] = (
        ROOT / "docs" / "library" / "versions.json"
    ),
) -> None:
    """Solve a sample of the library with a version of this package, and keep its bounds as a row.

    One instance after the other, each with the same limit, so that rows of one machine compare;
    about eight minutes in all.
    """
    check_output(out, (".json",))
    library = instances.library()
    chosen = library.matching(*names) if names else sample(library)
    if refused := [one.name for one in chosen if one.goal != "total_latency"]:
        fail(f"{refused[0]} is not one of total latency in rounds")
    own = python == Path(sys.executable)
    date = datetime.now(UTC).date().isoformat()
    label = label or f"{package_version()}, {date}"
    try:
        with progress_bar(len(chosen), is_long=True) as update:
            row = measure(
                chosen,
                label,
                python=python,
                sources=ROOT if own and sources is None else sources,
                seconds=seconds,
                date=date,
                machine=f"{os.cpu_count()} cores, {platform.machine()}",
                progress=update,
            )
    except MeasurementError as error:
        fail(error)
    check_against_records(row, library, RecordStore())
    put_row(out, row)
    gaps = row.gaps([*row.bounds])
    mean = percent(sum(gaps) / len(gaps))
    say(f"{label}: mean gap {mean} of {len(gaps)} instances, {gaps.count(0.0)} closed")


if __name__ == "__main__":
    run(versions)
