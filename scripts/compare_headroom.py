"""The headroom of several logs beside each other, as a Markdown table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from online.commands.console import run
from online.headroom.records import summary_table


def compare_headroom(
    records: Annotated[
        list[Path], typer.Argument(metavar="FIGURES.json...", help="Of headroom.py --json.")
    ],
) -> None:
    """Compare possible savings on each log, and the challenger's share of them."""
    print(summary_table(records).to_markdown(), end="")


if __name__ == "__main__":
    run(compare_headroom)
