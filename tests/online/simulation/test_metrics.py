"""Serving metrics by hand, and against token times counted one round at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

import online
from instances import Instance, Workload
from online import AffineTime
from online.simulation import metrics


def two_requests() -> online.Run:
    """Request 0: tokens at 1, 2, 3. Request 1 waits until 3: tokens at 4, 5."""
    source = Workload([0.0, 0.5], [2, 3], [3, 2], memory_limit=5, batch_time=AffineTime(1.0))
    return online.simulate(source, "fcfs")


def test_a_record_by_hand() -> None:
    record = metrics.summarize(two_requests(), {"ttft": 1.0})
    assert record["requests"] == record["completed"] == 2
    assert record["duration"] == 5.0
    # ttft 1 and 3.5; e2el 3 and 4.5; tpot 1 and 1.
    assert record["mean_ttft"] == record["median_ttft"] == 2.25
    assert record["p90_ttft"] == pytest.approx(1 + 0.9 * 2.5)
    assert record["mean_e2el"] == 3.75
    assert record["p99_tpot"] == record["mean_itl"] == 1.0
    assert record["request_throughput"] == 0.4
    assert record["output_throughput"] == 1.0
    assert record["request_goodput"] == 0.2
    # Tokens held: 3, 4, 5, then 4, 5.
    assert record["mean_memory"] == 21 / 5
    assert record["peak_memory"] == 5
    assert record["mean_batch_size"] == record["peak_batch_size"] == 1
    assert (record["evictions"], record["restarts"], record["rounds"]) == (0, 0, 5)


def test_idle_time_counts_as_empty() -> None:
    source = Workload([1.0, 9.0], [1, 1], [2, 1], memory_limit=9, batch_time=AffineTime(1.0))
    run = online.simulate(source, "fcfs")
    assert run.rounds.number.tolist() == [1, 2, 3]
    assert run.rounds.starts.tolist() == [1.0, 2.0, 9.0]
    assert run.rounds.ends.tolist() == [2.0, 3.0, 10.0]
    assert run.rounds.memory.tolist() == [2, 3, 2]
    assert run.rounds.batch_size.tolist() == [1, 1, 1]
    assert metrics.summarize(run)["mean_memory"] == 7 / 9


def test_one_token_has_no_time_per_token_and_misses_no_objective() -> None:
    source = Workload([0.0], [1], [1], memory_limit=9, batch_time=AffineTime(2.0))
    record = metrics.summarize(online.simulate(source, "fcfs"), {"tpot": 0.1, "e2el": 2.0})
    assert math.isnan(record["mean_tpot"])
    assert math.isnan(record["mean_itl"])
    assert record["request_goodput"] == record["request_throughput"] == 0.5


def test_gaps_between_tokens_with_a_hold_and_an_eviction() -> None:
    """Request 0 is held in the rounds of the prompt of request 1, which is sent back twice."""
    source = Workload([0.0, 0.5], [2, 2], [4, 3], memory_limit=9, batch_time=AffineTime(1.0))
    run = online.simulate(source, "vllm-v0(watermark=0)")
    owners, gaps = run.inter_token_latencies
    assert owners.tolist() == [0, 0, 0, 1, 1]
    assert gaps.tolist() == [2, 1, 2, 1, 1]
    assert run.per_request()["restarts"].tolist() == [0, 2]
    record = metrics.summarize(run)
    assert (record["mean_itl"], record["restarts"]) == (1.4, 2)
    assert record["p99_itl"] == pytest.approx(np.percentile(gaps, 99))


def test_an_incomplete_run_counts_what_completed() -> None:
    run = online.simulate(
        Instance.from_arrays([1, 1], [2, 9], memory_limit=20), "fcfs", max_rounds=4
    )
    record = metrics.summarize(run)
    assert (record["requests"], record["completed"], record["status"]) == (2, 1, "round-limit")
    assert record["mean_e2el"] == 2.0
    # Two tokens in four rounds: the two rounds after the last completion count.
    assert record["duration"] == 4
    assert record["output_throughput"] == 0.5


def test_a_cut_off_run_with_pauses_has_metrics() -> None:
    workload = Workload([0.0, 0.5], [2, 3], [9, 9], memory_limit=40, batch_time=AffineTime(1.0))
    run = online.simulate(workload, "vllm-v0", max_rounds=3)
    assert metrics.summarize(run)["completed"] == 0


def test_data_frames() -> None:
    run = two_requests()
    requests = run.frame()
    assert requests.ttft.tolist() == [1.0, 3.5]
    assert requests.id.tolist() == [0, 1]
