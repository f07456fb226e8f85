"""The ratio table of a results file."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from _console import check_output, print_table, run, typer

from instances.files import write_atomically
from online.comparison.ratio_tables import records_csv, records_table
from online.experiment import ratio_csv, ratio_rows, ratio_table, read_results


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

    Works while the experiment runs; the caption counts the trials still missing.
    """
    check_output(out)
    found = read_results(results, experiment)
    if trials:
        records = [record for result in found if (record := result.record) is not None]
        made, values = records_table(records), records_csv
        text = values(records) if output_format is Format.csv else ""
    else:
        rows = ratio_rows(found, confidence_level=confidence)
        made = ratio_table(rows)
        text = ratio_csv(rows) if output_format is Format.csv else ""
    if output_format is Format.markdown:
        text = made.to_markdown()
    elif output_format is Format.latex:
        text = made.to_latex()
    elif output_format is Format.text:
        text = made.to_text()
    if out is not None:
        write_atomically(out, text)
    elif output_format is Format.text:
        print_table(made.columns, made.rows, made.text_columns, text, made.title)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    run(table)
