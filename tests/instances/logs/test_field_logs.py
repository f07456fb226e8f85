"""Logs as they are found: each is read right, or refused with the line that reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trace_files import write

from instances import FileFormatError, read_log, read_trace

FIELD = Path(__file__).parents[2] / "data" / "field"
NAMES = {"arrival": "t", "prompt": "in", "output": "out"}


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(FileFormatError) as caught:
        read_log(path, **options)
    return str(caught.value)


# --- units --------------------------------------------------------------------------------------


def test_qwen_traces_are_in_seconds_and_have_blocks_of_16(tmp_path: Path) -> None:
    path = FIELD / "qwen_bailian.jsonl"
    log = read_log(path, shared_prefixes=True)
    assert (log.format, log.time_unit, log.arrival_times[-1]) == ("qwen-bailian", "seconds", 120.5)
    assert "arrivals are in seconds and span 120.5 s" in str(log)
    # The second prompt of this file has too few hashes.
    assert "do not fit 521 tokens in blocks of 16" in str(log)


def lines(tmp_path: Path, records: list[dict[str, Any]]) -> Path:
    return write(tmp_path, "".join(json.dumps(one) + "\n" for one in records))


def test_mooncakes_blocks_are_512_and_its_times_milliseconds() -> None:
    log = read_log(FIELD / "shared_prefix.jsonl", shared_prefixes=True)
    assert (log.format, log.arrival_times[-1]) == ("mooncake", 60.0)
    assert log.shared_tokens.tolist() == [3071, 3088, 3071]


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        *[("Lat (ms)", 5), ("durationMs", 5), ("took_us", 0.005), ("ElapsedNanos", 5e-6)],
        *[("latency_s", 5000), ("took", 5000), ("status", 5000)],
    ],
)
def test_the_name_of_a_column_says_its_unit(tmp_path: Path, name: str, seconds: float) -> None:
    path = write(tmp_path, f"t,in,out,{name}\n0,9,2,5000\n")
    log = read_log(path, columns={**NAMES, "latency": name})
    assert log.latencies.tolist() == [pytest.approx(seconds)]
    assert ("as its name says" in str(log)) == (seconds != 5000)
    path = write(tmp_path, f"{name},in,out\n0,9,2\n5000,9,2\n")
    named = {**NAMES, "arrival": name}
    assert read_log(path, columns=named).arrival_times[-1] == seconds
    _, report = read_trace(path, memory_limit=99, columns=named)
    assert f"and span {seconds:,.6g} s" in str(report)


# --- requests that count once, warm-ups ----------------------------------------------------------


def test_of_spans_inside_one_another_the_innermost_counts(tmp_path: Path) -> None:
    path = FIELD / "otlp_client_and_server.jsonl"
    log = read_log(path)
    assert (log.prompt_lengths.tolist(), log.output_lengths.tolist()) == ([17, 22], [40, 22])
    assert log.latencies.tolist() == [0.8486, 0.4883]
    assert "2 of 3 requests kept (1 counted by another span)" in str(log)
    # An exporter that tried again, and a file that ends with the outer spans.
    again = write(tmp_path, path.read_text() * 2)
    assert read_log(again).prompt_lengths.tolist() == [17, 22]


def span(own: str, parent: str, tokens: tuple[int, int] | None, start: int = 1) -> dict[str, Any]:
    names = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
    counts = zip(names, tokens, strict=True) if tokens else ()
    return {
        "traceId": "t",
        "spanId": own,
        "parentSpanId": parent,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10**9),
        "attributes": [{"key": key, "value": {"intValue": str(one)}} for key, one in counts],
    }


def test_an_agents_sums_over_its_calls_are_no_request(tmp_path: Path) -> None:
    spans = [
        span("agent", "", (30, 12)),
        span("step", "agent", None),
        span("call 1", "step", (10, 5), 2),
        span("sdk", "agent", (20, 7), 3),
        span("engine", "sdk", (20, 7), 4),
        span("own", "own", (30, 7), 5),
    ]
    for order in (spans, spans[::-1]):
        document = {"resourceSpans": [{"scopeSpans": [{"spans": [one]}]} for one in order]}
        log = read_log(write(tmp_path, json.dumps(document)))
        assert log.prompt_lengths.tolist() == [10, 20, 30]
        assert log.left_out == {"counted by another span": 2}


def test_pieces_of_a_stream_are_no_requests(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    piece = {"created": 5, "choices": [{"finish_reason": None}], "usage": usage}
    last = {"created": 5, "choices": [], "usage": usage}
    assert len(read_log(lines(tmp_path, [piece, piece, last]))) == 1


def test_a_warm_up_is_left_out(tmp_path: Path) -> None:
    log = read_log(FIELD / "aiperf_warmup.jsonl")
    assert "1 of 2 requests kept (1 warm-up)" in str(log)
    table = write(tmp_path, "t,in,out,when\n0,9,2,Warm-up\n1,9,2,main\n2,9,2,cooldown\n")
    _, report = read_trace(table, memory_limit=99, columns={**NAMES, "phase": "when"})
    assert "1 of 1 rows kept" in str(report)
    assert "2 warm-up and left out" in str(report)


# --- logs that fit no format ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "columns", "kept"),
    [
        ("one.jsonl", "ts input_tokens output_tokens error:status", 1),
        ("generic_timestamp.jsonl", "timestamp prompt_tokens completion_tokens", 1),
        ("servegen.jsonl", "timestamp data.input_tokens data.output_tokens", 2),
        ("dynamo_alias.jsonl", "created_time input_tokens output_tokens", 2),
        ("moon_no_time.jsonl", "prompt:input_length output:output_length", 2),
        (
            "litellm_spend.csv",
            "startTime prompt_tokens completion_tokens error:status latency_ms:request_duration_ms",
            2,
        ),
    ],
)
def test_the_columns_that_an_error_lists_are_read(name: str, columns: str, kept: int) -> None:
    wanted = {}
    for role, text in zip(("arrival", "prompt", "output", "", ""), columns.split(), strict=False):
        named, colon, column = text.rpartition(":")
        wanted[named if colon else role] = column
    listed = refusal(FIELD / name).partition("columns are ")[2].partition(";")[0].split(", ")
    assert {*wanted.values()} <= {*listed}
    assert len(read_log(FIELD / name, columns=wanted)) == kept


def test_dots_in_keys_are_listed_so_that_they_are_read(tmp_path: Path) -> None:
    record = {"meta": {"start.time": 0}, "llm.usage": {"in.tokens": 9, "out.tokens": 2}}
    path = lines(tmp_path, [record])
    assert r'"llm\\.usage.in\\.tokens", "llm\\.usage.out\\.tokens"; type' in refusal(path)
    columns = {"prompt": r"llm\.usage.in\.tokens", "output": r"llm\.usage.out\.tokens"}
    assert read_log(path, columns=columns).prompt_lengths.tolist() == [9]


# --- roles ---------------------------------------------------------------------------------------


def test_ends_instead_of_latencies() -> None:
    columns = {
        "arrival": "startTime",
        "prompt": "prompt_tokens",
        "output": "completion_tokens",
        "end": "endTime",
        "first_token": "completionStartTime",
        "error": "status",
    }
    log = read_log(FIELD / "litellm_spend.csv", columns=columns)
    assert log.latencies.tolist() == [0.949, 0.629]
    assert log.times_to_first_token.tolist() == [0.153, 0.203]
    assert log.left_out == {"failed": 1}


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("status", "success", "failure"),
        ("status", "200", "503"),
        ("status", "204.0", "499"),
        ("status", "200 OK", "429 Too Many Requests"),
        ("error", "", "timeout"),
        ("finish_reason", "stop", "error"),
        ("success", "True", "False"),
        ("is_ok", "1", "0"),
    ],
)
def test_what_a_column_of_errors_says(tmp_path: Path, name: str, good: str, bad: str) -> None:
    path = write(tmp_path, f"t,in,out,{name}\n0,9,2,{good}\n1,8,2,{bad}\n")
    log = read_log(path, columns={**NAMES, "error": name})
    assert (log.prompt_lengths.tolist(), log.left_out) == ([9], {"failed": 1})


def test_a_key_that_only_failed_records_have(tmp_path: Path) -> None:
    rows = [{"t": 0, "in": 9, "out": 2}, {"t": 1, "error": "timeout"}]
    log = read_log(lines(tmp_path, rows), columns={**NAMES, "error": "error"})
    assert (len(log), log.left_out) == (1, {"failed": 1})


# --- cells and files ------------------------------------------------------------------------------


def test_cells_with_line_breaks(tmp_path: Path) -> None:
    rows = 't,in,out,"the\nprompt"\n0,9,2,"two\nlines, ""quoted"""\n1,8,2,"a\n\nb"\n2,7,2,x\n'
    log = read_log(write(tmp_path, rows), columns=NAMES)
    assert log.prompt_lengths.tolist() == [9, 8, 7]
    assert log.row_numbers.tolist() == [3, 5, 8]


def test_parquet_is_read_by_pandas_or_refused_by_name(tmp_path, monkeypatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"PAR1 made up")
    import pandas

    for cells in (["a, b", 'c "d"'], [{"in": 5}, {"in": 6}]):
        stamps = pandas.to_datetime(["2026-01-01 00:00:00.25", "2026-01-01 00:00:01.00"])
        frame = pandas.DataFrame({"t": stamps, "in": [9.0, 8.0], "out": [2, 3], "other": cells})
        monkeypatch.setattr(pandas, "read_parquet", lambda _, frame=frame: frame)
        log = read_log(path, columns=NAMES)
        assert (log.arrival_times.tolist(), log.prompt_lengths.tolist()) == ([0, 0.75], [9, 8])
    assert "t, in, out, other.in; type" in refusal(path)

    def without_pyarrow(_: Any) -> None:
        raise ImportError

    monkeypatch.setattr(pandas, "read_parquet", without_pyarrow)
    assert "is a Parquet file, and cannot be read" in refusal(path)
