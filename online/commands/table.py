"""The ratio table of a results file."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from instances.files import write_atomically
from online.comparison.ratio_tables import reasons_table, records_csv, records_tables
from online.experiment import (
    ratio_csv,
    ratio_notes,
    ratio_reasons,
    ratio_rows,
    ratio_table,
    read_results,
)

from .console import check_output, print_table


class Format(StrEnum):
    """How a table is written."""

    text = "text"
    csv = "csv"
    markdown = "markdown"
    latex = "latex"


def table(
    results: Annotated[Path, typer.Option(help="File written by run_experiment.py.")],
    output_format: Annotated[
        Format, typer.Option("--format", help="csv has every figure in full.")
    ] = Format.text,
    experiment: Annotated[
        str | None, typer.Option(help="Only this experiment; default: all in the file.")
    ] = None,
    trials: Annotated[
        bool, typer.Option("--trials", help="One row for each trial instead of each policy.")
    ] = False,
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="Level of the bootstrap intervals.")
    ] = 0.95,
    out: Annotated[Path | None, typer.Option(help="Write to a file.")] = None,
) -> None:
    """Competitive ratios as intervals, with bootstrap confidence intervals over instances.

    Works while the experiment runs; the caption counts the trials still missing. A second table
    tells why trials have no ratio.
    """
    check_output(out)
    found = read_results(results, experiment)
    if trials:
        records = [record for result in found if (record := result.record) is not None]
        made = [*records_tables(records), reasons_table(records)]
        notes = []
        text = records_csv(records) if output_format is Format.csv else ""
    else:
        rows = ratio_rows(found, confidence_level=confidence)
        made = [ratio_table(rows), ratio_reasons(rows)]
        notes = ratio_notes(found)
        text = ratio_csv(rows) if output_format is Format.csv else ""
    if not made[-1].rows:
        del made[-1]
    if output_format is Format.markdown:
        parts = [one.to_markdown() for one in made]
        text = "\n".join([*parts, *(["".join(f"- {note}\n" for note in notes)] if notes else [])])
    elif output_format is Format.latex:
        text = "\n".join(one.to_latex() for one in made)
        text += "".join(f"% {note}\n" for note in notes)
    elif output_format is Format.text:
        text = "\n".join(one.to_text() for one in made)
        text += "".join(f"{note}\n" for note in notes)
    if out is not None:
        write_atomically(out, text)
    elif output_format is Format.text:
        for one in made:
            print_table(one.columns, one.rows, one.text_columns, one.to_text(), one.title)
        for note in notes:
            print(note)
    else:
        sys.stdout.write(text)
