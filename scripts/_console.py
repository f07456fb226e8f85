"""What the command lines share: finding the packages, errors in one line, options, tables."""

from __future__ import annotations

import errno
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
if (ROOT / "instances" / "__init__.py").is_file():
    # Run from a checkout: its own packages come before any that are installed.
    sys.path.insert(1, str(ROOT))

ERROR_STATUS = 2
INTERRUPTED_STATUS = 130
"""What a shell expects of a command ended by Ctrl-C."""


def fail(message: object, status: int = ERROR_STATUS) -> NoReturn:
    """Print one line on the error output and exit."""
    print("error: " + printable(" ".join(str(message).split())), file=sys.stderr)
    raise SystemExit(status)


try:
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table as RichTable
    from rich.text import Text
except ImportError as _missing:
    print(
        f"error: the command lines need the package {(_missing.name or 'typer').split('.')[0]!r}: "
        "pip install 'llm-hindsight[cli]'",
        file=sys.stderr,
    )
    raise SystemExit(ERROR_STATUS) from None

from instances import (  # noqa: E402
    FileFormatError,
    InvalidTypeError,
    InvalidValueError,
    UnknownNameError,
)
from instances.errors import printable  # noqa: E402

__all__ = [
    "INTERRUPTED_STATUS",
    "check_output",
    "fail",
    "parse_settings",
    "parse_texts",
    "parse_value",
    "percent",
    "print_fields",
    "print_table",
    "progress_bar",
    "run",
    "typer",
]

OPTION_ERRORS = (FileFormatError, InvalidTypeError, InvalidValueError, UnknownNameError)
SOLVER_ERRORS = (
    ("hindsight.highs", "SolverError"),
    ("hindsight.second_opinion", "DisagreementError"),
)


def run(command: Callable[..., int | None]) -> NoReturn:
    """Run a command line: what the user can cause becomes one line and status 2."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted", INTERRUPTED_STATUS)
    except BrokenPipeError:
        # Whoever read the output (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(ERROR_STATUS) from None
    except Exception as error:
        message = _explanation(error)
        if message is None:
            raise
        fail(message)
    raise SystemExit(status or 0)


def _explanation(error: Exception) -> str | None:
    """The line that explains an expected error; None for a bug."""
    if hasattr(error, "format_message"):
        # typer's own complaints about the command line.
        return str(error.format_message())
    if isinstance(error, OPTION_ERRORS):
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".removesuffix(": ")
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return place + (error.strerror or str(error))
    # A solver takes a second to load: its errors are looked up only where it already was.
    loaded = [
        (sys.modules[module], name) for module, name in SOLVER_ERRORS if module in sys.modules
    ]
    kinds = tuple(getattr(module, name) for module, name in loaded)
    return str(error) if isinstance(error, kinds) else None


def check_output(
    path: Path | None, suffixes: Sequence[str] = (), option: str = "--out", *, folder: bool = False
) -> None:
    """Refuse an output that could not be written, before anything is computed.

    Raises
    ------
    InvalidValueError: a suffix that is not one of ``suffixes``.
    OSError: a folder that is missing or not writable, or a path that is a folder.
    """
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        reason = f"does not end in {' or '.join(suffixes)}"
        raise InvalidValueError(None, option, str(path), reason)
    if folder and path.is_dir():
        parent = path
    elif path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    elif folder and path.exists():
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path))
    else:
        parent = path.parent
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise OSError(error.errno, f"cannot be written: {error.strerror}", str(path)) from None


def parse_value(text: str) -> bool | int | float | str:
    """``10`` is a whole number, ``0.5`` and ``nan`` are floats, ``true`` and ``False`` are truth
    values, anything else is text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_settings(entries: Iterable[str], option: str = "--param") -> dict[str, Any]:
    """``["n=10", ...]`` as keyword arguments; errors are those of `parse_texts`."""
    return {key: parse_value(text) for key, text in parse_texts(entries, option).items()}


def parse_texts(entries: Iterable[str], option: str) -> dict[str, str]:
    """``["n=10", ...]`` by name, ``-`` as ``_``; the values as they are.

    Raises
    ------
    InvalidValueError: an entry without a name or ``=``, or a name given twice.
    """
    settings: dict[str, str] = {}
    for entry in entries:
        key, separator, value = entry.partition("=")
        key = key.strip().replace("-", "_")
        if not separator or not key:
            raise InvalidValueError(None, option, entry, "is not of the form name=value")
        if key in settings:
            raise InvalidValueError(None, option, entry, "is given twice")
        settings[key] = value.strip()
    return settings


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: Iterable[str],
    plain: str,
    title: str = "",
) -> None:
    """A rich table on a terminal, ``plain`` anywhere else."""
    console = Console()
    if not console.is_terminal:
        sys.stdout.write("\n".join(map(printable, plain.split("\n"))))
        return
    table = RichTable(title=Text(printable(title)) if title else None, title_justify="left")
    left = set(text_columns)
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", overflow="fold")
    for row in rows:
        # Text, because a name such as "uniform[seed=1]" would pass for rich's markup.
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)


def print_fields(fields: dict[str, str]) -> None:
    """Names and values, one a line."""
    width = max(len(name) for name in fields)
    plain = "".join(f"{name.ljust(width)}  {value}\n" for name, value in fields.items())
    print_table(["", "value"], list(fields.items()), ["", "value"], plain)


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[int, str], None]]:
    """A bar on the error output, off where that is no terminal; yields ``update(done, text)``."""
    console = Console(stderr=True)
    hidden = not console.is_terminal
    columns = (
        BarColumn(),
        TextColumn("{task.completed:g}/{task.total:g}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, text: bar.update(task, completed=done, description=printable(text))


def percent(share: float) -> str:
    """A gap in per cent, rounded up: only a closed gap reads 0 %."""
    return f"{math.ceil(share * 1e4) / 100:g} %"
