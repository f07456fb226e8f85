"""Common parts of all command lines: exit status, one-line errors, text and tables on a screen."""

from __future__ import annotations

import inspect
import io
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_type_hints

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.rule import Rule
from rich.table import Table as Grid
from rich.text import Text

from instances import InvalidValueError, UnknownNameError
from instances.ctrl_c import Interruption
from instances.errors import printable
from online.tables import Table

FAILED_STATUS = 1
"""Exit status of a command if a check failed, or if a part of the answer is missing."""

ERROR_STATUS = 2

INTERRUPTED_STATUS = 130
"""Exit status after Ctrl-C. By the convention of shells it is 128 + the number of SIGINT."""

INTERRUPTED = "interrupted"

PACKAGES = ("instances", "hindsight", "online")
"""Packages of this project. Their exceptions are printed in one line, without a traceback."""

LISTED = {
    "policy": "policies",
    "router": "routers",
    "generator": "generators",
    "batch time": "presets",
    "instance or set of the library": "library",
}
"""Argument of the subcommand `show` that lists known names, by `UnknownNameError.kind`."""

LEAST_WIDTH = 12
"""Least width, in characters, to which a column of text is narrowed so that the table fits."""

GAP = 2
"""Number of blanks between two columns of a table, and between a name and its value."""

UNLIMITED = 10**6
"""Width of lines that go to a file, in characters. It is so large that they are not wrapped."""


class CommandError(Exception):
    """Error: arguments of a command are invalid together. It is printed in one line."""


def fail(message: str) -> NoReturn:
    """End the command, with ``message`` printed as an error in one line.

    Raises
    ------
    CommandError
        Always.
    """
    raise CommandError(message)


def complain(message: object, kind: str = "error") -> None:
    """Print the text ``kind: message`` in one line on standard error."""
    # Escape terminal control codes, which names of files and texts in logs may contain.
    print(f"{kind}: {printable(' '.join(str(message).split()))}", file=sys.stderr)


# --- running a command -------------------------------------------------------------------------


_PARAMETER = re.compile(r"^(\w+) : (.+)\n((?: +.+\n?)+)", re.MULTILINE)
"""Matches an entry in the section Parameters of a docstring: name, form and help text."""

_unwritten: list[str] = []
"""Error messages about output files that could not be written. They are printed at the end."""


def described(function: Callable[..., Any]) -> Callable[..., Any]:
    """Prepare a function as a command for Typer, with help texts from its docstring.

    In the section Parameters of the docstring, an entry ``name : FORM`` declares an argument of the
    command. It is an option ``--name FORM`` if the parameter is keyword-only, else positional.
    Parameters that already have a declaration for Typer keep it.
    """
    about, _, section = (inspect.getdoc(function) or "").partition("\nParameters\n")
    hints, signature = get_type_hints(function, include_extras=True), inspect.signature(function)
    texts = {name: it for name, *it in _PARAMETER.findall(section)}
    parameters = []
    for name, one in signature.parameters.items():
        hint = hints[name]
        if name in texts and hint is not typer.Context:
            form, text = texts[name]
            names = [f"--{name.replace('_', '-')}"] if one.kind is one.KEYWORD_ONLY else []
            made: Any = typer.Option if names else typer.Argument
            form = None if hint is bool else form
            hint = Annotated[hint, made(*names, metavar=form, help=" ".join(text.split()))]
        parameters.append(one.replace(annotation=hint))

    def command(**values: Any) -> Any:
        return function(**values)

    vars(command)["__signature__"] = signature.replace(parameters=parameters)
    command.__doc__ = about
    return command


def run(command: Callable[..., int | None]) -> NoReturn:
    """Run a function as a program, with its parameters as arguments and options, and exit."""
    application = typer.Typer(add_completion=False, rich_markup_mode=None)
    application.command()(described(command))
    run_application(application)


def run_subcommands(program: str, subcommands: Iterable[str]) -> NoReturn:
    """Run the subcommand that is named on the command line, and exit.

    Subcommand X is the function X in the module `online.commands.X`.
    """
    application = typer.Typer(rich_markup_mode=None)
    # Set a callback that does nothing. Without a callback, if there is a single subcommand, Typer
    # would not expect its name on the command line.
    application.callback()(lambda: None)
    called = {*sys.argv[1:2]}.intersection(subcommands)
    # Import only the module of the called subcommand. Import all modules if the help text of the
    # program is to be printed.
    for name in called or subcommands:
        function = getattr(import_module(f"{__package__}.{name}"), name)
        application.command(name)(described(function))
    if f"_{program.replace('-', '_').upper()}_COMPLETE" in os.environ:
        application(prog_name=program)
    run_application(application, program)


def run_application(application: typer.Typer, program: str | None = None) -> NoReturn:
    """Run a Typer application with the arguments of the process, and exit.

    Errors that the user can cause are printed in one line and give exit status 2.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The stream is None if the parent process has closed it. Discard all output to it.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    # Print characters of names as escapes if the encoding of the output does not have them.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    # The first Ctrl-C raises KeyboardInterrupt. A second one shortly after it is ignored, so that
    # it does not disturb the cleanup.
    ctrl_c, status, message = Interruption(raises_from=1), ERROR_STATUS, ""
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            ctrl_c.listen()
        command: Any = typer.main.get_command(application)
        # The command is invoked without `command.main`, which would handle Ctrl-C and a closed
        # output in another way.
        with command.make_context(program or Path(sys.argv[0]).name, sys.argv[1:]) as context:
            status = command.invoke(context) or 0
    except typer.Exit as end:
        status = end.exit_code
    except BaseException as error:
        # If Ctrl-C was pressed, any exception counts as an interruption: a library may have turned
        # the KeyboardInterrupt into another exception.
        message = _explanation(error) or (INTERRUPTED if ctrl_c.raised else "")
        if not message and not isinstance(error, BrokenPipeError):
            raise
        status = INTERRUPTED_STATUS if message == INTERRUPTED else ERROR_STATUS
    # Only messages remain to be printed: ignore Ctrl-C from here on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sys.stdout.flush()
    except OSError as error:
        status, message = ERROR_STATUS, message or _explanation(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for line in filter(None, [*_unwritten, message]):
        complain(line)
    raise SystemExit(status or (ERROR_STATUS if _unwritten else 0))


def _explanation(error: BaseException) -> str:
    """Return the message, in one line, of an error that the user can cause.

    The message is empty for other errors, which are bugs, and for a broken pipe.
    """
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return INTERRUPTED
    if hasattr(error, "format_message"):
        complaint: str = error.format_message().replace("Value error, ", "")
        return complaint if complaint.endswith("?") else f"{complaint.rstrip('.')}; see --help"
    if isinstance(error, UnknownNameError) and error.kind in LISTED:
        hint = f"{error.nearest} `show {LISTED[error.kind]}` lists all".lstrip()
        return f"unknown {error.kind} {error.name!r}; {hint}"
    if type(error).__module__.partition(".")[0] in PACKAGES:
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".removesuffix(": ")
    # A broken pipe is not an error: the program that reads the output (head, less) has ended.
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        reason = error.strerror or str(error)
        if isinstance(error, IsADirectoryError):
            reason = "is a folder: give a file that is in it"
        return f"{error.filename}: {reason}" if error.filename else reason
    return ""


# --- writing and printing the answer of a command ----------------------------------------------


@contextmanager
def writing() -> Iterator[None]:
    """Catch an error of writing a file in the ``with`` block, and print it when the command ends.

    So other files are still written, and the answer is printed.
    """
    try:
        yield
    except OSError as error:
        _unwritten.append(_explanation(error))


def check_output(
    path: Path | None, suffixes: Sequence[str], option: str = "--out", source: Path | None = None
) -> None:
    """Raise an error if an output file could not be written, before anything is computed.

    Parameters
    ----------
    path : Path or None
        Path of the output. None means that there is none.
    suffixes : Sequence[str]
        Allowed suffixes.
    option : str, default "--out"
        Option that gave the path, for the error message.
    source : Path or None, default None
        File that the command reads, which must not be overwritten.

    Raises
    ------
    InvalidValueError
        The path has another suffix, is ``source`` or a folder, or its folder does not exist or is
        not writable.
    """
    if path is None:
        return
    reason = ""
    if path.suffix.lower() not in suffixes:
        reason = f"does not end in {' or '.join(suffixes)}"
    elif source is not None and path.exists() and source.exists() and path.samefile(source):
        reason = "is the file that is read"
    elif path.is_dir():
        reason = "is a folder, not a file"
    elif not os.access(path.parent, os.W_OK):
        reason = f"cannot be written: folder {str(path.parent)!r} is missing or not writable"
    if reason:
        raise InvalidValueError(None, option, str(path), reason)


def _console() -> Console:
    """Return a console of the width of the terminal or of the environment variable COLUMNS.

    If standard output is a file, lines are not limited.
    """
    is_limited = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if is_limited else UNLIMITED)


def say(text: str) -> None:
    """Print lines of text, wrapped at blanks to the width of the terminal."""
    for line in text.split("\n"):
        print(_wrapped(line), flush=True)


def _wrapped(line: str, indent: int = 0) -> str:
    """Wrap a line at blanks to the width of the terminal, with ``indent`` blanks on later lines."""
    return textwrap.fill(
        line,
        _console().width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def print_fields(fields: Mapping[str, str]) -> None:
    """Print names and values in two columns, with long values wrapped within their column."""
    place = max(map(len, fields), default=0) + GAP
    for name, value in fields.items():
        line = name.ljust(place) + printable(value)
        # A value without blanks, such as a digest, cannot be wrapped.
        print(_wrapped(line, place) if " " in value else line)


def print_table(table: Table) -> None:
    """Print the most important columns of a table, as many as fit, then the names of the others.

    Headings and cells of text are wrapped at blanks. Words and numbers are never broken.
    """
    if table.title:
        say(table.title)
    text = table.text_columns
    rows = [[printable(cell) for cell in row] for row in table.rows]
    columns = {name: cells for name, *cells in zip(table.columns, *rows, strict=True)}
    least = {name: _least_width(name, it, name in text) for name, it in columns.items()}
    console = _console()
    names = [name for name in dict.fromkeys([*table.main_columns, *columns]) if name in columns]
    while len(names) > 1 and sum(least[name] + GAP for name in names) - GAP > console.width:
        names.pop()
    shown = [name for name in columns if name in names]
    spare = console.width - sum(least[name] + GAP for name in shown) + GAP
    grid = Grid.grid(padding=(0, GAP, 0, 0))
    for name in shown:
        missing = max(map(cell_len, [name, *columns[name]])) - least[name]
        width = least[name] + min(spare, missing)
        spare -= min(spare, missing)
        grid.add_column(justify="left" if name in text else "right", width=width)
    # Cells are `Text` objects, because rich would read text such as "uniform[seed=1]" as markup.
    grid.add_row(*map(Text, shown))
    grid.add_row(*(Rule(characters="-", style="") for _ in shown))
    for row in zip(*(columns[name] for name in shown), strict=True):
        grid.add_row(*map(Text, row))
    with console.capture() as capture:
        console.print(grid)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
    if left_out := [name for name in columns if name not in names]:
        say(f"left out: {'; '.join(left_out)}")


def _least_width(name: str, cells: Sequence[str], is_text: bool) -> int:
    """Return the least width of a column, in characters, if its text is wrapped at blanks."""
    words = [cell_len(word) for text in (name, *cells) for word in text.split()]
    longest = max(map(cell_len, [name, *cells] if is_text else cells), default=0)
    return max([min(LEAST_WIDTH, longest) if is_text else longest, *words])
