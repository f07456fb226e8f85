"""Parts common to all command lines: exit status, one-line errors, options and tables."""

from __future__ import annotations

import errno
import functools
import inspect
import io
import math
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from instances import FileFormatError, InvalidTypeError, InvalidValueError, UnknownNameError
from instances.ctrl_c import Interruption
from instances.errors import printable
from online.tables import Table

FAILED_STATUS = 1
"""Exit status where the answer is no, or part of it failed."""

INTERRUPTED_STATUS = 130
"""Exit status that a shell expects of a command ended by Ctrl-C."""

ERROR_STATUS = 2


def fail(message: object, status: int = ERROR_STATUS) -> NoReturn:
    """Print one line on the error output and exit."""
    complain(message)
    raise SystemExit(status)


def complain(message: object) -> None:
    """Print one line on the error output."""
    _tell("error", message)


def reject(claim: object) -> None:
    """Print on the error output why a checked claim does not hold."""
    _tell("rejected", claim)


def _tell(kind: str, message: object) -> None:
    # Text from others may hold terminal control codes.
    print(f"{kind}: {printable(' '.join(str(message).split()))}", file=sys.stderr)


OPTION_ERRORS = (FileFormatError, InvalidTypeError, InvalidValueError, UnknownNameError)
LATE_ERRORS = {
    "hindsight.outcomes.errors.SolverError",
    "online.policy_interface.policy.PolicyError",
    "online.workers.WorkerDiedError",
    "online.simulation.schedules.NoScheduleError",
}
"""Name of an error class that is not imported here: a solver takes a second to load."""


_unwritten: list[str] = []
_is_read = True


@contextmanager
def writing() -> Iterator[None]:
    """Write an output; report a failure at the end, so that nothing else is lost."""
    try:
        yield
    except OSError as error:
        _unwritten.append(_explanation(error) or str(error))


def say(text: str) -> None:
    """Print lines, wrapped at blanks on a terminal; continue if nobody reads them."""
    try:
        print("\n".join(_lines(text)), flush=True)
    except OSError as error:
        _give_up_printing(error)


def _lines(text: str, indent: int = 0) -> list[str]:
    """Wrap a text that begins ``indent`` cells from the left to the width of a terminal."""
    console = Console()
    if not console.is_terminal:
        return text.split("\n")
    whole_words = textwrap.TextWrapper(
        max(1, console.width - indent), break_long_words=False, break_on_hyphens=False
    )
    return [part for line in text.split("\n") for part in whole_words.wrap(line) or [""]]


def _give_up_printing(error: OSError) -> None:
    # The reader of the output (head, less) has seen enough: this is no error.
    if not isinstance(error, BrokenPipeError):
        _unwritten.append(f"the output cannot be written: {error.strerror or error}")
    global _is_read
    _is_read = False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _EndedError(Exception):
    """Exception for Ctrl-C or a closed output, which typer would handle in its own way."""


def run(command: Callable[..., int | None]) -> NoReturn:
    """Run a command line; errors the user can cause become one line and status 2."""
    application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    application.command()(guarded(command))
    run_typer(application)


def guarded(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Wrap a command so that typer sees neither its Ctrl-C nor a closed output."""

    @functools.wraps(command)
    def kept(*arguments: Any, **options: Any) -> int | None:
        try:
            return command(*arguments, **options)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise _EndedError from error

    kept.__doc__ = _help_text(command.__doc__ or "")
    return kept


def _help_text(docstring: str) -> str:
    """Join each paragraph into one line for typer to wrap; indented lines stay as they are."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    text = (f"\b\n{one}" if one[:1] == " " else one.replace("\n", " ") for one in paragraphs)
    return escape("\n\n".join(text))


def run_typer(application: typer.Typer, **settings: Any) -> NoReturn:
    """Run `guarded` commands with typer's settings."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The parent process closed this stream.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    # Names may contain characters that the encoding lacks.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    status, message = ERROR_STATUS, None
    try:
        status, message = _outcome(application, settings)
    finally:
        # Only a message is left to do.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            sys.stdout.flush()
        except OSError as error:
            _give_up_printing(error)
        for line in [*_unwritten, *([] if message is None else [message])]:
            complain(line)
    if _unwritten or not _is_read:
        status = status or ERROR_STATUS
    raise SystemExit(status)


def _outcome(application: typer.Typer, settings: dict[str, Any]) -> tuple[int, str | None]:
    """Run the application; return the exit status and the line that explains it."""
    # The first Ctrl-C raises; a second soon after does not disturb the cleanup.
    ctrl_c = Interruption(raises_from=1)
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            ctrl_c.listen()
        status = application(standalone_mode=False, **settings) or 0
        # While a subcommand is loaded, typer would turn it into a status without a message.
        told = status == INTERRUPTED_STATUS and ctrl_c.raised
        return status, "interrupted" if told else None
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED_STATUS, "interrupted"
    except _EndedError as ended:
        if isinstance(ended.__cause__, BrokenPipeError):
            _give_up_printing(ended.__cause__)
            return ERROR_STATUS, None
        return INTERRUPTED_STATUS, "interrupted"
    except Exception as error:
        message = _explanation(error)
        if message is None:
            if ctrl_c.raised:
                # A library turned it into something else.
                return INTERRUPTED_STATUS, "interrupted"
            raise
        return ERROR_STATUS, message


def _explanation(error: Exception) -> str | None:
    """Explain an expected error in a line; return None for a bug."""
    if hasattr(error, "format_message"):
        # typer's own message about the command line, with the help of a missing argument.
        missing = getattr(error, "param", None) if hasattr(error, "param_type") else None
        about, complaint = getattr(missing, "help", None), str(error.format_message())
        # typer tells what a value should be, and not the value.
        for refused in getattr(error.__cause__, "errors", list)():
            if repr(refused["input"]) not in complaint:
                complaint += f" (given: {refused['input']!r})"
        return f"{complaint.rstrip('.')}: {about}" if about else complaint
    kinds = {f"{one.__module__}.{one.__name__}" for one in type(error).__mro__}
    if isinstance(error, OPTION_ERRORS) or kinds & LATE_ERRORS:
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".removesuffix(": ")
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return place + (error.strerror or str(error))
    return None


def check_output(
    path: Path | None,
    suffixes: Sequence[str] = (),
    option: str = "--out",
    *,
    folder: bool = False,
    source: Path | None = None,
) -> None:
    """Refuse an output that could not be written, before anything is computed.

    ``source``, the file that is read, is not written over.

    Raises
    ------
    InvalidValueError
        A suffix that is not one of ``suffixes``, or the file that is read.
    OSError
        A folder that is missing or not writable, or a path that is a folder.
    """
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        reason = f"does not end in {' or '.join(suffixes)}"
        raise InvalidValueError(None, option, str(path), reason)
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise InvalidValueError(None, option, str(path), "is the file that is read")
    if path.exists() and path.is_dir() != folder:
        number = errno.ENOTDIR if folder else errno.EISDIR
        raise OSError(number, os.strerror(number), str(path))
    parent = path if path.is_dir() else path.parent
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        number = errno.EACCES if parent.exists() else errno.ENOENT
        raise OSError(number, f"cannot be written: {os.strerror(number)}", str(path))


PROSE_WIDTH = 24
"""Cells that prose of more than two lines needs at least; a narrower column is left out."""

GAP = 2
"""Blanks between a name and its value."""


def print_table(table: Table) -> None:
    """Print a table; on a terminal the most important columns that fit, and the names of others.

    Names and numbers are never broken.
    """
    cells = tuple(tuple(map(printable, row)) for row in table.rows)
    table = replace(table, columns=tuple(map(printable, table.columns)), rows=cells)
    console, shown = Console(), table
    names = table.by_importance
    # Measured on a terminal of any width: what does not fit is cut off otherwise.
    options = console.options.update(max_width=10**6)

    def is_too_wide() -> bool:
        return Measurement.get(console, options, _drawn(shown)).minimum > console.width

    while console.is_terminal and len(names) > 1 and is_too_wide():
        names.pop()
        shown = table.only(names)
    if table.title:
        say(printable(table.title))
    try:
        if console.is_terminal and not is_too_wide():
            console.print(_drawn(shown))
        else:
            sys.stdout.write(replace(shown, title="").to_text())
    except OSError as error:
        _give_up_printing(error)
    if left_out := [name for name in table.columns if name not in shown.columns]:
        say(f"left out: {'; '.join(left_out)}")


def _drawn(table: Table) -> RichTable:
    drawn = RichTable(box=box.SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name, *cells in zip(table.columns, *table.rows, strict=True):
        longest, is_prose = max(map(cell_len, cells), default=0), name in table.prose_columns
        # Text, because a name such as "uniform[seed=1]" would pass for rich's markup.
        drawn.add_column(
            Text(name),
            justify="left" if name in table.text_columns else "right",
            no_wrap=not is_prose,
            min_width=min(PROSE_WIDTH, (longest + 1) // 2) if is_prose else longest,
        )
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def print_fields(fields: Mapping[str, str]) -> None:
    """Names and values, one a line; a terminal continues a value below itself."""
    console = Console()
    width = console.width if console.is_terminal else math.inf
    for name, value in fields.items():
        place = max(map(len, fields)) + GAP
        start, lines = name.ljust(place), _lines(printable(value), place)
        if max(map(cell_len, lines), default=0) > width - place:
            # A word that has no room beside its name, such as a digest.
            place = GAP
            start, lines = f"{name}\n{' ' * place}", _lines(printable(value), place)
        print(start + f"\n{' ' * place}".join(lines))


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[float, str], None]]:
    """A bar on the error output, off where that is no terminal; yields ``update(done, text)``."""
    console = Console(stderr=True)
    columns = (
        BarColumn(),
        TextColumn("{task.completed:g}/{task.total:g}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, text: bar.update(task, completed=done, description=printable(text))
