"""Display for ``progress=True`` in a terminal or a notebook.

It is one line, rewritten a few times per second. Elsewhere nothing is shown.
"""

from __future__ import annotations

import functools
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import printable

SECONDS_BETWEEN = 0.25
Result = TypeVar("Result")


class _Display:
    """Progress display: writes the latest progress report to stderr, always to the same line."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._shown = -SECONDS_BETWEEN
        self._latest: object = None
        self._is_new = False

    def __call__(self, news: object) -> None:
        # Show the first report of each phase at once: the next report may take seconds, as the
        # phase may begin with the compilation of a loop.
        is_next_phase = getattr(news, "phase", None) != getattr(self._latest, "phase", None)
        self._latest, self._is_new = news, True
        if is_next_phase or time.monotonic() - self._shown >= SECONDS_BETWEEN:
            self._show()

    def _show(self) -> None:
        self._shown, self._is_new = time.monotonic(), False
        line = f"{printable(str(self._latest))}, {self._shown - self._begun:.0f} s"
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{line[:width]:<{width}}")
        sys.stderr.flush()

    def close(self, is_kept: bool) -> None:
        if self._is_new:
            self._show()
        if self._latest is not None:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\n" if is_kept else f"\r{'':<{width}}\r")


def shows_progress(
    function: Callable[..., Result], *, at_terminals: bool = False
) -> Callable[..., Result]:
    """Decorate a function that calls its argument ``progress``, so that it also accepts True.

    True shows a progress line in a terminal or a notebook, which stays at the end. With
    ``at_terminals``, progress=None also shows a line if stderr is a terminal, and removes it at the
    end.
    """

    @functools.wraps(function)
    def shown(*arguments: Any, progress: Any = None, **options: Any) -> Result:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        is_asked = progress is True and (sys.stderr.isatty() or hasattr(shell, "kernel"))
        if not is_asked and not (progress is None and at_terminals and sys.stderr.isatty()):
            progress = progress if callable(progress) else None
            return function(*arguments, progress=progress, **options)
        display = _Display()
        try:
            return function(*arguments, progress=display, **options)
        finally:
            display.close(is_kept=is_asked)

    return shown
