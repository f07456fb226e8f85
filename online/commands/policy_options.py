"""What command lines that run trials share: the choice of policies, a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from online.policy_interface.specs import PolicySpec, policy_specs, read_policy

if TYPE_CHECKING:
    from online.experiment import ExperimentProgress


OWN_METAVAR = "NAME or FILE.py[:NAME]"
"""Bounds, cuts and strategies: registered by name, or in a file."""

POLICY_METAVAR = "NAME[:KEY=VALUE,...] or FILE.py:CLASS"

Policies = Annotated[
    list[str] | None,
    typer.Option(
        metavar=POLICY_METAVAR,
        help="Policy; repeatable. Registered, or of a file or module: 'my.py:Mine(alpha=0.2)'. "
        "Default: all registered that need no parameters.",
    ),
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE or FILE.py",
        help="Import it first: it registers policies, generators, bounds, cuts or strategies; "
        "repeatable.",
    ),
]
Cuts = Annotated[
    list[str] | None,
    typer.Option(
        "--cut",
        metavar=OWN_METAVAR,
        help="Rows of your own for the integer program; repeatable.",
    ),
]


@contextmanager
def trial_bar() -> Iterator[Callable[[ExperimentProgress], None]]:
    """Done, failed and time left, on the error output; off where that is no terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("done, {task.fields[failed]} failed, left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None, failed=0)
        stored = 0

        def update(news: ExperimentProgress) -> None:
            nonlocal stored
            if news.computed == 0:
                # What was in the file took no time, and would make the time left look short.
                stored = news.done
                bar.reset(task, total=news.total, completed=stored, failed=news.failed)
            bar.update(
                task,
                description=news.stage,
                completed=news.done,
                total=news.total,
                failed=news.failed,
            )

        yield update


def chosen_policies(texts: Sequence[str] | None) -> list[PolicySpec]:
    """Each as `read_policy` has it; none are all that need no parameters."""
    return policy_specs([read_policy(text) for text in texts] if texts else None)
