"""Measure tables and figures of the papers again: data, figure and verdict of each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from instances.files import write_atomically
from online.commands.console import check_output, fail, progress_bar, run, say, writing
from studies import reproduction
from studies.reproduction.length_file import read_lengths


def reproduce(  # noqa: PLR0913
    names: Annotated[
        list[str] | None, typer.Argument(help="Which; `--list` names them. Default: none.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every one of them.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small size, seconds each, instead of the full one.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder of NAME.csv, .png, .svg and .json; made if missing.")
    ] = Path("results/reproduction"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    lengths: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA=FILE.csv",
            help="Lengths of your own for lmsys or arxiv, in words or tokens as the columns say.",
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=VALUE",
            help="Change one thing, lengths, batch-time or memory, and record that apart; "
            "repeatable, each by itself.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="SQLite file of trials against optima, so that a killed run goes on."),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Name them, and end.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE.md", help="Write the page of every verdict found in --out."),
    ] = None,
) -> int | None:
    """Measure tables and figures of the papers again.

    Each prints one line: what the paper says, what is measured, reproduced or not, and why.
    """
    if show_list:
        for name in reproduction.reproduction_names():
            study = reproduction.reproduction(name)
            print(f"{name}  [{study.paper}] {study.item}")
        return None
    if names and everything:
        fail("name some, or say --all")
    if not names and not everything and page is None:
        fail("nothing to do: name some, or say --all; --list names them")
    check_output(page, (".md",), "--page")
    chosen = reproduction.reproduction_names() if everything else list(names or [])
    studies = [reproduction.reproduction(name) for name in chosen]
    experiments = conditions(studies, lengths or [], vary or [])
    for study, given in () if quick else itertools.product(studies, experiments):
        given.check_size(study.lengths)
    if studies:
        out.mkdir(parents=True, exist_ok=True)
        check_output(out, option="--out", folder=True)
    for study, given in itertools.product(studies, experiments):
        begun = sum(os.times()[:4])
        with progress_bar(1) as update:
            setting = reproduction.Setting(
                quick=quick,
                jobs=jobs or os.cpu_count() or 1,
                conditions=given,
                results=results,
                progress=lambda done, total, name=study.name: update(  # type: ignore[misc]
                    done / total, f"{name}: {done} of {total}"
                ),
            )
            outcome = study.measure(setting)
        with writing():
            spent = sum(os.times()[:4]) - begun
            say(reproduction.record(study, outcome, setting, out, spent).line)
    if page is not None:
        write_page(page, out)
    return None


def conditions(
    studies: Sequence[reproduction.Reproduction], lengths: Sequence[str], vary: Sequence[str]
) -> list[reproduction.Conditions]:
    """Return the conditions that the options set for all studies: one run of each per condition."""
    given = reproduction.OWN
    for option in lengths:
        data_set, file = pair(option, "--lengths", "DATA=FILE.csv")
        given = given.with_lengths(data_set, read_lengths(Path(file)))
        if not any(data_set in study.lengths for study in studies):
            fail(f"--lengths {option}: nothing that is named takes lengths of {data_set}")
    found = []
    for option in vary:
        what, value = pair(option, "--vary", "WHAT=VALUE")
        found.append(given.varied(what, value))
        for study in studies:
            if what not in study.varies:
                fail(f"--vary {option}: {study.name} has no {what} to vary")
            if what == "lengths" and given.lmsys is not None:
                fail("--vary lengths: --lengths lmsys gives them already")
    return found or [given]


def pair(option: str, name: str, form: str) -> tuple[str, str]:
    """Both sides of an option."""
    left, sign, right = option.partition("=")
    if not (left and sign and right):
        fail(f"{name} {option}: is not of the form {form}")
    return left, right


def write_page(page: Path, folder: Path) -> None:
    """Write a page of the verdicts in ``folder``, with links relative to the page."""
    if not folder.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(folder))
    recorded, experiments = reproduction.recorded_in(folder)
    relative = Path(os.path.relpath(folder, page.parent)).as_posix()
    tables = reproduction.reproduction_tables(recorded, relative, experiments)
    write_atomically(page, f"# Reproductions\n\n{tables}")


if __name__ == "__main__":
    run(reproduce)
