"""The ratio table of a results file."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

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

from .console import Wide, check_output, print_table, say
from .json_output import JsonFile, check_json, plain, record_entry, write_json


class Format(StrEnum):
    """How a table is written."""

    text = "text"
    csv = "csv"
    markdown = "markdown"
    latex = "latex"


def table(
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS.sqlite", help="Written by llm-hindsight experiment."),
    ],
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
    out: Annotated[Path | None, typer.Option(help="Write to a file, with all columns.")] = None,
    wide: Wide = False,
    json_file: JsonFile = None,
) -> None:
    """Competitive ratios as intervals, with bootstrap confidence intervals over instances.

    Works while the experiment runs; the caption counts the trials still missing. A second table
    tells why trials have no ratio.
    """
    check_output(out)
    check_json(json_file, source=results)
    found = read_results(results, experiment)
    if trials:
        records = found.run
        made = [*records_tables(records), reasons_table(records)]
        notes: list[str] = []
        entries: list[Any] = [record_entry(record) for record in records]
        text = records_csv(records) if output_format is Format.csv else ""
    else:
        rows = ratio_rows(found, confidence_level=confidence)
        made = [ratio_table(rows), ratio_reasons(rows)]
        notes = ratio_notes(found)
        entries = plain(rows)
        text = ratio_csv(rows) if output_format is Format.csv else ""
    caption = made[0].title
    document = {"caption": caption, "notes": notes, "trials" if trials else "policies": entries}
    if write_json(json_file, "table", document):
        return
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
            print_table(one, wide=wide)
        for note in notes:
            say(note)
    else:
        sys.stdout.write(text)
