"""Telling what a file is from how it begins, and taking its rows out of it, in one pass.

A table has a header line; JSON is objects that are lines or items of one list, or a document with
the requests somewhere inside; YAML is a document too. No more of it is held than a row, or, for a
benchmark's run, whose requests are spread over lists, their numbers.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from itertools import chain, islice
from typing import IO, Any, NamedTuple

from instances.errors import FileFormatError
from instances.files import LONGEST_LINE, DuplicateKeyError, bounded_lines, unique_keys

from .benchmark_run import SUMMARY, BenchmarkRun
from .detection import MAP_COLUMNS, detect_format, fits, fitting, listed, with_worker
from .formats import FORMATS
from .row import FAILED, BadRow, Cells
from .streams import FIRST_YAML_LINE, LONGEST_ITEM, Document, JsonStream, YamlStream
from .trace_format import ABSENT, TraceFormat, lookup

DELIMITERS = (",", ";", "\t", "|")
"""Tried in turn, until the columns named by the user are all there."""

MOST_TRIED = 100
"""Records that are looked at to tell the format: the first requests may have failed."""

DOCUMENTS = {one.marks[0]: one for one in FORMATS.values() if one.requests is not None}
"""Formats by the key below which their requests are."""

VLLM_BENCH, SGLANG_BENCH = FORMATS["vllm-bench"], FORMATS["sglang-bench"]

DOCUMENT_KEYS = {*DOCUMENTS, "input_lens", "output_lens", SUMMARY}

NO_REQUESTS = (
    "holds a benchmark's totals and none of its requests: run it with --save-detailed (vLLM) or "
    "--output-details (SGLang)"
)


class Opened(NamedTuple):
    """An opened file: the format it is read in, and its rows still to be read.

    Attributes
    ----------
    format : TraceFormat
        What it is read as.
    cells : Iterator[tuple[int, Cells | BadRow]]
        Its rows with their numbers, and why a row cannot be taken apart.
    has_arrival_times : bool
        Whether they have times.
    note : str or None
        What had to be assumed.
    is_cut : bool
        Whether some times between tokens were too many to be held.
    settings : Mapping[str, Any]
        Settings of the engine that the file states, by the engine's names.
    """

    format: TraceFormat
    cells: Iterator[tuple[int, Cells | BadRow]]
    has_arrival_times: bool
    note: str | None = None
    is_cut: bool = False
    settings: Mapping[str, Any] = {}


def open_rows(
    stream: IO[str], path: object, wanted: TraceFormat | None, worker: str | None = None
) -> Opened:
    """Tell what a text is, and stand before its first row.

    Parameters
    ----------
    stream : IO[str]
        The text, from its beginning.
    path : object
        What errors call the file.
    wanted : TraceFormat or None
        What the user says that it is.
    worker : str or None, default None
        The column that names the replica, where the user says so; None leaves it to the format.

    Raises
    ------
    FileFormatError
        The file is empty, no format fits, or a column is missing.
    """
    head, skipped = _first_line(stream, path)
    if not head:
        raise FileFormatError(path, "is empty")
    container = wanted.container if wanted else None
    if container == "csv":
        return _open_table(head, stream, path, wanted, worker, skipped)
    start = head.lstrip()[:1]
    json_stream = JsonStream(stream, path, head)
    if start == "[":
        return _open_records(_values(json_stream, json_stream.items()), path, wanted, worker)
    is_whole = _is_whole(head) and head.rstrip()[-1:] not in ("{", "[", ",", ":")
    if start == "{" and not is_whole and container != "document" and wanted is not None:
        return _open_records(_values(json_stream, json_stream.documents()), path, wanted, worker)
    first: dict[str, Any] = {}
    if start == "{" and is_whole:
        # A broken line is judged with the other rows.
        with suppress(FileFormatError):
            first = _parsed(head, path, skipped + 1)
    is_document = start == "{" and (not is_whole or bool(DOCUMENT_KEYS & set(first)))
    is_yaml = FIRST_YAML_LINE.match(head) is not None
    looks_so = wanted is None and (is_document or (is_yaml and "," not in head))
    if looks_so or container == "document":
        document = YamlStream(stream, path, head) if is_yaml else json_stream
        return _open_document(document, path, wanted, worker)
    if start == "{" or container == "json":
        lines = chain([head], bounded_lines(stream, path, skipped + 1, LONGEST_ITEM))
        numbered = enumerate(lines, skipped + 1)
        filled = ((k, line) for k, line in numbered if line.strip())
        return _open_records(filled, path, wanted, worker)
    return _open_table(head, stream, path, wanted, worker, skipped)


def _first_line(stream: IO[str], path: object) -> tuple[str, int]:
    """The first line that is not blank, or its beginning, and how many blank ones came before."""
    skipped = 0
    while line := stream.readline(LONGEST_LINE):
        is_cut = len(line) == LONGEST_LINE and line[-1] not in "\r\n"
        start = line.lstrip()[:1]
        if is_cut and start not in ("{", "["):
            reason = f"is longer than {LONGEST_LINE} characters"
            raise FileFormatError(path, reason, row=skipped + 1)
        if is_cut and start == "{" and not _is_document(line, path):
            # A record may hold a long prompt.
            line += stream.readline(LONGEST_ITEM - LONGEST_LINE)
        if start:
            return line, skipped
        skipped += 1
    return "", skipped


def _is_whole(line: str) -> bool:
    return line[-1:] in ("\r", "\n") or len(line) not in (LONGEST_LINE, LONGEST_ITEM)


def _is_document(text: str, path: object) -> bool:
    """Tell whether the beginning of an object has a key below which requests are."""
    stream = JsonStream(io.StringIO(), path, text)
    with suppress(FileFormatError):
        for key in stream.members():
            if key in DOCUMENT_KEYS:
                return True
            stream.skip()
    return False


# --- tables -------------------------------------------------------------------------------------


def _open_table(
    head: str,
    stream: IO[str],
    path: object,
    wanted: TraceFormat | None,
    worker: str | None,
    skipped: int,
) -> Opened:
    delimiter = _delimiter(head, wanted)
    columns = _split(head, delimiter)
    kind = with_worker(wanted or detect_format(path, "csv", dict.fromkeys(columns)), worker)
    there = _columns_there(kind, dict.fromkeys(columns), columns, path)
    for name in kind.read:
        if columns.count(name) > 1:
            raise FileFormatError(path, f"column {name!r} is there twice")
    lines = enumerate(bounded_lines(stream, path, skipped + 1), skipped + 2)
    return Opened(kind, _table_cells(lines, kind, columns, delimiter), there)


def _split(line: str, delimiter: str) -> list[str]:
    """The cells of a line; a quote that is not closed in it would swallow the lines after it."""
    if '"' in line:
        return next(csv.reader((line,), strict=True, delimiter=delimiter))
    text = line.rstrip("\r\n")
    return text.split(delimiter) if text else []


def _delimiter(header: str, wanted: TraceFormat | None) -> str:
    """A comma, unless only another one gives the columns the user has named."""
    if wanted is not None and wanted.container is None:
        for delimiter in DELIMITERS:
            if set(wanted.required) <= set(next(csv.reader([header], delimiter=delimiter), [])):
                return delimiter
    return DELIMITERS[0]


def _table_cells(
    lines: Iterable[tuple[int, str]], kind: TraceFormat, columns: list[str], delimiter: str
) -> Iterator[tuple[int, Cells | BadRow]]:
    is_plain = kind.has_failed is None and kind.measured is None and kind.worker is None
    names = (kind.time or kind.prompt, kind.prompt, kind.output)
    time, prompt, output = (columns.index(name) if name in columns else 0 for name in names)
    width = len(columns)
    for number, line in lines:
        try:
            cells: list[Any] = _split(line, delimiter)
        except csv.Error as error:
            yield number, BadRow("a quote in it is wrong", f"has a quote that is wrong: {error}")
            continue
        if len(cells) != width:
            if not cells:
                continue
            if len(cells) > width:
                reason = "has more cells than the header"
                yield number, BadRow(f"the row {reason}", reason)
                continue
            cells = [*cells, *[None] * (width - len(cells))]
        if is_plain:
            yield number, Cells(cells[time], cells[prompt], cells[output])
            continue
        yield number, kind.cells(dict(zip(columns, cells, strict=True))) or FAILED


# --- objects that are lines, or items of a list -------------------------------------------------

Records = Iterator[tuple[int, Any]]
"""Objects with their numbers; lines of text are parsed when it is known how."""


def _values(stream: JsonStream, steps: Iterator[None]) -> Records:
    for number, _ in enumerate(steps, 1):
        yield number, stream.value()
    if stream.opening():
        stream.refuse("goes on after its list")


def _open_records(
    records: Records, path: object, wanted: TraceFormat | None, worker: str | None
) -> Opened:
    tried: list[tuple[int, Any]] = []
    kind, first, fitted = wanted, None, None
    broken: FileFormatError | None = None
    for number, raw in islice(records, MOST_TRIED):
        tried.append((number, raw))
        try:
            record = _parsed(raw, path, number)
        except FileFormatError as error:
            # It is judged with the other rows, if there is a row that tells what they are.
            broken = broken or error
            continue
        first = record if first is None else first
        found = fitting("json", record) if wanted is None else [wanted] * fits(wanted, record)
        if len(found) == 1:
            kind, fitted = found[0], record
            break
    if first is None and broken is not None:
        raise broken
    first = first or {}
    kind = with_worker(kind or detect_format(path, "json", first), worker)
    there = _columns_there(kind, fitted or first, first, path)
    return Opened(kind, _record_cells(chain(tried, records), kind, path), there)


def _record_cells(
    records: Iterable[tuple[int, Any]], kind: TraceFormat, path: object
) -> Iterator[tuple[int, Cells | BadRow]]:
    for number, raw in records:
        cells: Cells | BadRow | None = FAILED
        if raw is not None:
            try:
                cells = kind.cells(_parsed(raw, path, number, exact=not kind.is_log))
            except FileFormatError as error:
                cells = BadRow("the row is not a JSON object", error.reason)
        if cells is not None:
            yield number, cells


def _parsed(raw: Any, path: object, number: int, *, exact: bool = False) -> dict[str, Any]:
    """The object that a line holds; numbers with a fraction keep all their digits if ``exact``."""
    row = raw
    if isinstance(raw, str):
        options: dict[str, Any] = {"object_pairs_hook": unique_keys}
        if exact:
            options |= {"parse_float": Decimal, "parse_constant": Decimal}
        try:
            row = json.loads(raw, **options)
        except DuplicateKeyError as error:
            raise FileFormatError(path, str(error), row=number) from None
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise FileFormatError(path, f"is not JSON: {error}", row=number) from None
    if not isinstance(row, dict):
        raise FileFormatError(path, "is not a JSON object", row=number)
    return row


def _columns_there(
    kind: TraceFormat,
    first: dict[str, Any],
    columns: Iterable[str],
    path: object,
) -> bool:
    """Refuse a file without what its format needs; whether it has arrival times."""
    for column in kind.required:
        if lookup(first, *column.split("|"), missing=ABSENT) is ABSENT:
            way_out = "" if kind.container is None else f"; {MAP_COLUMNS}"
            raise FileFormatError(
                path, f"column {column!r} is missing (found: {listed(list(columns))}){way_out}"
            )
    time = kind.time
    return time is not None and (kind.is_log or lookup(first, time, missing=ABSENT) is not ABSENT)


# --- requests inside a document -----------------------------------------------------------------


def _open_document(
    stream: Document, path: object, wanted: TraceFormat | None, worker: str | None
) -> Opened:
    run = BenchmarkRun(path)
    members = stream.members()
    for key in members:
        kind = DOCUMENTS.get(key)
        if kind is not None and wanted in (None, kind):
            kind = with_worker(kind, worker)
            rows = enumerate(_requests(stream, chain([key], members), kind), 1)
            return Opened(kind, _record_cells(rows, kind, path), True)
        run.take(key, stream)
    if wanted in (None, VLLM_BENCH, SGLANG_BENCH):
        if run.has_requests:
            return _open_run(run, stream, path, wanted)
        if SUMMARY in run.seen:
            raise FileFormatError(path, NO_REQUESTS)
    if wanted is not None:
        missing = ", ".join(wanted.required)
        raise FileFormatError(path, f"has no {missing} (found: {listed(run.seen)})")
    detect_format(path, "json", run.seen)
    raise FileFormatError(path, f"is one object ({listed(run.seen)}) and none of requests")


def _requests(stream: Document, members: Iterator[str], kind: TraceFormat) -> Iterator[Any]:
    """The requests of the document whose members these are, and of those that follow."""
    for following in chain([members], (stream.members() for _ in stream.documents())):
        for key in following:
            if key == kind.marks[0] and kind.requests is not None:
                yield from kind.requests(stream)
            else:
                stream.skip()


def _open_run(
    run: BenchmarkRun, stream: Document, path: object, wanted: TraceFormat | None
) -> Opened:
    if stream.opening():
        raise FileFormatError(
            path,
            "holds several runs, each with a clock of its own: give one of them, as sed -n 2p does",
        )
    run.check()
    kind = VLLM_BENCH if run.has_start_times else SGLANG_BENCH
    if wanted is VLLM_BENCH and not run.has_start_times:
        raise FileFormatError(path, "has no start_times; sglang-bench reads it without")
    note = None
    if not run.has_start_times and run.rate is not None:
        note = f"no start times: arrivals even at the run's {run.rate:g} requests a second"
    has_times = run.has_start_times or run.rate is not None
    return Opened(kind, run.cells(), has_times, note, run.is_cut, run.settings)
