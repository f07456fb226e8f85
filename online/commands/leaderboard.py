"""Every policy on the instances of the library, as one table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import instances
from hindsight.runtime.resources import available_cores
from instances.files import all_or_nothing, write_atomically
from online.leaderboard import standings
from online.leaderboard.scores import SEED, play, scores_csv

from .console import INTERRUPTED_STATUS, Wide, check_output, fail
from .json_output import JsonFile, answer, plain, write_json
from .options import Jobs, OwnRecords, Policies, chosen_policies, importing, record_store, trial_bar
from .table import Format, OutputFormat, rendered


@importing
def leaderboard(  # noqa: PLR0913
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SET or NAME]...", help="Sets, instances or patterns; default: all."
        ),
    ] = None,
    policy: Policies = None,
    results: Annotated[
        Path,
        typer.Option(
            metavar="RESULTS.sqlite",
            help="Trials are stored there as they go; a killed run goes on where it stopped.",
        ),
    ] = Path("results/leaderboard.sqlite"),
    records: OwnRecords = None,
    jobs: Jobs = None,
    output_format: OutputFormat = Format.text,
    out: Annotated[Path | None, typer.Option(help="Write the tables to a file.")] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", help="Write what each policy came to on each instance as well."
        ),
    ] = None,
    wide: Wide = False,
    json_file: JsonFile = None,
) -> None:
    """Ratios of every policy, as intervals, by set of the library.

    Each column names the optimum that it is compared with; ratios to different optima stand in
    tables of their own. On the set service it is the share of the attainable number on time, and
    policies that read deadlines run there only. Engines are run a second time with their queue
    shortest output first, where no policy is named. Policies are run where the results file lacks
    them, records read as they are now. CSV and JSON also have the largest ratio of each set.
    """
    check_output(out)
    check_output(scores, (".csv",), "--scores")
    store = record_store(records)
    library = instances.library()
    entries = library.matching(*names or ())
    deadlines = any(entry.level is not None for entry in entries)
    specs = chosen_policies(policy, deadlines=deadlines) if policy else None
    if not results.exists():
        results.parent.mkdir(parents=True, exist_ok=True)
    check_output(results, option="--results")
    try:
        with trial_bar() as update:
            workers = jobs or available_cores()
            found = play(entries, results, policies=specs, jobs=workers, progress=update)
    except KeyboardInterrupt:
        fail("interrupted; what was finished is stored", INTERRUPTED_STATUS)
    known = {entry.name: store.record(entry) for entry in entries}
    standing = standings.standings(found, library, known.get)
    notes = [f"better than its record: {line}" for line in standings.beaten(found, known.get)]
    made = standings.leaderboard_tables(standing)
    if (reasons := standings.without_ratio(standing)).rows:
        made.append(reasons)
    is_csv = output_format is Format.csv
    text = standings.standings_csv(standing) if is_csv else rendered(made, notes, output_format)
    with all_or_nothing():
        if scores is not None:
            write_atomically(scores, scores_csv(found))
        if out is not None:
            write_atomically(out, text)
    document = {"seed": SEED, "notes": notes, "standings": plain(standing)}
    if out is not None:
        write_json(json_file, "leaderboard", document)
    elif output_format is Format.text:
        parts = [part for table in made for part in ("", table)][1:]
        answer(json_file, "leaderboard", document, *parts, *notes, wide=wide)
    elif not write_json(json_file, "leaderboard", document):
        sys.stdout.write(text)
