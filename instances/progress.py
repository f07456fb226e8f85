"""Show progress on the error output: as a bar in a terminal, or as lines of text elsewhere."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .errors import printable

Result = TypeVar("Result")


@contextmanager
def progress_bar(
    total: int | None = None, *, is_kept: bool = False
) -> Iterator[Callable[[float, str], None]]:
    """Show a progress bar on the error output if it is a terminal.

    Yields a function ``update(done, text)``. Without a total the bar only shows that something
    moves. With ``is_kept`` the bar stays on the terminal at the end, otherwise it is removed.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console, text = Console(stderr=True), TextColumn("{task.description}", markup=False)
    columns = (BarColumn(), TimeElapsedColumn(), text)
    is_hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=not is_kept, disable=is_hidden) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, text: bar.update(task, completed=done, description=printable(text))


def shows_progress(
    function: Callable[..., Result], *, at_terminals: bool = False
) -> Callable[..., Result]:
    """Decorate a function that calls its argument ``progress``, so that it also accepts True.

    True shows a progress bar in a terminal, which stays at the end, and prints lines elsewhere, as
    in a notebook. With ``at_terminals``, progress=None also shows a bar in a terminal, and removes
    it at the end.
    """

    @functools.wraps(function)
    def shown(*arguments: Any, progress: Any = None, **options: Any) -> Result:
        is_asked = progress is True
        if sys.stderr.isatty() and (is_asked or (progress is None and at_terminals)):
            with progress_bar(is_kept=is_asked) as update:
                return function(*arguments, progress=lambda news: update(0, str(news)), **options)
        if is_asked:
            progress = functools.partial(print, file=sys.stderr)
        return function(*arguments, progress=progress if callable(progress) else None, **options)

    return shown
