"""Telling what a file is from how it begins, and taking its rows out of it, in one pass.

A table has a header line; JSON is objects that are lines or items of one list, or a document with
the requests somewhere inside; YAML is a document too. No more of it is held than a row, or, for a
benchmark's run, whose requests are spread over lists, their numbers.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import chain, islice
from typing import IO, Any, NamedTuple

from instances.errors import FileFormatError
from instances.files import LONGEST_LINE, DuplicateKeyError, bounded_lines, unique_keys

from .advice import all_paths, listed, refuse_text_without_requests, refuse_totals, refuse_unknown
from .benchmark_run import SUMMARY, BenchmarkRun
from .detection import detect_format, fits, with_worker
from .formats import FORMATS
from .row import FAILED, BadRow, Cells
from .streams import FIRST_YAML_LINE, LONGEST_ITEM, JsonStream, YamlStream
from .trace_format import ABSENT, PHASES, TraceFormat, lookup

DELIMITERS = (",", ";", "\t", "|")
"""Tried in turn, until the columns named by the user are all there."""

MOST_TRIED = 100
"""Records that are looked at to tell the format: the first requests may have failed."""

DOCUMENTS = {one.marks[0]: one for one in FORMATS.values() if one.requests is not None}
"""Formats by the key below which their requests are."""

VLLM_BENCH, SGLANG_BENCH = FORMATS["vllm-bench"], FORMATS["sglang-bench"]

RUN_KEYS = {"input_lens", "output_lens"}
DOCUMENT_KEYS = {*DOCUMENTS, *RUN_KEYS, SUMMARY}

LONGEST_ROW = 2**20
"""Characters of a row of a table whose cells have line breaks."""


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
    stream: IO[str],
    path: object,
    wanted: TraceFormat | None,
    worker: str | None = None,
    run: int | None = None,
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
    run : int or None, default None
        Which of several runs is read, the first being 1; None refuses several.

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
    if wanted is None and start != "{":
        refuse_text_without_requests(path, head)
    is_yaml = FIRST_YAML_LINE.match(head) is not None
    if wanted is not None and wanted.records and (is_yaml or start in ("{", "[")):
        whole: JsonStream = YamlStream(stream, path, head) if is_yaml else json_stream
        path_inside = [step for one in wanted.records for step in _steps_of(one)] + [[]]
        outer = json_stream.items() if start == "[" else whole.documents()
        steps = (None for _ in outer for _ in whole.inside(*path_inside))
        return _open_records(_values(whole, steps), path, wanted, worker)
    if start == "[":
        records = _values(json_stream, json_stream.items())
        return _open_records(records, path, wanted, worker, run)
    is_whole = _is_whole(head) and head.rstrip()[-1:] not in ("{", "[", ",", ":")
    if start == "{" and not is_whole and container != "document" and wanted is not None:
        return _open_records(_values(json_stream, json_stream.documents()), path, wanted, worker)
    first: dict[str, Any] = {}
    if start == "{" and is_whole:
        # A broken line is judged with the other rows.
        with suppress(FileFormatError):
            first = _parsed(head, path, skipped + 1)
    is_document = start == "{" and (not is_whole or bool(DOCUMENT_KEYS & set(first)))
    looks_so = wanted is None and (is_document or (is_yaml and "," not in head))
    if looks_so or container == "document":
        document = YamlStream(stream, path, head) if is_yaml else json_stream
        return _open_document(document, path, wanted, worker, run)
    if start == "{" or container == "json":
        lines = chain([head], bounded_lines(stream, path, skipped + 1, LONGEST_ITEM))
        numbered = enumerate(lines, skipped + 1)
        filled = ((k, line) for k, line in numbered if line.strip())
        return _open_records(filled, path, wanted, worker)
    return _open_table(head, stream, path, wanted, worker, skipped)


def _steps_of(key: str) -> list[list[str]]:
    """Steps of `JsonStream.inside` to the items of a key that ends with ``[]``, or to its value."""
    return [[key.removesuffix("[]")], *[[]][: key.endswith("[]")]]


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
    lines = chain([head], bounded_lines(stream, path, skipped + 1))
    rows = _split_rows(enumerate(lines, skipped + 1), delimiter)
    _, first = next(rows)
    if isinstance(first, csv.Error):
        raise first
    columns = [one.strip() for one in first]
    if wanted is None:
        # Cells show which column holds what.
        tried = list(islice(rows, MOST_TRIED))
        rows = chain(tried, rows)
        cells = [dict.fromkeys(columns)]
        split = [one for _, one in tried if isinstance(one, list)]
        cells += [dict(zip(columns, one, strict=False)) for one in split]
    kind = with_worker(wanted or detect_format(path, "csv", cells), worker)
    there = _columns_there(kind, [dict.fromkeys(columns)], path)
    for name in kind.read:
        if columns.count(name) > 1:
            raise FileFormatError(path, f"column {name!r} is there twice")
    return Opened(kind, _table_cells(rows, kind, columns), there, kind.note)


Rows = Iterator[tuple[int, list[str] | csv.Error]]
"""Rows of a table, split into cells, or why that cannot be done, with their line numbers."""


def _split_rows(lines: Iterator[tuple[int, str]], delimiter: str) -> Rows:
    """Split lines into cells; a quoted cell may go on in the lines after it.

    A quote that is not closed within `LONGEST_ROW` characters is wrong in its own line only.
    """
    waiting: list[tuple[int, str]] = []
    while True:
        number, line = waiting.pop(0) if waiting else next(lines, (0, ""))
        if not number:
            return
        try:
            yield number, _split(line, delimiter)
        except csv.Error as error:
            later: list[tuple[int, str]] = []
            row, ahead = line, chain(waiting, lines)
            found: list[str] | csv.Error = error
            while isinstance(found, csv.Error) and row.count('"') % 2 and len(row) < LONGEST_ROW:
                following = next(ahead, None)
                if following is None:
                    break
                later.append(following)
                row += following[1]
                with suppress(csv.Error):
                    found = _split(row, delimiter)
            if isinstance(found, csv.Error):
                waiting = [*later, *waiting[len(later) :]]
            else:
                waiting = waiting[len(later) :]
            yield number, found


def _split(line: str, delimiter: str) -> list[str]:
    """The cells of a row, whose quotes are all closed."""
    if '"' in line:
        return next(csv.reader((line,), strict=True, delimiter=delimiter))
    text = line.rstrip("\r\n")
    return text.split(delimiter) if text else []


def _delimiter(header: str, wanted: TraceFormat | None) -> str:
    """A comma, unless another one gives the columns the user has named, or none are and it more."""
    cells = {one: next(csv.reader([header], delimiter=one), []) for one in DELIMITERS}
    if wanted is not None and wanted.container is None:
        names = {*wanted.required}
        return next(
            (one for one in DELIMITERS if names <= {*map(str.strip, cells[one])}), DELIMITERS[0]
        )
    return max(DELIMITERS, key=lambda one: len(cells[one])) if wanted is None else DELIMITERS[0]


def _table_cells(
    rows: Rows, kind: TraceFormat, columns: list[str]
) -> Iterator[tuple[int, Cells | BadRow]]:
    is_plain = kind.has_failed is None and kind.measured is None and kind.worker is None
    is_plain &= not {*PHASES} & {*columns}
    names = (kind.time or kind.prompt, kind.prompt, kind.output)
    time, prompt, output = (columns.index(name) if name in columns else 0 for name in names)
    width = len(columns)
    for number, found in rows:
        if isinstance(found, csv.Error):
            yield number, BadRow("a quote in it is wrong", f"has a quote that is wrong: {found}")
            continue
        cells: list[Any] = found
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
    records: Records,
    path: object,
    wanted: TraceFormat | None,
    worker: str | None,
    run: int | None = None,
) -> Opened:
    tried: list[tuple[int, Any]] = []
    found: list[dict[str, Any]] = []
    broken: FileFormatError | None = None
    for number, raw in islice(records, MOST_TRIED):
        tried.append((number, raw))
        try:
            found.append(_parsed(raw, path, number))
        except FileFormatError as error:
            # It is judged with the other rows, if there is a row that tells what they are.
            broken = broken or error
            continue
        if wanted is not None and fits(wanted, found[-1]):
            break
    if not found and broken is not None:
        raise broken
    if found and found[0].keys() >= RUN_KEYS and wanted in (None, VLLM_BENCH, SGLANG_BENCH):
        runs = [raw for _, raw in chain(tried, records)]
        chosen = json.dumps(runs[_run_among(path, len(runs), run) - 1])
        return _open_document(JsonStream(io.StringIO(chosen), path), path, wanted, worker)
    kind = with_worker(wanted or detect_format(path, "json", found), worker)
    there = _columns_there(kind, found, path)
    return Opened(kind, _record_cells(chain(tried, records), kind, path), there, kind.note)


def _run_among(path: object, count: int, run: int | None) -> int:
    """Return the number of the run that is read; refuse several without one that is chosen."""
    if run is None and count > 1:
        reason = f"holds {count} runs, each with a clock of its own: say which with run=1"
        reason += f" to run={count} (in a command FILE(run=1), in Python columns={{'run': 1}})"
        raise FileFormatError(path, reason)
    if run is not None and run > count:
        raise FileFormatError(path, f"run={run} is not in the file, which holds {count} runs")
    return run or 1


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


def _columns_there(kind: TraceFormat, records: Sequence[dict[str, Any]], path: object) -> bool:
    """Refuse a file without what its format needs; whether it has arrival times."""

    def is_there(*names: str) -> bool:
        return any(lookup(one, *names, missing=ABSENT) is not ABSENT for one in records)

    for column in kind.required:
        if not is_there(*column.split("|")):
            why = f"column {column!r} is missing"
            if kind.container is None:
                raise FileFormatError(path, f"{why} (found: {listed(all_paths(records))})")
            refuse_unknown(path, records, why)
    return kind.time is not None and (kind.is_log or is_there(kind.time))


# --- requests inside a document -----------------------------------------------------------------


def _open_document(
    stream: JsonStream,
    path: object,
    wanted: TraceFormat | None,
    worker: str | None,
    run: int | None = None,
) -> Opened:
    for before in range(1, run or 1):
        stream.skip()
        if not stream.opening():
            _run_among(path, before, run)
    found = BenchmarkRun(path)
    members = stream.members()
    for key in members:
        kind = DOCUMENTS.get(key)
        if kind is not None and wanted in (None, kind):
            kind = with_worker(kind, worker)
            rows = enumerate(_requests(stream, chain([key], members), kind), 1)
            among = rows if kind.among is None else kind.among(rows)
            return Opened(kind, _record_cells(among, kind, path), True)
        found.take(key, stream)
    if wanted in (None, VLLM_BENCH, SGLANG_BENCH) and found.has_requests:
        if run is None and stream.opening():
            count = 1
            while stream.opening():
                stream.skip()
                count += 1
            _run_among(path, count, run)
        return _open_run(found, path, wanted)
    if wanted is not None:
        refuse_totals(path, found.seen)
        missing = ", ".join(wanted.required)
        raise FileFormatError(path, f"has no {missing} (found: {listed(found.seen)})")
    detect_format(path, "json", [found.seen])
    raise FileFormatError(path, f"is one object ({listed(found.seen)}) and none of requests")


def _requests(stream: JsonStream, members: Iterator[str], kind: TraceFormat) -> Iterator[Any]:
    """The requests of the document whose members these are, and of those that follow."""
    for following in chain([members], (stream.members() for _ in stream.documents())):
        for key in following:
            if key == kind.marks[0] and kind.requests is not None:
                yield from kind.requests(stream)
            else:
                stream.skip()


def _open_run(run: BenchmarkRun, path: object, wanted: TraceFormat | None) -> Opened:
    run.check()
    kind = VLLM_BENCH if run.has_start_times else SGLANG_BENCH
    if wanted is VLLM_BENCH and not run.has_start_times:
        raise FileFormatError(path, "has no start_times; sglang-bench reads it without")
    note = None
    if not run.has_start_times and run.rate is not None:
        note = f"no start times: arrivals even at the run's {run.rate:g} requests a second"
    has_times = run.has_start_times or run.rate is not None
    return Opened(kind, run.cells(), has_times, note, run.is_cut, run.settings)
