"""The table of worst cases found, each verified anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from hindsight.certificates.format import CertificateError
from instances.files import write_atomically
from online.commands.console import Wide, check_output, fail, print_table, run, say, writing
from online.worst_cases.archive import (
    Check,
    RefutedError,
    case_table,
    check_case,
    check_endless,
    describe,
    load,
)
from online.worst_cases.scoring import Case
from online.worst_cases.search import SearchState

REJECTED_STATUS = 1


def worst_case_table(
    archives: Annotated[
        list[Path],
        typer.Argument(
            metavar="ARCHIVE...", help="Files written by search_worst_case.py, or their folders."
        ),
    ],
    every: Annotated[
        bool, typer.Option("--every", help="All cases kept, not only each search's worst.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the table as .md or .csv.")] = None,
    certificates: Annotated[
        Path | None, typer.Option(help="Folder to write certificates to, for verify.py.")
    ] = None,
    wide: Wide = False,
) -> int:
    """The worst cases found: each policy run again, each optimum's proof checked.

    No solver proves anything here (policies made of linear programs still solve theirs). Exit
    status 0 if all is confirmed, 1 if something is refuted, 2 for unreadable files.
    """
    check_output(out, (".md", ".csv"))
    files = [found for path in archives for found in _files(path)]
    if not files:
        fail("no archives found")
    standings = [standing for path in files for standing in load(path)]
    if certificates is not None:
        certificates.mkdir(exist_ok=True)
    rows: list[tuple[SearchState, Case, Check]] = []
    endless: list[str] = []
    refuted = 0
    for standing in standings:
        target = standing.target
        name = f"{target.spec.label}, {target.setting}"
        for case in standing.cases if every else standing.cases[:1]:
            try:
                rows.append((standing, case, check_case(target, case)))
            except (RefutedError, CertificateError) as error:
                refuted += 1
                print(f"refuted: {name}: {' '.join(str(error).split())}", file=sys.stderr)
                continue
            if certificates is not None:
                path = certificates / f"{target.spec.name}-{case.draft.instance().digest[:12]}.json"
                with writing():
                    write_atomically(path, json.dumps(case.certificate) + "\n")
        if standing.endless is not None:
            draft, status = standing.endless
            try:
                check_endless(target, draft, status)
            except RefutedError as error:
                refuted += 1
                print(f"refuted: {name}: {error}", file=sys.stderr)
            else:
                endless.append(f"never ends ({status}): {name}: {describe(draft)}")
    table = case_table(rows)
    if out is not None:
        text = table.to_csv() if out.suffix.lower() == ".csv" else table.to_markdown()
        with writing():
            write_atomically(out, text)
    print_table(table, wide=wide)
    for line in endless:
        say(line)
    return REJECTED_STATUS if refuted else 0


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.json")) if path.is_dir() else [path]


if __name__ == "__main__":
    run(worst_case_table)
