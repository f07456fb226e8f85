"""Logs that are not what they should be: one line that names file, row, field and the way out."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from log_files import (
    LOGS,
    aiperf,
    guidellm,
    lines,
    openai_usage,
    sglang_bench,
    sglang_server,
    vllm_bench,
)
from trace_files import write

from instances import FileFormatError, read_log
from instances.traces import benchmark_run

ROOT = Path(__file__).resolve().parents[3]

every_log = pytest.mark.parametrize("kind", LOGS)

# Where a format keeps a prompt of 879 tokens, an output of 2, and the time to the first token.
# 879 is the fourth record; the third has failed. GuideLLM writes the failed one last, and its YAML
# first; another span comes before those of a trace.
ROWS = dict.fromkeys(LOGS, 4) | {"guidellm": 3, "otlp": 5, "otlp, one a line": 6, "dynamo": 5}
PROMPTS = {
    "vllm-bench": "input_lens",
    "guidellm": "prompt_tokens",
    "guidellm as YAML": "prompt_tokens",
    "sglang-server": "prompt_tokens",
    "aiperf": "metrics.input_sequence_length.value",
    "inference-perf": "info.input_tokens",
    "trtllm-bench": "num_input_tokens",
    "otlp": "gen_ai.usage.prompt_tokens",
    "otlp, one a line": "gen_ai.usage.prompt_tokens",
    "dynamo": "input_tokens",
    "openai-usage": "usage.prompt_tokens",
    "openai-usage of a batch": "usage.prompt_tokens",
}


def refused(path: Path, **options: object) -> str:
    with pytest.raises(FileFormatError) as caught:
        read_log(path, **options)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert len(message) < 2000
    return message


@every_log
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("-879", "is negative"),
        ("879.5", "is not a whole number"),
        ("true", "is not a whole number"),
        ("[879]", "is not a whole number"),
        ('{"a": 1}', "is not a whole number"),
        ('"many"', "is not a whole number"),
        ("null", "is missing|is not a whole number"),
        ("99999999999999999999999", "is above 2147483647"),
        ("1e400", "is not a whole number"),
        ("NaN", "is not a whole number"),
    ],
)
def test_a_prompt_that_is_no_count(tmp_path: Path, kind: str, bad: str, reason: str) -> None:
    if kind.startswith("otlp"):
        text = LOGS[kind].replace('"intValue": "879"', f'"intValue": {bad}')
        text = text.replace('"intValue":"879"', f'"intValue": {bad}')
    elif kind == "guidellm as YAML":
        text = LOGS[kind].replace("prompt_tokens: 879", f"prompt_tokens: {bad}")
    else:
        text = LOGS[kind].replace("879", bad)
    assert text != LOGS[kind]
    path = write(tmp_path, text)
    message = refused(path)
    assert f"row {ROWS[kind]}: {PROMPTS[kind]} " in message
    assert any(part in message for part in reason.split("|"))
    good, log = read_log(write(tmp_path, LOGS[kind], "good")), read_log(path, bad_rows="skip")
    assert list(log.skipped.first_rows.values()) == [[ROWS[kind]]]
    assert (log.rows, log.failed) == (good.rows, good.failed)
    rest = good.select(good.prompt_lengths != 879)
    assert (len(rest), log.ids) == (len(good) - 1, rest.ids)
    for name in ("prompt_lengths", "output_lengths", "arrival_times", "latencies"):
        np.testing.assert_array_equal(getattr(log, name), getattr(rest, name))
    np.testing.assert_array_equal(log.inter_token_times, rest.inter_token_times)


@every_log
def test_a_log_that_is_cut_off(tmp_path: Path, kind: str) -> None:
    text = LOGS[kind].rstrip()
    if kind == "guidellm as YAML":
        # A document that ends early is one that says less.
        assert "not YAML" in refused(write(tmp_path, text[: text.index("2", 60)] + "[{"))
        return
    for length in (len(text) - 1, len(text) * 2 // 3):
        message = refused(write(tmp_path, text[:length]))
        assert "cut off" in message or "is not JSON" in message
    packed = gzip.compress(LOGS[kind].encode())
    for length in (len(packed) - 9, 12):
        (tmp_path / "log.gz").write_bytes(packed[:length])
        assert "not a whole gzip file" in refused(tmp_path / "log.gz")


FAILED = (
    {"finish_reason": {"type": "abort"}, "request_received_ts": 1, "prompt_tokens": 5},
    {"metadata": {"request_start_ns": 1}, "metrics": {}, "error": {"code": 1}},
    {"start_time": 1, "end_time": 2, "info": {}, "error": {"e": 1}},
    {"start_timestamp": -1, "num_input_tokens": 5},
    {"usage": {"prompt_tokens": 1}, "error": "late"},
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        *[(json.dumps([record]), 1) for record in FAILED],
        (vllm_bench(errors=["late"] * 5, itls=[[], [0.5, 1], [], [1], []]), 5),
    ],
)
def test_a_log_of_failed_requests_only(tmp_path: Path, text: str, count: int) -> None:
    told = f"no request is left of {count} ({count} failed, 0 without output length, 0 empty)"
    assert told in refused(write(tmp_path, text))


@pytest.mark.parametrize("kind", ["sglang-server", "openai-usage", "otlp, one a line"])
def test_a_log_without_output_lengths(tmp_path: Path, kind: str) -> None:
    text = LOGS[kind].replace("completion_tokens", "other_tokens")
    assert "no request is left of 5 (1 failed, 4 without output length" in refused(
        write(tmp_path, text)
    )


def test_requests_without_output_length_are_counted(tmp_path: Path) -> None:
    text = LOGS["sglang-server"].replace('"completion_tokens": 2', '"completion_tokens": null')
    log = read_log(write(tmp_path, text))
    assert (len(log), log.failed, log.without_output, log.dropped_empty) == (3, 1, 1, 1)
    assert "3 of 5 requests kept (1 failed, 1 without output length)" in str(log)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output_lens": None}, "has no output_lens: every request needs its tokens"),
        ({"input_lens": None}, "has no input_lens"),
        ({"ttfts": [0.5] * 6}, "ttfts has 6 entries and input_lens 5"),
        ({"errors": [""]}, "errors has 1 entries"),
        ({"output_lens": 5}, "output_lens 5 is not a list"),
        ({"ttfts": [0.1, -0.5, 0, 0, 0]}, "row 2: ttfts -0.5 is below 0"),
        ({"ttfts": [0.1, "x", 0, 0, 0]}, "row 2: ttfts 'x' is not a number"),
        ({"ttfts": [0.1, True, 0, 0, 0]}, "row 2: ttfts True is not a number"),
        ({"itls": [[], [0.1, -1], [], [], []]}, "row 2: itls [0.1, -1] holds what is no duration"),
        ({"itls": [[], [[0.1]], [], [], []]}, "row 2: itls [[0.1]] is not a list of numbers"),
        ({"itls": [[], 0.1, [], [], []]}, "row 2: itls 0.1 is not a list of numbers"),
        ({"itls": [[], [10**400], [], [], []]}, "is not a list of numbers"),
        ({"itls": [[], [float("nan")], [], [], []]}, "holds what is no duration"),
        ({"itls": [[], [True, 0.5], [], [], []]}, "row 2: itls [True, 0.5] is not a list of"),
        ({"itls": [[], [1e17], [], [], []]}, "row 2: itls [1e+17] holds what is no duration"),
        ({"latencies": [0.5, 1e17, 0.5, 0.5, 0.5]}, "row 2: latencies 1e+17 is above 1e+16"),
        ({"start_times": [1, 2, -3, 4, 5]}, "row 3: start_times -3 is below 0"),
        ({"start_times": [1, 2, 1e300, 4, 5], "errors": None}, "start_times 1e+300 is not a time"),
        ({"start_times": [1, 2, float("inf"), 4, 5]}, "is not a finite number"),
    ],
)
def test_lists_of_a_run_that_do_not_go_together(tmp_path: Path, changes, message) -> None:
    assert message in refused(write(tmp_path, vllm_bench(**changes)))


def test_a_run_saved_without_its_requests_says_how_to_save_them(tmp_path: Path) -> None:
    gone = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
    text = vllm_bench(**dict.fromkeys(gone))
    assert "--save-detailed (vLLM) or --output-details (SGLang)" in refused(write(tmp_path, text))
    assert "has no start_times; sglang-bench" in refused(
        write(tmp_path, sglang_bench()), format="vllm-bench"
    )


def test_lists_given_twice(tmp_path: Path) -> None:
    text = vllm_bench()[:-1] + ', "input_lens": [1, 2, 3, 4, 5]}'
    assert "key 'input_lens' is there twice" in refused(write(tmp_path, text))
    line = LOGS["aiperf"].replace('"was_cancelled"', '"request_end_ns": 5, "was_cancelled"', 1)
    assert "row 1: key 'request_end_ns' is there twice" in refused(write(tmp_path, line))


@pytest.mark.parametrize(
    ("kind", "good", "bad", "message"),
    [
        ("aiperf", '"unit": "ms"', '"unit": "weeks"', "row 1: metrics.*unit = 'weeks' is no unit"),
        ("aiperf", '"metrics": {"input', '"metrics": 5, "x": {"input', "row 1: metrics.input"),
        ("aiperf", '"value": 125.0', '"value": -1', "row 1: metrics.*value = -1 is below 0"),
        ("aiperf", "[500.0, 62.5]", "[500.0, true, null]", "row 2: metrics.inter_chunk_latency"),
        ("aiperf", '"value": 125.0', '"value": "fast"', "'fast' is not a number"),
        ("sglang-server", '"e2e_latency": 0.125', '"e2e_latency": NaN', "row 1: e2e_latency = nan"),
        ("sglang-server", "1700000000.5", '"today"', "row 1: request_received_ts 'today'"),
        ("sglang-server", "1700000000.5", "true", "row 1: request_received_ts True is not a time"),
        ("inference-perf", '"end_time": 500.8125', '"end_time": 499', "row 2: end_time = 499"),
        ("inference-perf", "500.75", "500", "row 2: info.*output_token_times = .* back in time"),
        ("trtllm-bench", '"end_timestamp": 7000625', '"end_timestamp": 6000625', "row 1: end_time"),
        ("openai-usage", "1700000000.5", '"2026-01-01T00:00:00Z"', "row 2: created 17000.* is not"),
        ("openai-usage", "1700000001.25", '"2026-01-01"', "row 4: created '2026-01-01' is not a"),
        ("openai-usage", "1700000001.25", "1700000001250", ""),
        (
            "openai-usage",
            '"created": 1700000000.5',
            '"made": 5',
            "row 1: created is missing; .*arrival=NAME",
        ),
        ("guidellm", '"prompt_tokens": 396', '"prompt_tokens": []', "row 1: prompt_tokens"),
        ("guidellm", '"successful": [', '"successful": [5, ', "row 1: is not a JSON object"),
        ("otlp", '"scopeSpans": [', '"scopeSpans": {"a": 1}, "b": [', "is not JSON: expecting"),
    ],
)
def test_a_record_that_is_wrong(
    tmp_path: Path, kind: str, good: str, bad: str, message: str
) -> None:
    assert good in LOGS[kind]
    path = write(tmp_path, LOGS[kind].replace(good, bad, 1))
    if message:
        with pytest.raises(FileFormatError, match=message):
            read_log(path)


def test_an_end_that_no_float_holds_is_not_measured(tmp_path: Path) -> None:
    records = [json.loads(line) for line in aiperf().splitlines()]
    for record in records:
        record["metrics"].pop("request_latency", None)
        record["metadata"]["request_end_ns"] = 10**400
    log = read_log(write(tmp_path, lines(records)))
    assert np.isnan(log.latencies).all()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1.7000000000e+12", "1.7000000015e+12"),
        ("1700000000000", "1.7000000015e12"),
        ("1.7e+18", "1.7000000015e+18"),
    ],
)
def test_stamps_with_exponents_are_in_the_unit_of_those_without(
    tmp_path: Path, first: str, second: str
) -> None:
    path = write(tmp_path, f"a,p,o\n{first},5,5\n{second},5,5\n")
    log = read_log(path, columns={"arrival": "a", "prompt": "p", "output": "o"})
    assert log.arrival_times.tolist() == [0.0, 1.5]


def test_cells_of_columns_named_by_the_user(tmp_path: Path) -> None:
    named = {"prompt": "p", "output": "o", "error": "e", "latency": "l"}
    log = read_log(write(tmp_path, "p,o,e,l\n5,5,0.0,1\n5,5,late,2\n"), columns=named)
    assert (len(log), log.failed) == (1, 1)
    assert "is not a number" in refused(write(tmp_path, "p,o,e,l\n5,5,0,1_0\n"), columns=named)


def test_a_first_token_after_the_last_says_nothing_of_those_between(tmp_path: Path) -> None:
    records = [json.loads(line) for line in sglang_server().splitlines()]
    records[1]["first_token_latency"] = 2 * records[1]["e2e_latency"]
    log = read_log(write(tmp_path, lines(records)))
    means = log.mean_inter_token_times.tolist()
    assert np.isnan(means[0])
    assert means[2:] == [0.03125, 0.625 / 3]


def test_stamps_of_two_units_do_not_mix(tmp_path: Path) -> None:
    text = openai_usage(lambda one: round((1_700_000_000 + one.start) * 1000))
    mixed = text.replace("1700000001250", "1700000001")
    assert "row 4: created 1700000001 is in another unit" in refused(write(tmp_path, mixed))
    text = openai_usage()
    mixed = text.replace("1700000001.25", "1700000001250")
    assert "row 4: created 1700000001250 is in another unit" in refused(write(tmp_path, mixed))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "b": {"c": 2}}\n',
        '{\n "a": 1,\n "b": 2\n}\n',
        '[{"a": 1}, {"b": 2}]',
        "a,b\n1,2\n",
        "a: 1\nb:\n - 2\n",
    ],
    ids=["line", "object", "list", "table", "YAML"],
)
def test_an_unknown_format_is_told_what_was_seen_and_what_to_do(tmp_path: Path, text: str) -> None:
    message = refused(write(tmp_path, text))
    for part in ("fits no format; its columns are a", f"type 'trace:{tmp_path}", "(arrival=NAME"):
        assert part in message


@pytest.mark.parametrize("text", ["[]", "[] \n", "[1]", "[[]]", "{}", "null", "[", "{", '{"a"'])
def test_next_to_nothing(tmp_path: Path, text: str) -> None:
    refused(write(tmp_path, text))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"benchmarks": ' + "[" * 9999])
def test_deep_nesting(tmp_path: Path, text: str) -> None:
    refused(write(tmp_path, text))


def test_what_follows_a_list_is_refused(tmp_path: Path) -> None:
    assert "goes on after its list" in refused(write(tmp_path, LOGS["trtllm-bench"] + "\n[]"))


def test_long_prompts_are_no_reason_to_refuse_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LOGS["sglang-server"].replace('"{}"', json.dumps("long " * 300_000))
    assert len(read_log(write(tmp_path, text))) == 4
    assert len(read_log(write(tmp_path, vllm_bench(generated_texts=["x" * 400_000] * 5)))) == 4
    monkeypatch.setattr("instances.traces.containers.LONGEST_ITEM", 2**20 + 10)
    assert len(read_log(write(tmp_path, vllm_bench(generated_texts=["x" * 400_000] * 5)))) == 4
    lines = LOGS["sglang-server"].splitlines(keepends=True)
    lines[1] = lines[1].replace('"{}"', json.dumps("long " * 300_000))
    assert "row 2: is longer than 1048586 characters" in refused(write(tmp_path, "".join(lines)))


# --- memory -------------------------------------------------------------------------------------


def long_run(count: int, tokens: int = 20) -> str:
    return json.dumps(
        {
            "input_lens": [100] * count,
            "output_lens": [tokens + 1] * count,
            "ttfts": [0.125] * count,
            "itls": [[0.0212345678] * tokens] * count,
            "start_times": [k / 64 for k in range(count)],
            "generated_texts": ["word " * tokens] * count,
            "errors": [""] * count,
        }
    )


def long_lines(count: int) -> str:
    record = json.loads(LOGS["aiperf"].splitlines()[0])
    record["metrics"]["inter_chunk_latency"] = {"value": [21.2345678] * 20, "unit": "ms"}
    return (json.dumps(record) + "\n") * count


def peak_of(read: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [long_run, long_lines], ids=["run", "lines"])
def test_memory_grows_by_arrays_only(
    tmp_path: Path, text: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark_run, "MOST_INTER_TOKEN_TIMES", 1000)
    peaks = []
    for count in (2_000, 8_000):
        path = write(tmp_path, text(count), f"{count}.json")
        peaks.append(peak_of(lambda path=path: read_log(path, most_inter_token_times=1000)))
    # Some 80 bytes a row twice over while it is put in order; 20 floats a row would be 640 more.
    assert peaks[1] - peaks[0] < 300 * 6_000


def test_a_guidellm_report_of_nothing(tmp_path: Path) -> None:
    text = guidellm().replace('"benchmarks"', '"other"')
    assert "fits no format" in refused(write(tmp_path, text))
    for empty in ('{"benchmarks": []}', '{"benchmarks": [{"requests": {"successful": null}}]}'):
        assert "no request is left of 0" in refused(write(tmp_path, empty))
    assert "is not JSON" in refused(write(tmp_path, '{"benchmarks": null}'))
