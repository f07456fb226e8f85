"""Progress that shows itself: what ``progress=True`` means, in a notebook and in a terminal.

One line is written over and over, a few times a second, in whatever of the two there is; elsewhere
nothing is shown. A notebook keeps the last state only.
"""

from __future__ import annotations

import functools
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from .errors import printable
from .html import text

SECONDS_BETWEEN = 0.25
News = TypeVar("News")
Result = TypeVar("Result")


class _Line:
    """Last line shown by `print`, with the ``share`` of the work done if known."""

    def __init__(self, news: object, seconds: float) -> None:
        self._share: float | None = getattr(news, "share", None)
        self._told = f"{printable(str(news))}, {seconds:.0f} s"

    def __repr__(self) -> str:
        return self._told

    def _repr_html_(self) -> str:
        bar = "" if self._share is None else f'<progress value="{self._share:.4f}"></progress> '
        return f"<div>{bar}{text(self._told)}</div>"


class _Display:
    """Takes news, and shows the latest."""

    def __init__(self, is_kept: bool = True) -> None:
        self._is_kept = is_kept
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        self._in_notebook = hasattr(shell, "kernel")
        self._handle: Any = None
        self._begun = time.monotonic()
        self._shown = -SECONDS_BETWEEN
        self._latest: object = None
        self._is_new = False

    def __call__(self, news: object) -> None:
        # A loop that is being compiled brings no further news for seconds.
        is_next_phase = getattr(news, "phase", None) != getattr(self._latest, "phase", None)
        self._latest, self._is_new = news, True
        if is_next_phase or time.monotonic() - self._shown >= SECONDS_BETWEEN:
            self._show()

    def close(self) -> None:
        if self._is_new:
            self._show()
        if self._handle is None and self._latest is not None and sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\n" if self._is_kept else f"\r{'':<{width}}\r")

    def _show(self) -> None:
        self._shown, self._is_new = time.monotonic(), False
        line = _Line(self._latest, self._shown - self._begun)
        if self._in_notebook and self._handle is None:
            # It is there: this runs inside it.
            display: Any = import_module("IPython.display")
            self._handle = display.display(line, display_id=True)
        elif self._in_notebook:
            self._handle.update(line)
        elif sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{repr(line)[:width]:<{width}}")
            sys.stderr.flush()


@contextmanager
def listener(
    progress: Callable[[News], None] | bool | None, *, at_terminals: bool = False
) -> Iterator[Callable[[News], None] | None]:
    """Yield the caller's function, or for True one that shows its news within the block.

    With ``at_terminals`` None shows them too, on error output that is a terminal, in a line that
    is gone at the end.
    """
    is_unasked = progress is None and at_terminals and sys.stderr.isatty()
    if progress is not True and not is_unasked:
        yield progress or None
        return
    display = _Display(is_kept=not is_unasked)
    try:
        yield display
    finally:
        display.close()


def shows_progress(
    function: Callable[..., Result],
    *,
    at_terminals: Callable[[Mapping[str, Any]], bool] = lambda options: False,
) -> Callable[..., Result]:
    """Have a function that calls its ``progress`` understand True.

    ``at_terminals`` tells of the keyword arguments of a call whether None shows progress in a
    terminal, see `listener`.
    """

    @functools.wraps(function)
    def shown(*arguments: Any, progress: Any = None, **options: Any) -> Result:
        with listener(progress, at_terminals=at_terminals(options)) as told:
            return function(*arguments, progress=told, **options)

    return shown
