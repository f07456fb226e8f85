"""Errors about files that fit no format: their columns, a guess at these, and the line to type."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from instances.errors import FileFormatError
from instances.settings import quoted

from .cells import DATES, MILLISECONDS, SECONDS, Clock, as_count
from .formats import FORMATS, Format
from .paths import name_words, named_unit
from .units import likely_unit

MOST_LISTED = 30
"""Columns of a file that an error lists."""

LONGEST_LISTED = 40
"""Characters of a column's name that an error repeats."""

DEEPEST_LISTED = 4
"""Names of keys inside one another that are listed."""

MAP_COLUMNS = (
    "say which column holds what with columns (in a command FILE(arrival=NAME, prompt=NAME, "
    "output=NAME))"
)

_VLLM = "vllm bench serve --save-result --save-detailed"
_SERVER = (
    "a server's log: it has no line with the times and tokens of a request; "
    f"'{_VLLM}' writes them, and so do SGLang's --export-metrics-to-file and OpenTelemetry spans "
    "(vLLM's --otlp-traces-endpoint)"
)
_AIPERF = "AIPerf's totals: it writes the requests to profile_export.jsonl in the same folder"
WITHOUT_REQUESTS = {
    r"(\(\w+ pid=\d+\)\s*)?(DEBUG|INFO|WARNING|ERROR)[: ]+(\d\d-\d\d \d\d:|.*HTTP/\d)": _SERVER,
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^]]*\]": _SERVER,
    r"# (HELP|TYPE) |[A-Za-z_]\w*(:\w+)*(\{[^}]*\})? [-+\d.eE]+(Inf|NaN)?( \d+)?$": (
        f"Prometheus metrics, which are totals of a server: '{_VLLM}' writes requests, and so do "
        "SGLang's --export-metrics-to-file and OpenTelemetry spans"
    ),
    r"Metric,": _AIPERF,
    r"=+ .*Benchmark Result": f"a benchmark's totals as text: '{_VLLM}' and SGLang's "
    "bench_serving --output-file FILE --output-details write requests",
    r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S* [^,;|\t]*[A-Za-z]{4}": "a log of text: it has no "
    "header line with the names of columns",
}
"""Beginnings of text files that have no requests, and an answer to each."""

TOTALS = {
    "aiperf_version": _AIPERF,
    "input_config": _AIPERF,
    "load_summary": "inference-perf's totals: it writes the requests to "
    "per_request_lifecycle_metrics.json where report.request_lifecycle.per_request is true",
    "performance": "trtllm-bench's totals: --request_json FILE writes its requests",
    "request_throughput": "a benchmark's totals and none of its requests: run it with "
    "--save-detailed (vLLM) or --output-details (SGLang)",
}
"""Keys of documents that have no requests, and an answer to each."""

_SIZE = {"token", "tokens", "length", "len", "lengths", "lens", "size", "count", "tok", "toks"}
_PROMPT = {"prompt", "prompts", "input", "in", "context", "prefill", "isl", "request", "question"}
_OUTPUT = {"completion", "output", "out", "gen", "generated", "generation", "decode", "osl"}
_OUTPUT |= {"response", "answer"}
_START = ({"arrival", "arrived"}, {"start", "started", "sent", "send", "received", "begin"})
_TIME = (*_START, {"created", "submitted", "enqueued"}, {"timestamp", "time", "ts", "date"})
_END = {"end", "ended", "finish", "finished", "completed"}
_LATENCY = {"latency", "duration", "elapsed", "took"}
_NOT_TIME = {*_END, *_LATENCY, "completion", "first", "last", "ttft", "tpot", "itl", "total"}
_NOT_TIME |= {"updated", "per", "mean", "avg", "id"}
_NOT_SIZE = {"total", "cost", "price", "cached", "cache", "per", "rate", "throughput", "second"}
_NOT_SIZE |= {"id", "time", "latency"}


def refuse_text_without_requests(path: object, line: str) -> None:
    """Refuse totals and logs of text by their first line.

    Raises
    ------
    FileFormatError
        The line is of such a file; the error says where the tool writes requests.
    """
    for pattern, answer in WITHOUT_REQUESTS.items():
        if re.match(pattern, line.strip()):
            raise FileFormatError(path, f"holds {answer}")


def refuse_totals(path: object, keys: Collection[str]) -> None:
    """Refuse a document of totals by its keys, as `refuse_text_without_requests` does."""
    for key, answer in TOTALS.items():
        if key in keys:
            raise FileFormatError(path, f"holds {answer}")


def detect_format(path: object, records: Sequence[Mapping[str, Any]]) -> Format:
    """Detect the format whose columns a file has.

    Parameters
    ----------
    path : object
        What errors call the file.
    records : sequence of mapping
        Some of them; of a table one may be its columns without cells.

    Raises
    ------
    FileFormatError
        No format or several fit; the message says what can be done.
    """
    filled = [one for one in records if one]
    if not filled:
        raise FileFormatError(path, "holds no record that has fields")
    fitting = [[kind for kind in FORMATS.values() if kind.fits(one)] for one in filled]
    found = next((some for some in fitting if len(some) == 1), fitting[0])
    if {one.name for one in found} == {"mooncake", "qwen-bailian"}:
        unit = likely_unit(filled, found[0].name_of("arrival"), found[0].name_of("prompt"))
        found = [one for one in found if unit in (None, one.unit)]
    if len(found) > 1:
        ways = " or ".join(f"format={one.name} (times in {one.unit})" for one in found)
        raise FileFormatError(path, f"fits several formats: which is it? Say {ways}")
    if not found:
        refuse_totals(path, filled[0])
        refuse_unknown(path, filled, f"fits no format{_nearly(filled[0])}")
    return found[0]


def _nearly(record: Mapping[str, Any]) -> str:
    """Name the one column that a file lacks of a known trace."""
    for one in FORMATS.values():
        missing = [name for name in one.required if name not in record]
        there = [name for role in one.columns for name in one.names(role) if name in record]
        if not one.is_log and len(missing) == 1 and len(there) > 1:
            return f" (of {one.name} column {missing[0]!r} is missing)"
    return ""


def refuse_unknown(path: object, records: Sequence[Mapping[str, Any]], why: str) -> NoReturn:
    """Say which columns a file has, which of them seem to hold what, and what to type.

    Parameters
    ----------
    path : object
        The file.
    records : sequence of mapping
        Some of its records, or the columns of a table.
    why : str
        Why it is refused.

    Raises
    ------
    FileFormatError
        Always.
    """
    cells = all_paths(records)
    if len(cells) > 1 and 2 * sum(_unit_seen(one) is not None for one in cells) > len(cells):
        raise FileFormatError(path, "has no header line: names of columns come before its rows")
    found = guessed(cells)
    inside = found.get("prompt", "").rpartition("[].")[0]
    if inside:
        before = f"{inside}[]."
        own = {one.removeprefix(before): cells[one] for one in cells if one.startswith(before)}
        found = {"requests": inside, **guessed(own)}
    arrival, hint = found.get("arrival", ""), ""
    if _is_number(cells.get(arrival)) and named_unit(arrival) is None:
        unit = likely_unit(records, arrival, found.get("prompt", ""))
        if unit == MILLISECONDS and any("hash_ids" in one for one in records):
            found = {"arrival_ms": found.pop("arrival"), **found}
        elif unit != SECONDS:
            hint = f"; write arrival_ms for arrival if {arrival!r} is in milliseconds"
    is_whole = {"prompt", "output"} <= found.keys()
    # Without a time all arrive at once.
    given = found if is_whole else {"arrival": "NAME", "prompt": "NAME", "output": "NAME", **found}
    settings = ", ".join(f"{role}={quoted(name)}" for role, name in given.items())
    line = shlex.quote(f"trace:{path}({settings})")
    seem = ", ".join(f"{role} is {name!r}" for role, name in found.items())
    guess = f"by name and content, {seem}: " if found else ""
    python = f" (in Python columns={given})" if is_whole else ", with a column for each NAME"
    raise FileFormatError(
        path, f"{why}; its columns are {listed(cells)}; {guess}type {line}{python}{hint}"
    )


def all_paths(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the keys of records with those inside them, as paths, and a value of each."""
    cells: dict[str, Any] = {}
    for record in records:
        for name, value in _paths(record):
            if cells.get(name) is None:
                cells[name] = value
    return cells


def _paths(
    record: Mapping[str, Any], before: str = "", depth: int = 1
) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a record with those inside them, as paths, and their values."""
    for key, value in record.items():
        path = before + str(key).replace(".", "\\." if before or isinstance(value, dict) else ".")
        items = value[:1] if isinstance(value, list) else []
        inner = items[0] if items else value
        if isinstance(inner, dict) and inner and depth < DEEPEST_LISTED:
            yield from _paths(inner, f"{path}{'[]' if items else ''}.", depth + 1)
        else:
            yield path, value


def guessed(cells: Mapping[str, Any]) -> dict[str, str]:
    """Guess which columns hold what from their names and a value of each.

    Parameters
    ----------
    cells : Mapping[str, Any]
        A value by the path of its column; None where none is known.

    Returns
    -------
    dict[str, str]
        Columns by role; roles without a likely column are missing.
    """
    best: dict[str, tuple[int, str]] = {}
    for path, value in cells.items():
        if len(path) > LONGEST_LISTED:
            # In a file without a header it may be a prompt.
            continue
        own = {*name_words(path.rpartition(".")[2])}
        words = own if own & (_PROMPT | _OUTPUT) else {*name_words(path)}
        is_date, is_number = _is_date(value), _is_number(value)
        size = 2 * bool(words & _SIZE)
        scores = dict.fromkeys(("arrival", "prompt", "output", "latency", "end", "error"), 0)
        if _is_count(value) and not words & _NOT_SIZE and (size or is_number):
            is_prompt = words & _PROMPT and (size or "request" not in words)
            scores["prompt"] = (1 + size) * bool(is_prompt and not words & _OUTPUT)
            scores["output"] = (1 + size) * bool(words & _OUTPUT and not words & _PROMPT)
        if (is_date or is_number or value is None) and not own & (_NOT_TIME | _SIZE):
            rank = next((k for k, some in enumerate(_TIME) if own & some), len(_TIME))
            scores["arrival"] = len(_TIME) - rank
        scores["end"] = bool((is_date or {"time", "at"} & own) and own & _END)
        scores["latency"] = bool(is_number and not scores["end"] and own & _LATENCY)
        scores["error"] = 2 * ("error" in own) + bool(own & {"status", "success", "failed"})
        for role, score in scores.items():
            if score > best.get(role, (0, ""))[0] and not isinstance(value, dict | list):
                best[role] = score, path
    found = {role: best[role][1] for role in scores if role in best} if cells else {}
    if "latency" in found:
        found.pop("end", None)
        if named_unit(found["latency"]) == MILLISECONDS:
            found["latency_ms"] = found.pop("latency")
    if "arrival" not in found:
        found.pop("end", None)
    return found


def _is_count(value: Any) -> bool:
    try:
        return value is None or as_count(value) >= 0
    except ValueError:
        return False


def _is_number(value: Any) -> bool:
    return _unit_seen(value) not in (None, DATES)


def _is_date(value: Any) -> bool:
    return _unit_seen(value) == DATES


def _unit_seen(value: Any) -> str | None:
    clock = Clock()
    try:
        clock(value)
    except ValueError:
        return None
    return clock.unit


def listed(columns: Collection[str]) -> str:
    """List the columns of a file in a message, the first `MOST_LISTED` only.

    Names are cut: in a file without a header they are cells of its first row.
    """
    names = [
        one if len(one) <= LONGEST_LISTED else f"{one[:LONGEST_LISTED]}..."
        for one in list(columns)[:MOST_LISTED]
    ]
    shown = ", ".join(names) or "none"
    return f"{shown}, ... {len(columns)} in all" if len(columns) > MOST_LISTED else shown
