"""Logs and traces that are refused, in one line that names the file, the row and the field."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from log_files import LOGS, openai_usage, sglang_bench, vllm_bench
from refusals import assert_refused
from trace_files import read

from instances import FileFormatError, read_log

NAMES = {"arrival": "t", "prompt": "in", "output": "out"}
HEADER = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
LENGTHS = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3,4,7,0.7\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
MOONCAKE = '{"timestamp": 27482, "input_length": 374, "output_length": 44, "hash_ids": [0]}\n'
TRACES = {
    "vidur": HEADER + "0.5,374,44\n1.25,879,0\n",
    "burstgpt": BURST + "5,ChatGPT,374,44,418,API log\n6.25,ChatGPT,879,0,879,API log\n",
    "azure": AZURE + "2023-11-16 18:15:47.9305900,879,0\n",
    "mooncake": MOONCAKE + MOONCAKE.replace("27482", "28732").replace("374", "879"),
}
"""Two requests in each format; the second is the one that is changed."""
FAILED = (
    {"finish_reason": {"type": "abort"}, "request_received_ts": 1, "prompt_tokens": 5},
    {"metadata": {"request_start_ns": 1}, "metrics": {}, "error": {"code": 1}},
    {"start_time": 1, "end_time": 2, "info": {}, "error": {"e": 1}},
    {"start_timestamp": -1, "num_input_tokens": 5},
    {"usage": {"prompt_tokens": 1}, "error": "late"},
)
UNIT = openai_usage(lambda one: round((1_700_000_000 + one.start) * 1000))
NO_OUTPUTS = [
    LOGS[kind].replace("completion_tokens", "other_tokens")
    for kind in ("sglang-server", "openai-usage", "otlp, one a line")
]
UNKNOWN, TYPE = "fits no format; its columns are a", r"type 'trace:.*\(arrival=NAME"
COLUMNS = "input_lens", "output_lens", "ttfts", "itls", "start_times", "errors"
POD, NO_WORKER = {"worker": "pod"}, ("aiperf", "otlp", "guidellm", "vllm-bench", "openai-usage")
GOOD = "t,in,out\n" + "0.5,10,20\n" * 1000
PACKED = gzip.compress(GOOD.encode())
CUT = (PACKED[:-9], PACKED[:12], PACKED[:15] + b"\0" + PACKED[16:])
LATENCY = {"latency": "e"}
UNTIMED = {"prompt": "in", "output": "out"}
BOTH = HEADER.replace("\n", ",Timestamp,Request tokens,Response tokens\n0,10,20,7,30,40\n")
GAPS: list[Any] = [[0.1, -1], [1e17], [[0.1]], [10**400]]
Row = tuple[Any, str, str | bytes]


def log(text: str | bytes, words: str, **options: Any) -> Row:
    return partial(read_log, **options), words, text


def trace(text: str | bytes, words: str, **options: Any) -> Row:
    return partial(read, **options), words, text


def of(kind: str, good: str, bad: str, words: str) -> Row:
    """Change a log of a tool at one place."""
    assert good in LOGS[kind]
    return log(LOGS[kind].replace(good, bad, 1), words)


def second(kind: str, good: str, bad: str, words: str) -> Row:
    """Change the second request of a trace, whose row is named."""
    before, found, after = TRACES[kind].rpartition(good)
    assert found
    return trace(before + bad + after, rf"row {3 - (kind == 'mooncake')}: .*{words}")


def without(kind: str, name: str) -> Row:
    """Rename a column of a trace."""
    return trace(TRACES[kind].replace(name, "Other"), "fits no format; its columns are .*type '")


def bench(words: str, **changes: Any) -> Row:
    return log(vllm_bench(**changes), words)


ROWS: list[Row] = [
    # Nothing in it, or nothing that could be a request.
    *[log(text, ": is empty$") for text in ("", "\n\n")],
    *[trace(text, ": has no record with fields$") for text in ("{}\n", "[]", "[{}]")],
    log("[] \n", "has no record"),
    *[log(text, "row 1: is not a JSON object") for text in ("[1]", "[[]]")],
    *[log(text, "is cut off") for text in ("[", "{", '{"a"')],
    *[log(text, "not JSON: maximum recursion") for text in ("[" * 10**5, '{"a":' * 10**5)],
    *[log(json.dumps([one]), r"is left of 1 \(1 failed\)") for one in FAILED],
    bench(r"is left of 5 \(5 failed\)", errors=["late"] * 5, itls=[[], [0.5, 1], [], [1], []]),
    *[log(text, r"is left of 5 \(1 failed, 4 without output length") for text in NO_OUTPUTS],
    log('{"benchmarks": [], "other": 1}', "no request is left of 0"),
    log('{"benchmarks": [{"requests": {"successful": null}}]}', "no request is left of 0"),
    of("guidellm", '"benchmarks"', '"other"', "fits no format"),
    # Files of another kind.
    log('{"a": 1, "b": 2}\n', f"{UNKNOWN}.*{TYPE}"),
    *[log(text, f"{UNKNOWN}.*{TYPE}") for text in ('{\n "a": 1\n}\n', '[{"a": 1}]', "a,b\n1,2\n")],
    log("a;b;c\n1;2;3\n", r"are a, b, c; type 'trace:.*\(arrival=NAME, prompt=NAME, output=NAME"),
    log('INFO:  10.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK\n', "fits no format"),
    trace(HEADER.encode() + b"\n\xff\xfe\x00\n", "is not a text file"),
    *[trace(f"{one}\n1,2\n", "fits no form") for one in ("a\x1b[31m,b", "a\u202eb,c", '"a\nb",c')],
    # A run of a benchmark.
    bench("needs lists of one length.*'output_lens': None", output_lens=None),
    bench("needs lists of one length.*'ttfts': 6", ttfts=[0.5] * 6),
    bench("needs lists of one length.*'output_lens': None", output_lens=5),
    bench("row 2: ttfts -0.5 is not a number from 0", ttfts=[0.1, -0.5, 0, 0, 0]),
    bench("row 2: ttfts 'x' is not a number", ttfts=[0.1, "x", 0, 0, 0]),
    *[bench("row 2: itls .*is not a list of num", itls=[[], bad, [], [], []]) for bad in GAPS],
    bench(r"row 2: latencies 1e\+17 is not a number", latencies=[0.5, 1e17, 0.5, 0.5, 0.5]),
    bench("row 2: start_times -3 is not a time", start_times=[1, -3, 2, 4, 5]),
    bench("fits no format", **dict.fromkeys(COLUMNS)),
    log(sglang_bench(), "column 'start_times' is missing", format="vllm-bench"),
    log(sglang_bench(1.0) + sglang_bench(4.0), "holds 2 runs"),
    log(vllm_bench()[:-1] + ', "input_lens": [1, 2, 3, 4, 5]}', "'input_lens' is there twice"),
    # A record of a tool.
    of("aiperf", '"was_cancelled"', '"request_end_ns": 5, "was_cancelled"', "key 'req.* twice"),
    of("aiperf", '"value": 125.0', '"value": -1', "row 1: metrics.*value -1 is not a number"),
    of("sglang-server", "1700000000.5", '"today"', "row 1: request_received_ts 'today'"),
    of(
        "inference-perf", '"end_time": 500.8125', '"end_time": 499', "row 2: end_time 499 is before"
    ),
    of("inference-perf", "500.75", "500", "row 2: info.*output_token_times .* back in time"),
    of("trtllm-bench", '"end_timestamp": 7000625', '"end_timestamp": 6000625', "row 1: end_time"),
    of("openai-usage", "1700000000.5", '"2026-01-01T00:00:00Z"', "row 2: created 17000.* is not"),
    log(UNIT.replace("1700000001250", "1700000001"), "row 4: .* 1700000001 is in another unit"),
    of("openai-usage", '"created": 1700000000.5', '"made": 5', "created is missing"),
    of("guidellm", '"prompt_tokens": 396', '"prompt_tokens": []', "row 1: prompt_tokens"),
    of("otlp", '"scopeSpans": [', '"scopeSpans": {"a": 1}, "b": [', "no request is left of 0"),
    log(LOGS["trtllm-bench"] + "\n[]", "is cut off, or not JSON: Extra data"),
    # A row of a trace.
    second("vidur", "1.25", "x", "arrived_at 'x' is not a time"),
    second("vidur", "879", "879.5", "num_prefill_tokens '879.5' is not a whole number"),
    second("vidur", "879", "9" * 5000, r"num_prefill_tokens '999\d*\.\.\. is not"),
    second("vidur", "879", "2147483648", "num_prefill_tokens '2147483648' is not"),
    second("burstgpt", "ChatGPT,879,0,879", "ChatGPT,879", "Response tokens 'API log'"),
    second("azure", "47.9305900", "47.9305900Z", "TIMESTAMP .* time zone"),
    second("azure", "879,0", "0x3,0", "ContextTokens '0x3' is not a whole number"),
    second("azure", "879,0", "879,-1", "GeneratedTokens '-1' is not a whole number"),
    second("azure", "879,0", "1,154,44", "has more cells than the header"),
    second("mooncake", "28732", "-1", "timestamp -1 is not a time"),
    second("mooncake", "879", "true", "input_length True is not a whole number"),
    second("mooncake", '"output_length": 44', '"output": 0', "output_length is missing"),
    second("mooncake", "[0]", "9" * 5000, "not JSON"),
    trace(TRACES["vidur"] + "7" * 3_000_000, "row 4: arrived_at '777"),
    # Columns, and windows.
    *[without("azure", name) for name in AZURE.split("\n")[0].split(",")],
    trace(HEADER.replace("\n", ",arrived_at\n0,1,1,5\n"), "'arrived_at' is there twice"),
    trace(BOTH, "several formats: give format=burstgpt or format=vidur;"),
    trace("in,out\n7,5\n", "has no arrival times", columns=UNTIMED, duration_seconds=3),
    trace(TRACES["vidur"], "left of the 0 rows", start_seconds=3, duration_seconds=5),
    trace(HEADER + "0,0,3\n1,3000,3\n", "1 empty, 1 longer"),
    log("t,in,out,e\n0,5,5,1_0\n", "is not a number", columns=NAMES | LATENCY),
    log('[{"t": 1, "in": 5, "out": 3}, {"t": 1, "inp', "cut off", columns=NAMES, bad_rows="skip"),
    *[log(one, "whole gzip file", columns=NAMES, bad_rows="skip") for one in CUT],
    *[
        log(
            f"t,in,out\n0,1,1\n{time},1,1\n",
            "row 3: t .* is (not a time|in another)",
            columns=NAMES,
        )
        for time in (".", "1_0", "inf", "\u0661", "1e", "0x1", "12345678901234567", "9.1e15")
    ],
    *[
        log(f't,in,out\n0,1,1\n1,1,"1\n{end}', "row 3: cannot be split into cells", columns=NAMES)
        for end in ("", '"b\n')
    ],
    *[log(LOGS[kind], "which worker served it: 'pod' is miss", columns=POD) for kind in NO_WORKER],
    log("t,in,out,x\n0,5,5,b\n", "column 'pod' is missing", columns=NAMES | POD),
]


@pytest.mark.parametrize(("call", "words", "content"), ROWS, ids=[row[1][:40] for row in ROWS])
def test_bad_logs_are_refused(tmp_path: Path, call: Any, words: str, content: str | bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    message = assert_refused(FileFormatError, call, words, path)
    assert str(path) in message
    assert len(message) < 2000
