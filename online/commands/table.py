"""The ratio table of a results file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from instances.files import write_atomically
from online import experiment as experiments
from online.comparison.ratio_tables import level_notes, reasons_table, records_csv, records_tables
from online.runtime.table import Table

from .console import Wide, check_output, print_table, say
from .json_output import JsonFile, check_json, plain, record_entry, write_json
from .options import OneExperiment


class Format(StrEnum):
    """Formats of a table."""

    text = "text"
    csv = "csv"
    markdown = "markdown"
    latex = "latex"


OutputFormat = Annotated[Format, typer.Option("--format", help="csv has every figure in full.")]


def rendered(tables: Sequence[Table], notes: Sequence[str], output_format: Format) -> str:
    """Tables and notes as text, Markdown or LaTeX."""
    if output_format is Format.markdown:
        items = "".join(f"- {note}\n" for note in notes)
        return "\n".join([*(one.to_markdown() for one in tables), *([items] if items else [])])
    if output_format is Format.latex:
        return "\n".join(one.to_latex() for one in tables) + "".join(f"% {n}\n" for n in notes)
    return "\n".join(one.to_text() for one in tables) + "".join(f"{note}\n" for note in notes)


def table(
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS.sqlite", help="Written by llm-hindsight experiment."),
    ],
    output_format: OutputFormat = Format.text,
    experiment: OneExperiment = None,
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
    found = experiments.read_results(results, experiment)
    notes: list[str] = []
    if trials:
        records = found.run
        made = [*records_tables(records), reasons_table(records)]
        notes = level_notes(records)
        entries: list[Any] = [record_entry(record) for record in records]
    else:
        rows = experiments.ratio_rows(found, confidence_level=confidence)
        made, entries = (
            [experiments.ratio_table(rows), experiments.ratio_reasons(rows)],
            plain(rows),
        )
        notes = experiments.ratio_notes(found)
    kind = "trials" if trials else "policies"
    document = {"caption": made[0].title, "notes": notes, kind: entries}
    if write_json(json_file, "table", document):
        return
    if not made[-1].rows:
        del made[-1]
    if output_format is Format.csv:
        text = records_csv(records) if trials else experiments.ratio_csv(rows)
    else:
        text = rendered(made, notes, output_format)
    if out is not None:
        write_atomically(out, text)
    elif output_format is Format.text:
        for one in made:
            print_table(one, wide=wide)
        for note in notes:
            say(note)
    else:
        sys.stdout.write(text)
