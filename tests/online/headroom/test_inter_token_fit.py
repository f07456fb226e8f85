"""A batch time found again in the inter-token times of runs that took it, and refused elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import instances
import online
from instances import InvalidValueError, RequestLog
from instances.problem.arrival_source import in_seconds
from online import AffineTime, Run
from online.batch_time import Measurements
from online.headroom.batch_times import LEAST_ROWS, fit_doubts, fit_rounds, round_measurements

TIME = AffineTime(0.02, 2e-4, 1e-6)


def run_of(policy: str, rate: float = 40, n: int = 300, time: AffineTime = TIME) -> Run:
    workload = instances.generate("conversations", 3, n=n, rate=rate)
    return online.simulate(in_seconds(workload, time), policy)


def logged(prompts: Any, outputs: Any, first: Any, gaps: Any, means: Any) -> RequestLog:
    """A log of requests that arrive at 0; without gaps it has their means alone."""
    n, counts = len(outputs), (outputs - 1) * bool(len(gaps))
    pieces = np.split(gaps.astype(np.float32), np.cumsum(counts)[:-1])
    return RequestLog(
        source="made",
        format="made",
        arrival_times=np.zeros(n),
        prompt_lengths=prompts,
        output_lengths=outputs,
        latencies=np.full(n, np.nan),
        times_to_first_token=first,
        mean_inter_token_times=np.where(outputs > 1, means, np.nan),
        inter_token_times=np.fromiter(pieces, object, n),
        row_numbers=np.arange(1, n + 1),
        rows=n,
    )


def log_of(run: Run, *, jitter: float = 0.0, means_only: bool = False) -> RequestLog:
    """What a client would have logged, each token late by an exponential time of this mean."""
    owners, gaps = run.inter_token_latencies
    outputs, n = run.problem.output_lengths, len(run.problem.output_lengths)
    late = np.random.default_rng(1).exponential(jitter, int(outputs.sum()))
    begins = np.cumsum(outputs) - outputs
    gaps = np.maximum(0, gaps + np.delete(np.diff(late, prepend=0), begins))
    means = np.bincount(owners, gaps, n) / np.maximum(1, outputs - 1)
    first = run.first_token_times + late[begins]
    return logged(
        run.problem.prompt_lengths, outputs, first, gaps[:0] if means_only else gaps, means
    )


@pytest.mark.parametrize(
    ("policy", "options", "error", "near"),
    [
        # The log's times are float32.
        ("fcfs", {}, 1e-3, 1e-3),
        # What a log does not say is in the error: late tokens, prompts in chunks, means only.
        ("fcfs", {"jitter": 0.001}, 0.05, 0.08),
        ("sarathi", {}, 0.05, 0.08),
        ("fcfs", {"means_only": True}, 0.06, 0.08),
    ],
)
def test_a_batch_time_is_found_again(
    policy: str, options: dict[str, float], error: float, near: float
) -> None:
    log = log_of(run_of(policy, rate=15, n=600), **options)
    found, off = fit_rounds(round_measurements(log))
    doubts = [bool(fit_doubts(log, d0)) for d0 in (0.001, 9)]
    assert (off < error, *doubts) == (True, "means_only" in options, True)
    # What it says of a round of the log, whatever the coefficients.
    said, true = (one.d0 + one.d1 * 20 + one.d2 * 2000 for one in (found, TIME))
    assert said == pytest.approx(true, rel=near)
    if not options and policy == "fcfs":
        assert (found.d0, found.d1, found.d2) == pytest.approx((0.02, 2e-4, 1e-6), rel=near)


def test_the_rounds_of_two_requests_by_hand() -> None:
    """The second begins while the first runs; its prompt makes a round long."""
    lengths, first = (np.array([5, 7]), np.array([4, 2])), np.array([1.0, 3.0])
    gaps = np.array([1.0, 1.0, 2.0, 2.0])
    found = round_measurements(logged(*lengths, first, gaps, np.nan))
    # One row a request: (1, 8 and 1 + 1) tokens in (1, 1, 2) s; and (1 + 1) tokens in 2 s.
    assert found.seconds.tolist() == [4 / 3, 2.0]
    assert found.tokens.tolist() == [(1 + 8 + 2) / 3, 2.0]
    assert found.kv_tokens.tolist() == [(7 + (8 + 8) + (9 + 9)) / 3, 18.0]


def rounds(count: int = 200, seed: int = 0, spread: float = 0.0) -> Measurements:
    """Rounds of random tokens, whose seconds are off by a factor of mean 1."""
    rng = np.random.default_rng(seed)
    tokens, resident = rng.integers(1, 300, count) * 1.0, rng.integers(1, 9000, count) * 1.0
    noise = np.random.default_rng([1, seed]).gamma(1 / spread**2, spread**2, count) if spread else 1
    return Measurements(tokens, resident, (0.02 + 2e-4 * tokens + 1e-6 * resident) * noise)


ROUNDS = rounds()
USELESS = [
    (rounds(spread=0.6), "in the mean, more than 25 %"),
    (rounds(3), f"has 3 rounds, and a fit needs {LEAST_ROWS}"),
    (replace(ROUNDS, tokens=np.full(200, 7.0)), "hardly vary, or rise together"),
    (replace(ROUNDS, kv_tokens=ROUNDS.tokens * 30), "hardly vary, or rise together"),
    (replace(ROUNDS, seconds=0.2 - 4e-4 * ROUNDS.tokens), "of 0.2 s, -0.0004 s, "),
]


@pytest.mark.parametrize(("given", "reason"), USELESS)
def test_a_useless_fit_is_refused(given: Measurements, reason: str) -> None:
    with pytest.raises(InvalidValueError, match="give --batch-time a preset") as error:
        fit_rounds(given, source="rounds.csv")
    assert reason in str(error.value)
    assert str(error.value).startswith("--batch-time = 'rounds.csv' ")


@pytest.mark.parametrize("policy", ["fcfs", "vllm"])
def test_late_tokens_of_a_round_are_not_counted_as_a_round(policy: str) -> None:
    """Tokens that come out up to half a round late move mean latency by less than two per cent."""
    run = run_of(policy, rate=25, n=400)
    found, _ = fit_rounds(round_measurements(log_of(run, jitter=0.003)))
    again = run_of(policy, rate=25, n=400, time=found)
    assert again.latencies.mean() == pytest.approx(run.latencies.mean(), rel=0.02)


def test_a_fit_does_not_favour_rounds_that_were_short() -> None:
    """Weights of 1 / measured seconds would make them short by the noise's variance, 4 %."""
    shares = []
    for one in (rounds(400, seed, 0.2) for seed in range(10)):
        time = fit_rounds(one)[0]
        predicted = time.d0 + time.d1 * one.tokens + time.d2 * one.kv_tokens
        shares.append(predicted.sum() / one.seconds.sum())
    assert np.mean(shares) == pytest.approx(1, abs=0.005)


def test_a_log_without_times_between_tokens_is_no_fit() -> None:
    log = log_of(run_of("fcfs", n=40), means_only=True)
    log.mean_inter_token_times[:] = np.nan
    with pytest.raises(InvalidValueError, match=r"of every request, and \d+ of 40 have none"):
        round_measurements(log)


def test_the_mean_is_that_of_tokens_where_chunks_have_several(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    given = {"request_rate": "inf", "start_times": [0.0, 1.0], "errors": ["", ""]}
    lengths = {"input_lens": [5, 5], "output_lens": [5, 3]}
    # Four tokens in two chunks after the first, and two one by one.
    times = {"ttfts": [0.1, 0.1], "itls": [[0.2, 0.2], [0.05, 0.15]]}
    path.write_text(json.dumps(given | lengths | times))
    log = instances.read_log(path)
    assert log.mean_inter_token_times == pytest.approx([0.1, 0.1])
    assert log.latencies == pytest.approx([0.5, 0.3])
