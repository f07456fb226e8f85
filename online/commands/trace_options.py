"""Options of command lines that take windows of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

import instances
from instances import FileFormatError, Instance, InvalidValueError, MemoryRule, Workload
from instances.problem.memory_rule import TOKENS
from instances.settings import parse_texts
from instances.traces import FORMATS
from instances.traces.bad_rows import OnBadRows
from instances.traces.window import workload_windows

from .console import fail

PANEL = "With --trace"

COLUMN_HELP = (
    "What a column of any other CSV or JSON file holds: arrival (seconds or dates; "
    "or arrival_ms, arrival_us, arrival_ns), prompt, output; also latency, "
    "time_to_first_token, inter_token_time (or with _ms) and error; repeatable."
)
BAD_ROWS_HELP = (
    "Rows that cannot be read, such as those with an empty cell: refuse the file, or skip and "
    "count them."
)

MemoryLimit = Annotated[
    int | None, typer.Option(help="M, in scaled tokens.", rich_help_panel=PANEL)
]
TraceFormat = Annotated[
    str | None,
    typer.Option(
        help=f"{', '.join(FORMATS)}; default: told from the content.",
        rich_help_panel=PANEL,
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ROLE=NAME",
        help=COLUMN_HELP,
        rich_help_panel=PANEL,
    ),
]
BadRows = Annotated[
    OnBadRows | None,
    typer.Option(help=f"{BAD_ROWS_HELP} Default: refuse.", rich_help_panel=PANEL),
]
Sort = Annotated[
    bool,
    typer.Option(
        "--sort",
        help="Put the rows in order of arrival first; default: for logs and --column, not traces.",
        rich_help_panel=PANEL,
    ),
]
RoundSeconds = Annotated[
    float | None, typer.Option(help="Seconds a round lasts; default: 0.05.", rich_help_panel=PANEL)
]
TokenScale = Annotated[
    int | None, typer.Option(help="Tokens to a scaled token; default: 1.", rich_help_panel=PANEL)
]
StartSeconds = Annotated[
    float | None, typer.Option(help="Where the window starts; default: 0.", rich_help_panel=PANEL)
]
DurationSeconds = Annotated[
    float | None, typer.Option(help="How long it is; default: to the end.", rich_help_panel=PANEL)
]
MaxRequests = Annotated[int | None, typer.Option(help="Rows taken at most.", rich_help_panel=PANEL)]
TooLong = Annotated[
    str | None,
    typer.Option(help="A request above M: drop (default) or clip.", rich_help_panel=PANEL),
]
Windows = Annotated[
    int | None,
    typer.Option(
        min=1, help="Consecutive windows of --duration-seconds; default: 1.", rich_help_panel=PANEL
    ),
]


MEMORY_PANEL = "How memory is counted"

BlockSize = Annotated[
    int,
    typer.Option(min=1, help="Tokens of a block; default: 1.", rich_help_panel=MEMORY_PANEL),
]
EmittedToken = Annotated[
    str,
    typer.Option(
        metavar="now|next",
        help="A token is stored in the round that emits it (default), or in the next.",
        rich_help_panel=MEMORY_PANEL,
    ),
]
PromptAllocation = Annotated[
    str,
    typer.Option(
        metavar="whole|chunks",
        help="A prompt in chunks holds all of itself (default), or what is processed of it.",
        rich_help_panel=MEMORY_PANEL,
    ),
]


LOGS = (".csv", ".jsonl", ".gz")


def load_instance(path: Path) -> Instance:
    """An instance from its file, or of the library by its name where there is no such file.

    Raises
    ------
    OSError, FileFormatError, InvalidValueError, InvalidTypeError
        It cannot be read; of what looks like a trace or log the message says where that goes.
    """
    name = str(path)
    if not path.exists() and name in instances.library():
        found = instances.library(name).instance
        if not isinstance(found, Instance):
            raise InvalidValueError(None, "instance", name, "is in seconds, and has no rounds")
        return found
    try:
        return instances.load(path)
    except FileFormatError:
        if path.suffix.lower() in LOGS:
            reason = "is no instance: a trace or log goes with --trace, of generate or ratios"
            raise FileFormatError(path, reason) from None
        raise


def under_rule(problem: Any, rule: MemoryRule) -> Any:
    """The problem by another memory rule; as it is where the rule is that of tokens."""
    if rule == TOKENS:
        return problem
    if not isinstance(problem, Instance | Workload):
        fail(f"{problem.name} answers to a policy, and counts memory in tokens")
    return problem.under(rule)


def window_options(
    trace: Path | None, *, in_seconds: bool = False, **options: Any
) -> dict[str, Any]:
    """The options that were given, checked against each other."""
    given = {key: value for key, value in options.items() if value is not None}
    if given and trace is None:
        fail(f"--{min(given).replace('_', '-')} goes with --trace")
    for name in ("round_seconds", "token_scale"):
        if in_seconds and name in given:
            fail(f"--{name.replace('_', '-')} goes without --batch-time")
    if trace is not None and "memory_limit" not in given:
        fail("--trace needs --memory-limit, in scaled tokens")
    if given.get("windows", 1) > 1 and "duration_seconds" not in given:
        fail("--windows needs --duration-seconds")
    if "trace_format" in given:
        given["format"] = given.pop("trace_format")
    if "column" in given:
        given["columns"] = parse_texts(given.pop("column"), "--column")
    return given


def rounding_notes(problems: Iterable[Any]) -> list[str]:
    """What was rounded in which instances, each line once."""
    found = (instances.rounding_note(getattr(one, "metadata", {})) for one in problems)
    return [note for note in dict.fromkeys(found) if note]


def read_windows(
    trace: Path,
    options: dict[str, Any],
    memory_rule: MemoryRule = TOKENS,
    *,
    in_seconds: bool = False,
) -> tuple[list[Any], list[str]]:
    """Consecutive windows, as instances or workloads, and what became of the rows of each."""
    windows: Callable[..., Iterable[Any]] = (
        workload_windows if in_seconds else instances.trace_windows
    )
    read = list(windows(trace, memory_rule=memory_rule, **options))
    notes = [f"{drawn.name}: {report}" if len(read) > 1 else str(report) for drawn, report in read]
    return [drawn for drawn, _ in read], notes
