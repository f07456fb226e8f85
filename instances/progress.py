"""Show progress: what ``progress=True`` means in a terminal and in a notebook.

One line is written again and again, a few times per second. Elsewhere nothing is shown.
"""

from __future__ import annotations

import functools
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from .errors import printable

SECONDS_BETWEEN = 0.25
News = TypeVar("News")
Result = TypeVar("Result")


class _Display:
    """Take news, and show the latest."""

    def __init__(self, is_kept: bool = True) -> None:
        self._is_kept = is_kept
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
        if self._latest is not None and _is_shown():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\n" if self._is_kept else f"\r{'':<{width}}\r")

    def _show(self) -> None:
        self._shown, self._is_new = time.monotonic(), False
        line = f"{printable(str(self._latest))}, {self._shown - self._begun:.0f} s"
        if _is_shown():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{line[:width]:<{width}}")
            sys.stderr.flush()


def _is_shown() -> bool:
    """Return True in a terminal and in a notebook, where a line can be written again."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() or hasattr(shell, "kernel")


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
