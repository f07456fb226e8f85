"""Every policy on the instances of the library, as one table."""

from __future__ import annotations

import errno
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import instances
from instances import RecordStore
from instances.files import all_or_nothing, write_atomically
from instances.user_modules import import_sources
from online.leaderboard import (
    beaten,
    equal_policies,
    leaderboard_tables,
    play,
    scores_csv,
    standings,
    standings_csv,
    without_ratio,
)
from online.leaderboard.trials import SEED

from .console import INTERRUPTED_STATUS, Wide, check_output, fail, print_table, say
from .json_output import JsonFile, check_json, plain, write_json
from .policy_options import Imports, Policies, chosen_policies, trial_bar
from .table import Format


class Statistic(StrEnum):
    """Of the ratios of a set."""

    mean = "mean"
    max = "max"


def library_leaderboard(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SET or NAME]...", help="Sets, instances or patterns; default: all."
        ),
    ] = None,
    policy: Policies = None,
    imports: Imports = None,
    statistic: Annotated[
        Statistic, typer.Option(help="Of each set's ratios; csv and JSON have both.")
    ] = Statistic.mean,
    results: Annotated[
        Path,
        typer.Option(
            metavar="RESULTS.sqlite",
            help="Trials are stored there as they go; a killed run goes on where it stopped.",
        ),
    ] = Path("results/leaderboard.sqlite"),
    records: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Records of your own, over those of the package."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    output_format: Annotated[
        Format, typer.Option("--format", help="csv has every figure in full.")
    ] = Format.text,
    out: Annotated[Path | None, typer.Option(help="Write the tables to a file.")] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", help="Write what each policy came to on each instance as well."
        ),
    ] = None,
    wide: Wide = False,
    json_file: JsonFile = None,
) -> int | None:
    """Ratios of every policy, as intervals, by set of the library.

    Each column names the optimum that it is compared with; ratios to different optima stand in
    tables of their own. Engines are run a second time with their queue shortest output first, where
    no policy is named. Policies are run where the results file lacks them, records read as they
    are now.
    """
    check_output(out)
    check_output(scores, (".csv",), "--scores")
    check_json(json_file)
    if records is not None and not records.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(records))
    import_sources(imports or [])
    specs = chosen_policies(policy) if policy else None
    library = instances.library()
    entries = library.matching(*names or ())
    if not results.exists():
        results.parent.mkdir(parents=True, exist_ok=True)
    check_output(results, option="--results")
    try:
        with trial_bar() as update:
            workers = jobs or os.cpu_count() or 1
            found = play(entries, results, policies=specs, jobs=workers, progress=update)
    except KeyboardInterrupt:
        fail("interrupted; what was finished is stored", INTERRUPTED_STATUS)
    store = RecordStore(records)
    known = {entry.name: store.record(entry) for entry in entries}
    standing = standings(found, library, known.get)
    notes = [
        *(f"equal on all instances: {', '.join(group)}" for group in equal_policies(found)),
        *(f"better than its record: {line}" for line in beaten(found, known.get)),
    ]
    document = {"seed": SEED, "notes": notes, "standings": plain(standing)}
    tables = leaderboard_tables(standing, statistic.value)
    reasons = without_ratio(standing)
    made = [*tables, *([reasons] if reasons.rows else [])]
    if output_format is Format.csv:
        text = standings_csv(standing)
    elif output_format is Format.markdown:
        text = "\n".join([*(one.to_markdown() for one in made), *(f"- {note}\n" for note in notes)])
    elif output_format is Format.latex:
        text = "\n".join(one.to_latex() for one in made)
        text += "".join(f"% {note}\n" for note in notes)
    else:
        text = "\n".join(one.to_text() for one in made) + "".join(f"{note}\n" for note in notes)
    with all_or_nothing():
        if scores is not None:
            write_atomically(scores, scores_csv(found))
        if out is not None:
            write_atomically(out, text)
    if write_json(json_file, "leaderboard", document) or out is not None:
        return None
    if output_format is not Format.text:
        sys.stdout.write(text)
    else:
        for number, one in enumerate(made):
            if number:
                print()
            print_table(one, wide=wide)
        for note in notes:
            say(note)
    return None
