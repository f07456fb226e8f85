"""Every format: the same requests from each, whatever packs them, and each fault by its row."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log_files import (
    LOGS,
    REQUESTS,
    TRACES,
    aiperf,
    dynamo,
    guidellm_report,
    lines,
    openai_usage,
    sglang_bench,
    sglang_server,
    spans,
    vllm_bench,
)
from trace_files import read, write

from instances import FileFormatError, read_log, read_trace, read_workload
from instances.logs import FORMATS
from instances.logs.formats import DURATIONS, STAMPS

KEPT = sorted(one for one in REQUESTS if one.output)
EVERY = {**LOGS, **TRACES}
every_format = pytest.mark.parametrize("kind", EVERY)


def name_of(kind: str) -> str:
    return kind.partition(" ")[0].rstrip(",")


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(FileFormatError) as caught:
        read_log(path, **options)
    return str(caught.value)


# --- good files ---------------------------------------------------------------------------------


def test_every_format_has_a_sample_and_a_row_on_its_page() -> None:
    # Without start times, and in test_field_logs.py.
    elsewhere = {"sglang-bench", "qwen-bailian"}
    assert {*map(name_of, EVERY)} | elsewhere == {*FORMATS}
    page = (Path(__file__).parents[3] / "docs/instances.md").read_text("utf-8")
    rows = "".join(re.findall(r"^\| `.*?\|", page, re.MULTILINE))
    assert [name for name in FORMATS if f"`{name}`" not in rows] == []


@every_format
def test_every_format_gives_the_same_requests(tmp_path: Path, kind: str) -> None:
    log = read_log(write(tmp_path, EVERY[kind]))
    assert log.format == name_of(kind)
    assert log.arrival_times.tolist() == [one.start for one in KEPT]
    assert log.prompt_lengths.tolist() == [one.prompt for one in KEPT]
    assert log.output_lengths.tolist() == [one.output for one in KEPT]
    is_trace = kind in TRACES
    # 0.5 comes before 0; GuideLLM writes failed requests apart, the others in the order of ends.
    assert (log.rows, log.out_of_order) == (5, 0 if is_trace else 1)
    assert log.left_out == {"empty" if is_trace else "failed": 1}
    assert f"4 of 5 requests kept (1 {'empty' if is_trace else 'failed'})" in str(log)
    assert ("sorted, 1 out of order" in str(log)) != is_trace


@every_format
def test_what_a_log_measured_is_kept(tmp_path: Path, kind: str) -> None:
    log, columns = read_log(write(tmp_path, EVERY[kind])), FORMATS[name_of(kind)].columns
    if not (DURATIONS.keys() | STAMPS) & columns.keys():
        assert np.isnan(log.latencies).all()
        return
    np.testing.assert_allclose(log.latencies, [one.latency for one in KEPT], atol=1e-9)
    np.testing.assert_allclose(log.times_to_first_token, [one.first for one in KEPT], atol=1e-9)
    means = [sum(one.between) / len(one.between) if one.between else np.nan for one in KEPT]
    np.testing.assert_allclose(log.mean_inter_token_times, means, atol=1e-9)
    for k, one in enumerate(KEPT):
        expected = one.between if "inter_token_times" in columns else ()
        assert log.inter_token_times[k].tolist() == pytest.approx(expected)


@every_format
@pytest.mark.parametrize(
    "change",
    [
        lambda text: gzip.compress(text.encode()),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\n\n" + text.encode() + b"\n",
    ],
    ids=["gzip", "byte order mark", "CRLF", "blank lines"],
)
def test_packings_and_line_ends(tmp_path: Path, kind: str, change: Callable[[str], bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(change(EVERY[kind]))
    found, plain = read_log(path), read_log(write(tmp_path, EVERY[kind], "plain"))
    assert found.prompt_lengths.tolist() == plain.prompt_lengths.tolist()
    assert found.latencies.tolist() == pytest.approx(plain.latencies.tolist(), nan_ok=True)
    is_by_line = not re.match(r"vllm|guide|infer|trt|otlp", kind)
    is_later = path.read_bytes()[:1] == b"\n" and is_by_line
    assert (found.row_numbers - plain.row_numbers).tolist() == [2 * is_later] * 4


@every_format
def test_windows_of_every_format(tmp_path: Path, kind: str) -> None:
    path, is_trace = write(tmp_path, EVERY[kind]), kind in TRACES
    instance, report = read(path, round_seconds=0.25)
    assert instance.arrival_times.tolist() == [0, 2, 5, 12]
    assert instance.output_lengths.tolist() == [one.output for one in KEPT]
    assert (report.rows_in_window, report.out_of_order) == (4 + is_trace, 1 - is_trace)
    assert ("1 failed" in str(report)) != is_trace
    workload, _ = read_workload(path, memory_limit=2000)
    assert workload.arrival_times.tolist() == [one.start for one in KEPT]
    assert workload.ids == instance.ids == tuple(read_log(path).ids)


# --- bad files ----------------------------------------------------------------------------------


@every_format
def test_the_format_can_be_named(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, EVERY[kind])
    assert len(read_log(path, format=name_of(kind))) == 4
    for other in {*FORMATS} - {name_of(kind), "sglang-bench"}:
        assert "is missing" in refused(path, format=other)


# The row of the prompt of 879 tokens. GuideLLM has the failed one last; spans begin with another.
ROWS = dict.fromkeys(LOGS, 4) | {"guidellm": 3, "otlp": 5, "otlp, one a line": 6, "dynamo": 5}
ROWS |= dict.fromkeys(("azure", "azure with zones", "vidur", "mooncake"), 4) | {"mooncake": 3}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(
    "bad", ["-879", "879.5", "true", '{"a": 1}', '"many"', "null", "9" * 23, "1e400", "NaN"]
)
def test_a_prompt_that_is_no_count(tmp_path: Path, kind: str, bad: str) -> None:
    text = EVERY[kind]
    if kind.startswith("otlp"):
        text = re.sub(r'"intValue": ?"879"', f'"intValue": {bad}', text)
    else:
        text = text.replace("879", bad)
    assert text != EVERY[kind]
    path = write(tmp_path, text)
    message = refused(path)
    assert f"row {ROWS[kind]}: {FORMATS[name_of(kind)].columns['prompt'][0]} " in message
    assert "is not a whole number from 0 to 2147483647" in message or bad == "null"
    good, log = read_log(write(tmp_path, EVERY[kind], "good")), read_log(path, bad_rows="skip")
    assert (log.rows, log.left_out) == (good.rows, good.left_out | {"skipped": 1})
    rest = good.select(good.prompt_lengths != 879)
    assert (len(rest), log.ids) == (len(good) - 1, rest.ids)
    for name in ("prompt_lengths", "output_lengths", "arrival_times", "latencies"):
        np.testing.assert_array_equal(getattr(log, name), getattr(rest, name))
    for ours, other in zip(log.inter_token_times, rest.inter_token_times, strict=True):
        np.testing.assert_array_equal(ours, other)


# --- what single formats have -------------------------------------------------------------------


def test_a_run_without_start_times_arrives_at_its_rate_or_at_once(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, sglang_bench(rate=2.0)))
    assert log.format == "sglang-bench"
    # The third of five failed, and was sent all the same.
    assert log.arrival_times.tolist() == [0.0, 0.5, 1.5, 2.0]
    assert log.latencies.tolist() == [one.latency for one in REQUESTS if one.output]
    assert "no start times: arrivals even at the run's 2 requests a second" in str(log)
    for rate in ("inf", float("inf"), None):
        log = read_log(write(tmp_path, sglang_bench(rate=rate)))
        assert log.arrival_times.tolist() == [0.0] * 4
        assert not log.has_arrival_times
        assert "no arrival times, all requests at 0" in str(log)
    _, report = read(write(tmp_path, sglang_bench(rate=2.0)))
    assert "arrivals even at the run's 2 requests a second" in str(report)


def test_several_benchmarks_of_one_clock_and_failures_first(tmp_path: Path) -> None:
    report = guidellm_report()
    report["benchmarks"] *= 2
    failed = '{"id": "x", "error": {"message": "overloaded"}}\n'
    for text, kept, count in ((json.dumps(report), 8, 2), (failed * 50 + openai_usage(), 4, 51)):
        log = read_log(write(tmp_path, text))
        assert (len(log), log.left_out) == (kept, {"failed": count})


def test_an_end_counts_where_no_latency_was_measured(tmp_path: Path) -> None:
    records = [json.loads(line) for line in aiperf().splitlines()]
    for record in records:
        record["metrics"].pop("request_latency", None)
    log = read_log(write(tmp_path, lines(records)))
    assert log.latencies.tolist() == [one.latency for one in KEPT]
    records[0]["metadata"]["request_end_ns"] = 10**400
    assert "row 1: metadata.request_end_ns 1000" in refused(write(tmp_path, lines(records)))


def test_a_first_token_after_the_last_says_nothing_of_those_between(tmp_path: Path) -> None:
    records = [json.loads(line) for line in sglang_server().splitlines()]
    records[1]["first_token_latency"] = 2 * records[1]["e2e_latency"]
    means = read_log(write(tmp_path, lines(records))).mean_inter_token_times.tolist()
    assert np.isnan(means[0])
    assert means[2:] == [0.03125, 0.625 / 3]


def test_long_prompts_are_no_reason_to_refuse_a_record(tmp_path: Path) -> None:
    text = LOGS["sglang-server"].replace('"{}"', json.dumps("long " * 300_000))
    assert len(read_log(write(tmp_path, text))) == 4
    assert len(read_log(write(tmp_path, vllm_bench(generated_texts=["x" * 4_000_000] * 5)))) == 4
    for long in ("x" * 200_000, f'"{"x, " * 50_000}"'):
        table = write(
            tmp_path, f"arrived_at,num_prefill_tokens,num_decode_tokens,x\n0,9,2,{long}\n"
        )
        assert len(read_log(table)) == 1


def test_a_file_of_lengths_has_all_at_round_0(tmp_path: Path) -> None:
    text = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
    instance, report = read(write(tmp_path, text + "3772,54,3826,69.8\n1,9,10,0.1\n5,0,5,0\n"))
    assert instance.arrival_times.tolist() == [0]
    assert (report.dropped_too_long, report.dropped_empty) == (1, 1)
    assert not report.has_arrival_times
    assert "no arrival times" in str(report)


# --- logs of several replicas -------------------------------------------------------------------


def test_dynamo_names_the_worker_that_decoded(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, dynamo()))
    first, second = str(2**63), f"{2**63 + 1}:3"
    assert log.workers is not None
    assert log.workers.tolist() == [second, first, second, first]
    part = log.select(log.workers == second)
    assert part.prompt_lengths.tolist() == [374, 879]
    bare = lines(json.loads(line)["event"] for line in dynamo().splitlines())
    assert read_log(write(tmp_path, bare)).workers.tolist() == log.workers.tolist()


def test_a_named_column_is_the_worker(tmp_path: Path) -> None:
    path = write(tmp_path, "t,p,o,pod\n3,5,1,b\n1,6,2,a \n2,7,3,\n")
    columns = {"arrival": "t", "prompt": "p", "output": "o"}
    log = read_log(path, columns={**columns, "worker": "pod"})
    assert log.workers.tolist() == ["a", None, "b"]
    assert "; 2 workers named" in str(log)
    assert read_log(path, columns=columns).workers is None


def test_the_worker_alone_leaves_the_format_to_the_file(tmp_path: Path) -> None:
    text = lines(
        {**json.loads(line), "pod": {"name": f"w{k}"}}
        for k, line in enumerate(aiperf().splitlines())
    )
    path, worker = write(tmp_path, text), {"worker": "pod.name"}
    assert read_log(path).workers is None
    for kind in (None, "aiperf"):
        log = read_log(path, format=kind, columns=worker)
        assert (log.format, log.workers.tolist()) == ("aiperf", ["w1", "w0", "w3", "w4"])
    assert read_trace(path, memory_limit=2000, columns=worker)[1].columns == worker
    table = "TIMESTAMP,ContextTokens,GeneratedTokens,node\n2023-11-16 18:15:46.68,374,44,n7\n"
    log = read_log(write(tmp_path, table), columns={"worker": "node"})
    assert (log.format, log.workers.tolist()) == ("azure", ["n7"])


def test_spans_name_their_instance(tmp_path: Path) -> None:
    def resource(key: str, value: str) -> dict[str, Any]:
        return {"attributes": [{"key": key, "value": {"stringValue": value}}]}

    first, second, third = (spans(REQUESTS[k : k + 1])["resourceSpans"][0] for k in (0, 1, 3))
    first["resource"] = resource("service.instance.id", "pod-a")
    first["resource"]["attributes"] += resource("host.name", "other")["attributes"]
    second["resource"] = resource("k8s.pod.name", "pod-b")
    third["resource"] = resource("region", "north")
    # What a span says of itself goes before its resource.
    third["scopeSpans"][0]["spans"][1]["attributes"] += resource("host.name", "c")["attributes"]
    path = write(tmp_path, json.dumps({"resourceSpans": [first, second, third]}))
    assert read_log(path).workers.tolist() == ["pod-b", "pod-a", "c"]
    named = read_log(path, columns={"worker": "region"})
    assert named.workers.tolist() == [None, None, "north"]


def test_inference_perf_counts_a_prompt_where_its_metrics_do(tmp_path: Path) -> None:
    records = json.loads(LOGS["inference-perf"])
    for record in records:
        record["info"]["input_tokens"] += 1
    log = read_log(write(tmp_path, json.dumps(records)))
    assert log.prompt_lengths.tolist() == [one.prompt for one in KEPT]
