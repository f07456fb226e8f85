"""Logs that are not what they should be: one line that names file, row, field and the way out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from log_files import LOGS, aiperf, lines, sglang_server, vllm_bench
from trace_files import write

from instances import FileFormatError, read_log

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
    "inference-perf": "info.request_metrics.text.input_tokens",
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


def test_requests_without_output_length_are_counted(tmp_path: Path) -> None:
    text = LOGS["sglang-server"].replace('"completion_tokens": 2', '"completion_tokens": null')
    log = read_log(write(tmp_path, text))
    assert (len(log), log.failed, log.without_output, log.dropped_empty) == (3, 1, 1, 1)
    assert "3 of 5 requests kept (1 failed, 1 without output length)" in str(log)


def test_an_end_that_no_float_holds_is_refused(tmp_path: Path) -> None:
    records = [json.loads(line) for line in aiperf().splitlines()]
    for record in records:
        record["metrics"].pop("request_latency", None)
        record["metadata"]["request_end_ns"] = 10**400
    assert "row 1: metadata.request_end_ns 1000" in refused(write(tmp_path, lines(records)))


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


def test_a_first_token_after_the_last_says_nothing_of_those_between(tmp_path: Path) -> None:
    records = [json.loads(line) for line in sglang_server().splitlines()]
    records[1]["first_token_latency"] = 2 * records[1]["e2e_latency"]
    log = read_log(write(tmp_path, lines(records)))
    means = log.mean_inter_token_times.tolist()
    assert np.isnan(means[0])
    assert means[2:] == [0.03125, 0.625 / 3]


def test_long_prompts_are_no_reason_to_refuse_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LOGS["sglang-server"].replace('"{}"', json.dumps("long " * 300_000))
    assert len(read_log(write(tmp_path, text))) == 4
    assert len(read_log(write(tmp_path, vllm_bench(generated_texts=["x" * 400_000] * 5)))) == 4
    monkeypatch.setattr("instances.logs.records.LONGEST_RECORD", 2**20 + 10)
    assert len(read_log(write(tmp_path, vllm_bench(generated_texts=["x" * 400_000] * 5)))) == 4
    lines = LOGS["sglang-server"].splitlines(keepends=True)
    lines[1] = lines[1].replace('"{}"', json.dumps("long " * 300_000))
    assert "row 2: is longer than 1048586 characters" in refused(write(tmp_path, "".join(lines)))
