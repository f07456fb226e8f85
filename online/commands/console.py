"""Parts common to all command lines: exit status, one-line errors, text and tables on a screen."""

from __future__ import annotations

import io
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text
from typer.core import TyperGroup

from instances import InvalidValueError
from instances.ctrl_c import Interruption
from instances.errors import printable
from online.tables import Table

FAILED_STATUS = 1
"""Exit status where the answer is no, or part of it failed."""

ERROR_STATUS = 2

INTERRUPTED_STATUS = 130
"""Exit status that a shell expects of a command ended by Ctrl-C."""

PACKAGES = ("instances", "hindsight", "online")
"""Packages whose exceptions are messages to the user."""

LEAST_WIDTH = 24
"""Cells down to which a column of text is narrowed."""

GAP = 2
"""Blanks between columns, and between a name and its value."""


class CommandError(Exception):
    """Command line that cannot be run as it is."""


def fail(message: str) -> NoReturn:
    """End the command with an error of one line.

    Raises
    ------
    CommandError
        Always.
    """
    raise CommandError(message)


def complain(message: object, kind: str = "error") -> None:
    """Print one line on the error output."""
    # Names of files and text of logs may hold terminal control codes.
    print(f"{kind}: {printable(' '.join(str(message).split()))}", file=sys.stderr)


def reject(claim: object) -> None:
    """Print on the error output why a checked claim does not hold."""
    complain(claim, "rejected")


# --- running -----------------------------------------------------------------------------------


_unwritten: list[str] = []
"""Why outputs could not be written; empty for a standard output that nobody reads."""


def run(command: Callable[..., int | None]) -> NoReturn:
    """Run a function as a program whose options are its parameters."""
    application = typer.Typer(add_completion=False, rich_markup_mode=None)
    application.command()(command)
    run_application(application)


class _Subcommands(TyperGroup):
    """Typer group that lists all subcommands, and loads only the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, stub, rest = super().resolve_command(ctx, args)
        if name is None or stub is None:
            return name, stub, rest
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        # The function of a subcommand has the name of its module.
        alone.command(name)(getattr(import_module(f"{__package__}.{name}"), name))
        return name, typer.main.get_command(alone), rest


def run_subcommands(program: str, subcommands: Mapping[str, str]) -> NoReturn:
    """Run the command line; ``subcommands`` maps each name to a line of help."""
    application = typer.Typer(cls=_Subcommands, rich_markup_mode=None)
    for name, about in subcommands.items():
        application.command(name, help=about)(lambda: None)
    if f"_{program.replace('-', '_').upper()}_COMPLETE" in os.environ:
        application(prog_name=program)
    run_application(application, program)


def run_application(application: typer.Typer, program: str | None = None) -> NoReturn:
    """Run a command line; errors that the user can cause become one line and status 2."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The parent process closed this stream.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    # Names may contain characters that the encoding lacks.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    status, message = ERROR_STATUS, None
    try:
        status, message = _outcome(typer.main.get_command(application), program)
    finally:
        # All that is left is to print messages.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _print("")
        for line in filter(None, [*_unwritten, message]):
            complain(line)
    raise SystemExit(status or (ERROR_STATUS if _unwritten else 0))


def _outcome(command: Any, program: str | None) -> tuple[int, str | None]:
    """Run the command; return the exit status and the line that explains it."""
    # The first Ctrl-C raises; a second soon after does not disturb the cleanup.
    ctrl_c = Interruption(raises_from=1)
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            ctrl_c.listen()
        # Not `command.main`, which ends by itself at Ctrl-C and at a closed output.
        name = program or Path(sys.argv[0]).name
        with command.make_context(name, sys.argv[1:]) as context:
            return command.invoke(context) or 0, None
    except typer.Exit as end:
        return end.exit_code, None
    except BrokenPipeError as error:
        _stop_printing(error)
        return ERROR_STATUS, None
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED_STATUS, "interrupted"
    except Exception as error:
        if message := _explanation(error):
            return ERROR_STATUS, message
        if ctrl_c.raised:
            # A library turned it into something else.
            return INTERRUPTED_STATUS, "interrupted"
        raise


def _explanation(error: Exception) -> str | None:
    """Explain an expected error in a line; return None for a bug."""
    if hasattr(error, "format_message"):
        complaint: str = error.format_message().replace("Value error, ", "")
        return complaint if complaint.endswith("?") else f"{complaint.rstrip('.')}; see --help"
    if type(error).__module__.partition(".")[0] in PACKAGES:
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".removesuffix(": ")
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return place + (error.strerror or str(error))
    return None


# --- outputs -----------------------------------------------------------------------------------


@contextmanager
def writing() -> Iterator[None]:
    """Postpone the error of an output that cannot be written, so that nothing else is lost."""
    try:
        yield
    except OSError as error:
        _unwritten.append(_explanation(error) or str(error))


def check_output(
    path: Path | None,
    suffixes: Sequence[str] = (),
    option: str = "--out",
    *,
    folder: bool = False,
    source: Path | None = None,
) -> None:
    """Refuse an output that could not be written, before anything is computed.

    Raises
    ------
    InvalidValueError
        A suffix that is not one of ``suffixes``, the file ``source`` that is read, a folder in
        place of a file, or a folder that does not exist or must not be written to.
    """
    if path is None:
        return
    parent, reason = path if path.is_dir() else path.parent, ""
    if suffixes and path.suffix.lower() not in suffixes:
        reason = f"does not end in {' or '.join(suffixes)}"
    elif source is not None and path.exists() and source.exists() and path.samefile(source):
        reason = "is the file that is read"
    elif path.exists() and path.is_dir() != folder:
        reason = "is not a folder" if folder else "is a folder, not a file"
    elif not os.access(parent, os.W_OK):
        reason = f"cannot be written: folder {str(parent)!r} is missing or not writable"
    if reason:
        raise InvalidValueError(None, option, str(path), reason)


def say(text: str) -> None:
    """Print lines, wrapped at blanks on a terminal; continue if nobody reads them."""
    _print(_wrapped(text) + "\n")


def _print(text: str) -> None:
    try:
        print(text, end="", flush=True)
    except OSError as error:
        _stop_printing(error)


def _stop_printing(error: OSError) -> None:
    # If the reader of the output (head, less) has seen enough, nothing is reported.
    is_read = not isinstance(error, BrokenPipeError)
    _unwritten.append(f"the output cannot be written: {error.strerror}" if is_read else "")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wrapped(text: str, indent: int = 0) -> str:
    """Wrap lines to the width of a terminal; lines after the first are indented."""
    console = Console()
    if not console.is_terminal:
        return text
    wrapper = textwrap.TextWrapper(
        console.width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(wrapper.fill(line) for line in text.split("\n"))


def print_fields(fields: Mapping[str, str]) -> None:
    """Print names and values, one per line; a terminal continues a value below itself."""
    place = max(map(len, fields), default=0) + GAP
    for name, value in fields.items():
        line = name.ljust(place) + printable(value)
        # A single word, such as a digest, is left to the terminal to break.
        _print((_wrapped(line, place) if " " in value else line) + "\n")


def print_table(table: Table) -> None:
    """Print a table; on a terminal the most important columns that fit, and the names of others.

    On a terminal cells of text continue on the next line after a blank; words and numbers are never
    broken.
    """
    table = replace(table, rows=tuple(tuple(map(printable, row)) for row in table.rows))
    console = Console()
    if not console.is_terminal:
        _print(table.to_text())
        return
    if table.title:
        say(table.title)
    columns = {name: cells for name, *cells in zip(table.columns, *table.rows, strict=True)}
    least = {
        name: _least_width(name, cells, is_text=name in table.text_columns)
        for name, cells in columns.items()
    }
    names = [name for name in dict.fromkeys([*table.main_columns, *columns]) if name in columns]
    while len(names) > 1 and sum(least[name] + GAP for name in names) - GAP > console.width:
        names.pop()
    drawn = RichTable(box=box.SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in filter(names.__contains__, columns):
        is_text = name in table.text_columns
        side: Any = "left" if is_text else "right"
        # Text, because a name such as "uniform[seed=1]" would pass for rich's markup.
        drawn.add_column(Text(name), justify=side, no_wrap=not is_text, min_width=least[name])
    for row in table.only(names).rows:
        drawn.add_row(*map(Text, row))
    with console.capture() as capture:
        console.print(drawn)
    _print(capture.get())
    if left_out := [name for name in columns if name not in names]:
        say(f"left out: {'; '.join(left_out)}")


def _least_width(name: str, cells: Sequence[str], *, is_text: bool) -> int:
    """Return the least width of a column."""
    longest = max(map(cell_len, [name, *cells]))
    words = [cell_len(word) for cell in cells for word in cell.split()]
    return max([min(LEAST_WIDTH, longest), *words]) if is_text else longest


@contextmanager
def progress_bar(total: int | None = None) -> Iterator[Callable[[float, str], None]]:
    """Show a bar on the error output if it is a terminal; yields ``update(done, text)``.

    Without a total the bar only moves.
    """
    console, text = Console(stderr=True), TextColumn("{task.description}", markup=False)
    shown = Progress(
        *(BarColumn(), TimeElapsedColumn(), text),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with shown as bar:
        task = bar.add_task("", total=total)
        yield lambda done, text: bar.update(task, completed=done, description=printable(text))
