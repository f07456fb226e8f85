from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from instances.batch_time import BatchStretch
from instances.batch_time.models import IterationTime
from online.fluid.nested_design import group
from studies.reproduction.a25.machine import D0, D1, MEMORY_LIMIT, Roofline
from studies.reproduction.a25.nested_figures import TEN_LENGTHS, filling, scaled
from studies.reproduction.a25.serving import (
    Point,
    Scheduler,
    Served,
    Traffic,
    Trial,
    compare,
    conversations,
    window_throughput,
)
from studies.reproduction.a25.verdicts import (
    ahead,
    batches,
    best_leads,
    faster,
    latencies,
    leads,
    modestly_slower,
)


def served(label: str, rate: float, throughput: float, latency: float, seed: int = 0) -> Served:
    trial = Trial(Traffic((), rate, 10, seed), Scheduler(label, "fcfs"))
    return Served(trial, 100.0, throughput, latency, latency, 0, 1.0, ())


def test_the_machine_is_that_of_the_data_sheets() -> None:
    """[A25] Section 6."""
    # 13.48 GB at 2,039 GB/s, half a megabyte a token, 58.45 GiB left of 72.
    assert pytest.approx(6.61e-3, rel=1e-3) == D0
    assert pytest.approx(2**19 / 2.039e12) == D1
    assert MEMORY_LIMIT == (72 * 2**30 - 13_476_831_232) // 2**19 == 121_750


def test_the_roofline_is_the_slower_of_memory_and_arithmetic() -> None:
    # 2 requests decode, 1 brings a prompt of 50: 52 tokens, then 3 a round; 10 resident are held.
    stretch = BatchStretch(
        rounds=3, requests=3, new_prompt_tokens=50, new_requests=1, memory=110, growth=3,
        held_memory=10,
    )  # fmt: skip
    time = Roofline(IterationTime(1.0, 0.01), token_seconds=0.1)
    assert time.durations(stretch).tolist() == pytest.approx([5.2, 2.03, 2.06])
    assert Roofline(IterationTime(1.0), 0.5).durations(stretch).tolist() == [26.0, 1.5, 1.5]


def test_throughput_counts_completions_in_the_middle_of_the_run() -> None:
    # From 10 to 20: completions at 12 (its left end) and 18.5 are outside of (12, 18].
    arrivals = np.array([10.0, 10.0, 10.0, 11.0, 11.0])
    completions = np.array([12.0, 13.0, 18.0, 18.5, 20.0])
    tokens = np.array([1, 10, 100, 1000, 10_000])
    assert window_throughput(arrivals, completions, tokens) == pytest.approx(110 / 6)


def test_a_comparison_takes_means_over_seeds_and_each_baseline() -> None:
    runs = [
        served("WAIT", 5, 90, 2.0, 0),
        served("WAIT", 5, 110, 4.0, 1),
        served("vLLM", 5, 80, 1.0),
        served("Sarathi", 5, 125, 5.0),
        served("FCFS, no cap", 5, 1000, 0.1),
        served("WAIT", 2, 50, 1.0),
        served("vLLM", 2, 97, 1.0),
        served("Sarathi", 2, 50, 2.0),
        served("FCFS, no cap", 2, 50, 2.0),
    ]
    low, high = compare(runs, "WAIT")
    assert (low.rate, high.rate) == (2, 5)
    assert high.leads == pytest.approx((0.25, -0.2))
    assert high.lead == pytest.approx(-0.2)
    assert high.latency == 3.0
    assert high.baseline_latencies == (1.0, 5.0)
    assert high.keeps_up
    assert not low.keeps_up
    (_, other) = compare(runs, "WAIT", ["FCFS, no cap"])
    assert other.leads == pytest.approx((-0.9,))


def test_a_point_is_judged_by_its_worse_lead_and_the_faster_baseline() -> None:
    better = Point(5, (0.5, 0.011), 1.0, (3.0, 1.1), True)
    worse = Point(5, (0.5, 0.009), 2.1, (3.0, 1.0), False)
    assert (ahead(better), faster(better), modestly_slower(better)) == (True, True, True)
    assert (ahead(worse), faster(worse), modestly_slower(worse)) == (False, False, False)
    assert modestly_slower(Point(5, (0.0, 0.0), 2.0, (3.0, 1.0), True))


def test_the_sentences_name_rates_and_baselines() -> None:
    points = [
        Point(5, (0.5, -0.01), 1.0, (3.0, 1.1), True),
        Point(7, (0.25, 0.02), 2.0, (3.5, 1.5), False),
        Point(9, (0.125, 0.04), 4.0, (5.0, 1.75), False),
    ]
    assert leads(points) == (
        "where they keep up (5 a second) +50.0 % to vLLM and -1.0 % to Sarathi, "
        "beyond their capacity (7 to 9 a second) +12.5 to +25.0 % to vLLM "
        "and +2.0 to +4.0 % to Sarathi"
    )
    assert latencies(points) == (
        "1.00 s at 5 a second (vLLM 3.00, Sarathi 1.10), "
        "4.00 s at 9 a second (vLLM 5.00, Sarathi 1.75)"
    )


def test_the_best_lead_is_over_both_baselines() -> None:
    points = [
        Point(5, (0.5, -0.01), 1.0, (3.0, 1.1), True),
        Point(7, (0.02, 0.3), 2.0, (4, 5), True),
    ]
    assert best_leads([("otherwise", points), ("once", points[:1])]) == (
        "Largest lead over both: otherwise +2.0 % at 7 a second, 2.00 s against 4.00 s; "
        "once -1.0 % at 5 a second, 1.00 s against 1.10 s"
    )
    beyond = Point(9, (-0.5, 0.1), 6.0, (7.0, 8.0), False)
    assert best_leads([("overloaded", [*points, beyond])]) == (
        "Largest lead over both: overloaded -50.0 % at 9 a second, 6.00 s against 7.00 s"
    )


def test_batches_are_those_of_the_highest_rate() -> None:
    runs = [
        replace(served(label, rate, 1, 1), mean_batch=rate * size)
        for label, size in (("WAIT", 3), ("vLLM", 2), ("Sarathi", 4))
        for rate in (5, 9)
    ]
    assert batches(runs, "WAIT") == "mean batch at 9 a second: WAIT 27, vLLM 18, Sarathi 36"


def test_filled_memory_takes_as_many_prompts_as_fit_in_the_mean() -> None:
    # 28,506 tokens a prompt over its stages, in the mean: four fit in 121,750, five do not.
    shares = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1)
    tokens = sum(
        share * sum(60 + stage for stage in range(50 * k + 1)) for k, share in enumerate(shares, 1)
    ) / sum(shares)
    assert 4 * tokens <= MEMORY_LIMIT < 5 * tokens
    thresholds = filling(group(TEN_LENGTHS), TEN_LENGTHS)
    assert thresholds[0] == 4
    assert list(thresholds) == sorted(thresholds, reverse=True)


def test_printed_thresholds_are_scaled_to_the_cap() -> None:
    """[A25] Section 6.2."""
    printed, stages = (15, 14, 12, 8), (21, 20, 40, 80)
    assert scaled(printed, stages, 1715) == printed
    assert scaled(printed, stages, 1714) == (14, 13, 11, 7)
    assert scaled(printed, stages, 3) == (1, 1, 1, 1)


def test_conversations_have_outputs_of_at_most_500() -> None:
    prompts, outputs = conversations(3000, 4)
    assert len(prompts) == len(outputs) == 3000
    assert 450 < outputs.max() <= 500
