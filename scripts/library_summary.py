"""Write the library's figure of gaps and its table of instances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from _checkout import ROOT

from online.commands.console import check_output, run, say
from studies.library.page import write_library_summary


def summary(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write them.")] = (
        ROOT / "docs" / "library"
    ),
) -> None:
    """Write the library's figure of gaps and its table of instances."""
    check_output(folder, folder=True)
    write_library_summary(folder)
    say(f"wrote {folder}")


if __name__ == "__main__":
    run(summary)
