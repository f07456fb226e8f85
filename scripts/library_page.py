"""Write the page of the library: sets, gaps, leaderboard, versions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from _checkout import ROOT

from online.commands.console import check_output, fail, run, say
from studies.library.page import write_library_page


def page(
    page: Annotated[
        Path, typer.Argument(metavar="FILE.md", help="Where to write it; data lie beside it.")
    ] = (ROOT / "docs" / "library.md"),
) -> None:
    """Write the page of the library, with its figure and its table of instances.

    What was measured is read from the folder that is called as the page.
    """
    check_output(page, (".md",), "FILE.md")
    folder = page.with_suffix("")
    check_output(folder, folder=True)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        fail("figures need the package 'matplotlib': pip install 'llm-hindsight[plot]'")
    write_library_page(page, folder)
    say(f"wrote {page}")


if __name__ == "__main__":
    run(page)
