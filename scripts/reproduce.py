"""Measure tables and figures of the papers again, with data, a picture and a verdict for each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from instances import FileFormatError
from instances.files import write_atomically
from instances.progress import progress_bar
from online.commands.console import check_output, fail, run, say, writing
from studies import reproduction
from studies.reproduction.lengths import DATA_SETS, Given


def reproduce(  # noqa: PLR0913
    names: Annotated[
        list[str] | None, typer.Argument(help="Which; `--list` names them. Default: none.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every one of them.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small size, seconds each, instead of the full one.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder of NAME.csv, .png and .json; made if missing.")
    ] = Path("results/reproduction"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: all cores.")] = None,
    lengths: Annotated[
        list[str] | None,
        typer.Option(metavar="DATA=FILE.csv", help="Your lengths of lmsys or arxiv."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=VALUE",
            help="Change lengths, batch-time or memory, recorded apart; repeatable, one by one.",
        ),
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Store of trials, so that a killed run continues.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Name them, and end.")] = False,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Write a page of the verdicts in --out.")
    ] = None,
) -> None:
    """Measure tables and figures of the papers again.

    For each, one line is printed: the claim of the paper, the verdict, and the parts of the claim
    that hold or fail.
    """
    known = reproduction.figures()
    if show_list:
        print("\n".join(known))
        return
    if names and everything:
        fail("give names or --all, not both")
    if not names and not everything and page is None:
        fail("nothing to do: give names or --all; --list shows the names")
    check_output(page, (".md",), "--page")
    chosen = [reproduction.find(name) for name in (known if everything else names or [])]
    conditions = overrides(chosen, lengths or [], vary or [], quick=quick)
    if chosen:
        out.mkdir(parents=True, exist_ok=True)
        check_output(out / f"{chosen[0].name}.csv", (".csv",))
    for one, given in itertools.product(chosen, conditions):
        begun = sum(os.times()[:4])
        with progress_bar() as update:
            setting = reproduction.Setting(
                quick=quick,
                jobs=jobs or os.cpu_count() or 1,
                given=given,
                results=results,
                progress=lambda done, total, name=one.name: update(  # type: ignore[misc]
                    done / total, f"{name}: {done} of {total}"
                ),
            )
            outcome = one.measure(setting)
        with writing():
            spent = sum(os.times()[:4]) - begun
            say(reproduction.record(one, outcome, setting, out, spent).line)
    if page is not None:
        write_page(page, out)


def overrides(
    chosen: Sequence[reproduction.Figure],
    lengths: Sequence[str],
    vary: Sequence[str],
    *,
    quick: bool,
) -> list[Given]:
    """Return the conditions that the options give. Each figure runs once under each of them."""
    given: Given = {}
    for option in lengths:
        name, value = pair(option, "--lengths", "DATA=FILE.csv")
        if name not in DATA_SETS:
            fail(f"--lengths {option}: unknown data set {name!r}; known: {', '.join(DATA_SETS)}")
        given = reproduction.override(given, name, value)
        if not any(name in one.lengths for one in chosen):
            fail(f"--lengths {option}: nothing that is named takes lengths of {name}")
        needed = max(0 if quick else one.lengths.get(name, 0) for one in chosen)
        if given[name].rows < needed:
            reason = f"holds {given[name].rows:,} requests, and {needed:,} are needed"
            raise FileFormatError(given[name].path, reason)
    found = []
    for option in vary:
        name, value = pair(option, "--vary", "WHAT=VALUE")
        if name in DATA_SETS or (name == "lengths" and "lmsys" in given):
            fail(f"--vary {option}: --lengths gives lengths of files")
        found.append(reproduction.override(given, name, value))
        for one in chosen:
            if name not in one.varies:
                fail(f"--vary {option}: {one.name} has no {name} to vary")
    return found or [given]


def pair(option: str, name: str, form: str) -> tuple[str, str]:
    """Return the texts before and after "=" in ``option``, the value of the option ``name``.

    ``form`` is the form of the value, for the message.
    """
    left, sign, right = option.partition("=")
    if not (left and sign and right):
        fail(f"{name} {option}: is not of the form {form}")
    return left, right


def write_page(page: Path, folder: Path) -> None:
    """Write a page with the verdicts in ``folder``. Its links are relative to the page."""
    if not folder.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(folder))
    records = reproduction.read_records(folder)
    varied = reproduction.read_records(folder / reproduction.VARIATIONS)
    relative = Path(os.path.relpath(folder, page.parent)).as_posix()
    tables = reproduction.reproduction_tables(records, relative, varied)
    with writing():
        write_atomically(page, f"# Reproductions\n\n{tables}")


if __name__ == "__main__":
    run(reproduce)
