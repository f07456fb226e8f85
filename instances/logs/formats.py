"""Formats of traces and logs: what ``formats.toml`` says of each, and columns named by the user."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from instances.errors import InvalidTypeError, InvalidValueError, UnknownNameError, shown
from instances.validation import as_integer

from .cells import DATES, DIGITS_OF, MILLISECONDS, SECONDS, Clock, as_count, as_durations
from .paths import ABSENT, inside, lookup, name_words, named_unit, path_of

LONGEST_ATTRIBUTE = 256
"""Characters of an attribute of a span that is held: some have whole prompts."""

OUTER_SPAN = "counted by another span"

NO_ERROR = (
    *("", "0", "0.0", "false", "none", "null", "nan", "[]", "{}", "ok", "success", "successful"),
    *("succeeded", "complete", "completed", "done", "finished", "stop", "length", "tool_calls"),
)
"""Cells of a column of errors that mean that there was none; so do statuses of HTTP below 400."""

NO_SUCCESS = ("", "0", "0.0", "false", "none", "null", "nan", "no", "failed", "failure", "error")
"""Cells of a column of successes that mean that a request failed."""

ARRIVALS = {
    "arrival": None,
    "arrival_ms": MILLISECONDS,
    "arrival_us": "microseconds",
    "arrival_ns": "nanoseconds",
    "arrival_s": SECONDS,
    "arrival_date": DATES,
}
"""Units by the role of a column of arrivals; None is told by its name and its cells."""

DURATIONS = ("latency", "time_to_first_token", "inter_token_time")
"""Roles of columns in seconds or in the unit that their name has, or with ``_ms`` at their end."""

STAMPS = {"end": "latency", "first_token": "time_to_first_token"}
"""Roles of columns with a time of day, and the duration that ends then."""

_DURATIONS = [f"{name}{unit}" for name in DURATIONS for unit in ("", "_ms")]
ROLES = (
    *([*ARRIVALS][:4]),
    *("prompt", "output", *_DURATIONS, *STAMPS, "error", "worker", "requests", "run"),
)
"""What the user can say of columns."""

Row = dict[str, Any] | str | None
"""A record whose columns are read, the reason why it is left out, or None where it failed."""


class Format(NamedTuple):
    """Description of what a tool or a dataset writes where, as ``formats.toml`` explains it.

    Attributes
    ----------
    name : str
        What ``format=`` calls it.
    columns : Mapping[str, tuple[str, ...]]
        Columns by what they hold, looked up in turn.
    unit : str or None
        Unit of ``arrival``, as in `Clock`.
    seconds : Mapping[str, float]
        Seconds in the unit of a duration.
    marks : tuple[str, ...]
        Columns by which a tool's log is told; a dataset is told by those that are read.
    document, optional_arrival, block_size, settings : bool, bool, int or str, tuple[str, ...]
        As in the table.
    rows : Callable[[dict[str, Any]], Iterable[Row]] or None
        From a record to its requests.
    note : str or None
        What was assumed of the columns.
    """

    name: str
    columns: Mapping[str, tuple[str, ...]]
    unit: str | None
    seconds: Mapping[str, float]
    marks: tuple[str, ...] = ()
    document: bool = False
    optional_arrival: bool = False
    block_size: int | str = 0
    settings: tuple[str, ...] = ()
    rows: Callable[[dict[str, Any]], Iterable[Row]] | None = None
    note: str | None = None

    def name_of(self, role: str) -> str:
        """The column of a role, as errors call it."""
        return next(iter(self.columns.get(role, ())), role)

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that no file of this format is without."""
        optional = {"hashes", *["arrival"] * self.optional_arrival}
        return self.marks or tuple(
            name for role, names in self.columns.items() if role not in optional for name in names
        )

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record has every column that this format requires."""
        return not any(self.lacks(mark, [record]) for mark in self.required)

    def lacks(self, mark: str, records: Iterable[Mapping[str, Any]]) -> bool:
        """Tell whether none of the records has a column, or one has what must not be there."""
        names = mark.removeprefix("-").split("|")
        is_there = any(lookup(one, *names, missing=ABSENT) is not ABSENT for one in records)
        return is_there == mark.startswith("-")

    def has_failed(self, row: dict[str, Any]) -> bool:
        """Tell whether a row says that its request failed, in a column of errors or successes."""
        return any(_is_error(lookup(row, one), one) for one in self.columns.get("error", ()))

    def clock(self) -> Clock:
        """Return a clock that reads the arrivals of one file."""
        return Clock(self.unit, named_unit(self.name_of("arrival")) or SECONDS)


def _is_error(cell: Any, column: str) -> bool:
    value = str(cell).strip().lower()
    if {*name_words(column)} & {"success", "successful", "succeeded", "ok"}:
        return value in NO_SUCCESS
    status = re.match(r"(\d{3})(\.0)?\b", value)
    return value not in NO_ERROR and not (status and 200 <= int(status[1]) < 400)


def made(name: str, roles: Mapping[str, Any], **more: Any) -> Format:
    """Make a format of columns by their roles."""
    columns: dict[str, tuple[str, ...]] = {}
    seconds: dict[str, float] = {}
    unit, notes = None, []
    for role, names in roles.items():
        own = "arrival" if role in ARRIVALS else role.removesuffix("_ms")
        columns[own] = (names,) if isinstance(names, str) else tuple(names)
        if role in ARRIVALS:
            unit = ARRIVALS[role]
        elif role in _DURATIONS:
            of_name = named_unit(columns[own][0]) if name == "columns" else None
            of_name = MILLISECONDS if role != own else of_name or SECONDS
            seconds[own] = float(10 ** -DIGITS_OF[of_name])
            if role == own and of_name != SECONDS:
                notes.append(f"{names!r} is in {of_name}, as its name says")
    return Format(name, columns, unit, seconds, note="; ".join(notes) or None, **more)


def wanted_format(format: Any, columns: Mapping[str, Any] | None) -> Format | None:  # noqa: A002
    """Choose the format that the caller asks for; None leaves it to the content of the file.

    Columns that name the worker or the run only do not make a format.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        No name of a format, columns that do not say what is read, or both are given.
    """
    chosen = None if columns is None else _chosen(columns)
    if chosen is not None and not {*chosen} <= {"worker"}:
        columns = chosen
    elif columns:
        columns = None
    if columns is not None and format is not None:
        raise InvalidValueError(None, "format", format, "and columns say two things: give one")
    if columns is not None:
        return _named(columns)
    if format is None:
        return None
    if not isinstance(format, str):
        raise InvalidTypeError(None, "format", format, "is not a string")
    if format not in FORMATS:
        raise UnknownNameError("trace format", format, sorted(FORMATS))
    return FORMATS[format]


def _chosen(columns: Any) -> dict[str, str]:
    """Check the roles of columns."""
    if not isinstance(columns, Mapping):
        raise InvalidTypeError(None, "columns", columns, "is not a mapping")
    chosen: dict[str, Any] = {str(role).replace("-", "_"): name for role, name in columns.items()}
    chosen.pop("run", None)
    kinds = set()
    for role, name in chosen.items():
        if role not in ROLES:
            raise UnknownNameError("column role", role, list(ROLES))
        if not isinstance(name, str):
            raise InvalidTypeError("columns", role, name, "is not the name of a column")
        kind = "arrivals" if role in ARRIVALS else role.removesuffix("_ms")
        kind = STAMPS.get(kind, kind)
        if kind in kinds:
            reason = f"names two columns of {kind.replace('_', ' ')}"
            raise InvalidValueError(None, "columns", dict(columns), reason)
        kinds.add(kind)
    return chosen


def _named(chosen: Mapping[str, str]) -> Format:
    """Make a format of columns that are named by the user."""
    for role in ("prompt", "output"):
        if role not in chosen:
            reason = f"does not say which column holds {role}s"
            raise InvalidValueError(None, "columns", dict(chosen), reason)
    for role in STAMPS:
        if role in chosen and not {*chosen} & {*ARRIVALS}:
            raise InvalidValueError("columns", role, chosen[role], "needs a column of arrivals")
    roles, more = dict(chosen), {}
    if "requests" in roles:
        more = {"rows": partial(inside, keys=path_of(roles.pop("requests"))), "document": True}
    return made("columns", roles, **more)


def run_of(columns: Mapping[str, Any] | None) -> int | None:
    """Return the number of the run that columns name, the first being 1; None where they do not.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Not such a number.
    """
    run: Any = None if columns is None else columns.get("run")
    if isinstance(run, str) and run.isdecimal() and len(run) < 10:
        run = int(run)
    return None if run is None else as_integer(run, "columns", "run", minimum=1)


# --- rows of records ----------------------------------------------------------------------------

_RUN_LISTS = (
    *("input_lens", "output_lens", "start_times"),
    *("ttfts", "itls", "latencies", "e2els", "errors"),
)


def _run(run: dict[str, Any]) -> Iterator[Row]:
    """Requests of a run of vLLM's or SGLang's benchmark: an object of lists, an entry a request.

    Both agree but for the start times, which SGLang does not write: its requests arrive at the
    run's rate, evenly, or all at once where that is unlimited.
    """
    lists = {key: run[key] for key in _RUN_LISTS if key in run}
    for key in _RUN_LISTS[:2]:
        if key not in lists:
            raise ValueError(f"has no {key}: every request needs its tokens, in and out")
    for key, entries in lists.items():
        if not isinstance(entries, list):
            raise ValueError(f"{key} {shown(entries)} is not a list")
        if len(entries) != len(lists["input_lens"]):
            count = len(lists["input_lens"])
            raise ValueError(f"{key} has {len(entries)} entries and input_lens {count}")
    rate = rate_of(run)
    for k, entries in enumerate(zip(*lists.values(), strict=True)):
        row = dict(zip(lists, entries, strict=True))
        yield None if row.get("errors") else {"arrival": rate and k / rate, **row}


def rate_of(run: Any) -> float | None:
    """Requests a second of a run of a benchmark, where they were sent at a rate."""
    rate = lookup(run, "request_rate")
    return float(rate) if type(rate) in (int, float) and 0 < rate < float("inf") else None


def _guidellm(document: dict[str, Any]) -> Iterator[Row]:
    """Requests below ``benchmarks``, whose clock is the same: only the successful have ended."""
    for requests in inside(document, ("benchmarks", "requests")):
        for outcome in requests if isinstance(requests, dict) else ():
            for one in inside(requests[outcome] or [], ()):
                yield one if outcome == "successful" else None


def _inference_perf(record: dict[str, Any]) -> Iterator[Row]:
    name = "info.response_metrics.output_token_times"
    stamps = lookup(record, name, "info.output_token_times") or []
    try:
        gaps = np.diff(as_durations(stamps))
    except ValueError as error:
        raise InvalidValueError(None, name, stamps, str(error)) from None
    if (gaps < 0).any():
        raise InvalidValueError(None, name, stamps, "goes back in time")
    yield {**record, name: gaps.tolist(), "first_token": stamps[0] if stamps else None}


def _trtllm(record: dict[str, Any]) -> Iterator[Row]:
    """Leave out times of -1, which were never taken."""
    stamps = ("first_token_timestamp", "start_timestamp", "end_timestamp")
    found = {key: value for key, value in record.items() if key not in stamps or value != -1}
    yield None if -1 in (record.get(stamps[1]), record.get(stamps[2])) else found


_VALUES = ("value.intValue", "value.doubleValue", "value.stringValue")
_SPAN = ("traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano")


def _attributes(record: Any) -> dict[str, Any]:
    listed = inside(record, ("attributes",))
    pairs = [(lookup(one, "key"), lookup(one, *_VALUES)) for one in listed]
    short = [(key, value) for key, value in pairs if len(str(value)) < LONGEST_ATTRIBUTE]
    return {key: value for key, value in short if isinstance(key, str)}


def _spans(document: dict[str, Any]) -> Iterator[Row]:
    """Spans with their attributes and those of their resource."""
    for resource in inside(document, ("resourceSpans",)):
        common = _attributes(lookup(resource, "resource"))
        for scopes in ("scopeSpans", "instrumentationLibrarySpans"):
            for span in inside(resource, (scopes, "spans")):
                if isinstance(span, dict):
                    own = {key: span[key] for key in _SPAN if key in span}
                    own["error"] = lookup(span, "status.code") in (2, "STATUS_CODE_ERROR")
                    span = {**common, **_attributes(span), **own}
                yield span


def innermost(spans: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield the spans that count tokens; of spans inside one another the innermost is a request.

    A client, its library and the engine each count the tokens of a request, and an agent counts
    those of all its calls; of spans that were sent twice the first is kept.
    """
    roles = FORMATS["otlp"].columns
    parents: dict[Any, Any] = {}
    counting: list[tuple[int, Any, Any]] = []
    for number, span in spans:
        place = None
        if isinstance(span, dict):
            trace, own, parent = (str(span.get(name) or "") for name in _SPAN[:3])
            # Without an identity a span is inside nothing.
            if own:
                place = trace, own
                parents[place] = (trace, parent) if parent != own else None
            if all(lookup(span, *roles[one]) is None for one in ("prompt", "output")):
                continue
        counting.append((number, place, span))
    outer = set()
    for _, place, span in counting:
        around = parents.get(place)
        has_output = isinstance(span, dict) and lookup(span, *roles["output"]) is not None
        while has_output and around is not None and around not in outer:
            outer.add(around)
            around = parents.get(around)
    for number, place, span in counting:
        yield number, OUTER_SPAN if place in outer else span
        if place is not None:
            outer.add(place)


def _dynamo(record: dict[str, Any]) -> Iterator[Row]:
    """Measurements of a finished request, with its worker.

    Files hold each record below ``event``, the log of the process holds it bare. A request that
    was dropped before its first token has ``output_tokens`` of 0.
    """
    event = record.get("event", record)
    found = lookup(event, "request")
    found = found if isinstance(found, dict) else {}
    if lookup(event, "event_type") == "request_end":
        parts = [lookup(found, f"worker.decode_{name}") for name in ("worker_id", "dp_rank")]
        label = ":".join(str(one) for one in parts if one is not None)
        yield None if found.get("output_tokens") == 0 else {**found, "decode_worker": label}


def _blis(record: dict[str, Any]) -> Iterator[Row]:
    """A row with the whole prompt, as the server counted it if it did, and the time of sending.

    Prompts are written without the prefix of their group; arrivals as they were planned. A stamp
    of 0 was never taken.
    """
    counts = {}
    for name in ("input_tokens", "prefix_length", "server_input_tokens"):
        value = record.get(name, 0)
        try:
            counts[name] = as_count(value)
        except ValueError as error:
            raise InvalidValueError(None, name, value, str(error)) from None
    prompt = counts["server_input_tokens"] or counts["input_tokens"] + counts["prefix_length"]
    row = {
        key: None if key.endswith("_time_us") and not str(value).strip("0.") else value
        for key, value in record.items()
    }
    if str(record.get("streaming")).lower() == "false":
        row["first_chunk_time_us"] = None
    sent = row.get("send_time_us")
    planned = record.get("arrival_time_us") if sent is None else sent
    yield {**row, "arrival_time_us": planned, "input_tokens": prompt}


def _response(record: dict[str, Any]) -> Iterator[Row]:
    """A record of a batch's output with what its response holds, or a response as it is.

    A piece of a stream before its last is no request, though it may count tokens too.
    """
    body = lookup(record, "response.body")
    reasons = [lookup(one, "finish_reason", missing="") for one in record.get("choices") or ()]
    if not reasons or any(reason is not None for reason in reasons):
        yield body | record if isinstance(body, dict) else record


_ROWS = {
    "vllm-bench": _run,
    "sglang-bench": _run,
    "guidellm": _guidellm,
    "inference-perf": _inference_perf,
    "trtllm-bench": _trtllm,
    "otlp": _spans,
    "dynamo": _dynamo,
    "blis": _blis,
    "openai-usage": _response,
}
_TABLE = tomllib.loads((resources.files(__package__) / "formats.toml").read_text("utf-8"))

FORMATS: dict[str, Format] = {
    name: made(name, one.pop("columns"), rows=_ROWS.get(name), **one)
    for name, one in _TABLE.items()
}
ENGINE_SETTINGS = frozenset(name for one in FORMATS.values() for name in one.settings)
"""Settings of vLLM and SGLang, as the engines call them, that decide what is scheduled."""
