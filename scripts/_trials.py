"""The progress bar of `run_experiment.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import _console  # noqa: F401  (says in one line which package is missing)
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from online.experiment import ExperimentProgress


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
