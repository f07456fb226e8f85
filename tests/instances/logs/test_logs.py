"""Logs of every tool: the same requests and measurements from each, told apart by content."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from log_files import FAILED_AT, LOGS, REQUESTS, guidellm_report, openai_usage, sglang_bench
from trace_files import read, write

from instances import FileFormatError, load, read_log, read_workload, save

KEPT = sorted((one for k, one in enumerate(REQUESTS) if k != FAILED_AT), key=lambda one: one.start)
every_log = pytest.mark.parametrize("kind", LOGS)


def name_of(kind: str) -> str:
    return kind.partition(" ")[0].rstrip(",")


@every_log
def test_every_log_gives_the_same_requests(tmp_path: Path, kind: str) -> None:
    log = read_log(write(tmp_path, LOGS[kind]))
    assert log.format == name_of(kind)
    assert log.arrival_times.tolist() == [one.start for one in KEPT]
    assert log.prompt_lengths.tolist() == [one.prompt for one in KEPT]
    assert log.output_lengths.tolist() == [one.output for one in KEPT]
    # 0.5 comes before 0; GuideLLM writes failed requests apart, the others in the order of ends.
    assert (log.rows, log.failed, log.out_of_order, log.dropped_empty) == (5, 1, 1, 0)
    assert "4 of 5 requests kept (1 failed)" in str(log)
    assert "sorted, 1 out of order" in str(log)


@every_log
def test_what_a_log_measured_is_kept(tmp_path: Path, kind: str) -> None:
    log = read_log(write(tmp_path, LOGS[kind]))
    if name_of(kind) == "openai-usage":
        assert np.isnan(log.latencies).all()
        return
    np.testing.assert_allclose(log.latencies, [one.latency for one in KEPT], atol=1e-9)
    np.testing.assert_allclose(log.times_to_first_token, [one.first for one in KEPT], atol=1e-9)
    means = [sum(one.between) / len(one.between) if one.between else np.nan for one in KEPT]
    np.testing.assert_allclose(log.mean_inter_token_times, means, atol=1e-9)
    has_lists = name_of(kind) in ("vllm-bench", "aiperf", "inference-perf")
    for k, one in enumerate(KEPT):
        start, end = log.inter_token_offsets[k : k + 2]
        expected = one.between if has_lists else ()
        assert log.inter_token_times[start:end].tolist() == pytest.approx(expected)


@every_log
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
def test_packings_and_line_ends(tmp_path: Path, kind: str, change) -> None:
    path = tmp_path / "log"
    path.write_bytes(change(LOGS[kind]))
    found, plain = read_log(path), read_log(write(tmp_path, LOGS[kind], "plain"))
    assert found.prompt_lengths.tolist() == plain.prompt_lengths.tolist()
    assert found.latencies.tolist() == pytest.approx(plain.latencies.tolist(), nan_ok=True)


@every_log
def test_commands_take_logs_as_traces(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, LOGS[kind])
    instance, report = read(path, round_seconds=0.25)
    assert instance.arrival_times.tolist() == [0, 2, 5, 12]
    assert instance.output_lengths.tolist() == [one.output for one in KEPT]
    assert (report.rows_in_window, report.failed, report.out_of_order) == (4, 1, 1)
    assert "1 failed" in str(report)
    workload, _ = read_workload(path, memory_limit=2000)
    log = read_log(path)
    assert workload.arrival_times.tolist() == log.arrival_times.tolist()
    assert workload.ids == tuple(log.ids)
    with pytest.raises(FileFormatError, match="sort=True"):
        read(path, sort=False)


@every_log
def test_the_format_can_be_named(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, LOGS[kind])
    assert len(read_log(path, format=name_of(kind))) == 4
    for other in ("aiperf", "guidellm", "mooncake", "azure", "vllm-bench", "sglang-server"):
        if other != name_of(kind):
            with pytest.raises(FileFormatError):
                read_log(path, format=other)


def test_a_run_without_start_times_arrives_at_its_rate_or_at_once(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, sglang_bench(rate=2.0)))
    assert log.format == "sglang-bench"
    # The third of five failed, and was sent all the same.
    assert log.arrival_times.tolist() == [0.0, 0.5, 1.5, 2.0]
    assert log.latencies.tolist() == [one.latency for k, one in enumerate(REQUESTS) if k != 2]
    assert "no start times: arrivals even at the run's 2 requests a second" in str(log)
    for rate in ("inf", float("inf"), None):
        log = read_log(write(tmp_path, sglang_bench(rate=rate)))
        assert log.arrival_times.tolist() == [0.0] * 4
        assert not log.has_arrival_times
        assert "no arrival times, all at second 0" in str(log)
    instance, report = read(write(tmp_path, sglang_bench(rate=2.0)))
    save(instance, tmp_path / "x.json")
    assert load(tmp_path / "x.json") == instance
    assert "arrivals even at the run's 2 requests a second" in str(report)


def test_several_benchmarks_of_one_clock_are_one_log(tmp_path: Path) -> None:
    report = guidellm_report()
    report["benchmarks"] *= 2
    log = read_log(write(tmp_path, json.dumps(report)))
    assert (len(log), log.failed) == (8, 2)


def test_times_between_tokens_are_bounded_and_their_means_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instances.logs.reading.MOST_INTER_TOKEN_TIMES", 3)
    log = read_log(write(tmp_path, LOGS["vllm-bench"]))
    assert log.inter_token_times_are_cut
    assert log.inter_token_offsets.tolist() == [0, 2, 2, 3, 3]
    assert log.mean_inter_token_times[3] == pytest.approx(0.625 / 3)
    assert "times between tokens held" in str(log)


def test_the_first_requests_may_all_have_failed(tmp_path: Path) -> None:
    failed = '{"id": "x", "error": {"message": "overloaded"}}\n'
    log = read_log(write(tmp_path, failed * 50 + openai_usage()))
    assert (len(log), log.failed) == (4, 51)


@pytest.mark.parametrize(
    "start",
    [
        lambda one: 1_700_000_000 + one.start,
        lambda one: round((1_700_000_000 + one.start) * 10**3),
        lambda one: round((1_700_000_000 + one.start) * 10**6),
        lambda one: round(1_700_000_000 + one.start * 0) * 10**9 + round(one.start * 10**9),
        lambda one: f"2026-01-02T03:04:{5 + one.start:06.3f}Z",
        lambda one: f"2026-01-02 05:04:{5 + one.start:06.3f}+0200",
        lambda one: f"2026-01-02 05:04:{5 + one.start:06.3f}+02",
        lambda one: f"2026-01-02T03:04:{5 + one.start:06.3f}".replace(".", ",") + " UTC",
    ],
    ids=["s", "ms", "us", "ns", "Z", "+0200", "+02", "UTC"],
)
def test_units_of_time_stamps(tmp_path: Path, start) -> None:
    log = read_log(write(tmp_path, openai_usage(start)))
    assert log.arrival_times.tolist() == [0.0, 0.5, 1.25, 3.0]


def test_records_that_go_on_over_lines_can_be_mapped(tmp_path: Path) -> None:
    text = '{\n "at": 1,\n "in": 5,\n "out": 2\n}\n{\n "at": 3,\n "in": 6,\n "out": 2\n}\n'
    named = {"arrival": "at", "prompt": "in", "output": "out"}
    assert read_log(write(tmp_path, text), columns=named).arrival_times.tolist() == [0.0, 2.0]
    text = '[{"at": 3, "in": 6, "out": 2}, {"at": 1, "in": 5, "out": 2}]'
    assert read_log(write(tmp_path, text), columns=named).prompt_lengths.tolist() == [5, 6]


MEASURED = {
    "arrival": "t",
    "prompt": "p",
    "output": "o",
    "latency-ms": "e2e",
    "time_to_first_token": "ttft",
    "inter_token_time_ms": "tpot",
    "error": "error",
}
MEASURED_ROWS = (
    (0, 5, 3, 1500, 0.5, 250, ""),
    (2, 6, 0, 0, 0, 0, "late"),
    (1, 7, 2, 1000, 0.25, "", 0),
    (3, 8, 2, "", "", "", False),
)


def test_measurements_and_failures_in_columns_of_any_name(tmp_path: Path) -> None:
    table = "t,p,o,e2e,ttft,tpot,error\n"
    table += "".join(",".join(map(str, row)) + "\n" for row in MEASURED_ROWS)
    names = ("t", "p", "o", "e2e", "ttft", "tpot", "error")
    lines = "".join(
        json.dumps(
            {name: None if cell == "" else cell for name, cell in zip(names, row, strict=True)}
        )
        + "\n"
        for row in MEASURED_ROWS
    )
    for text in (table, lines):
        log = read_log(write(tmp_path, text), columns=MEASURED)
        assert log.prompt_lengths.tolist() == [5, 7, 8]
        assert (log.failed, log.out_of_order) == (1, 0)
        np.testing.assert_allclose(log.latencies, [1.5, 1.0, np.nan])
        np.testing.assert_allclose(log.times_to_first_token, [0.5, 0.25, np.nan])
        # Where only the mean is missing it is (1.0 - 0.25) s over one gap.
        np.testing.assert_allclose(log.mean_inter_token_times, [0.25, 0.75, np.nan])


def test_inference_perf_counts_a_prompt_where_its_metrics_do(tmp_path: Path) -> None:
    records = json.loads(LOGS["inference-perf"])
    for record in records:
        record["info"]["input_tokens"] += 1
    log = read_log(write(tmp_path, json.dumps(records)))
    assert log.prompt_lengths.tolist() == [one.prompt for one in KEPT]
