"""Every policy in continuous time; the table of [J25]."""

from __future__ import annotations

import numpy as np
import pytest

import online
from instances import Instance
from instances.generators.synthetic_traces import conversation_lengths
from studies.reproduction.j25.serving import PAPER_LINES
from studies.reproduction.j25.table_1 import latency_table


def test_rounds_of_one_second_are_the_round_model_up_to_idle_time() -> None:
    """All at once nothing idles: the clock and the round index agree."""
    rng = np.random.default_rng(2)
    prompts, outputs = rng.integers(1, 9, 30), rng.integers(1, 17, 30)
    source = Instance.from_arrays(prompts, outputs, memory_limit=50)
    for name in ("mc-sf", "mc-benchmark", "sorted-f-swap", "sarathi", "vllm-v0"):
        timed = online.simulate(source, name, batch_time=online.UnitTime())
        rounds = online.simulate(source, name)
        assert timed.completion_times.tolist() == rounds.completion_rounds.tolist()


def test_synthetic_conversations_have_the_published_means_and_medians() -> None:
    prompts, outputs = conversation_lengths(np.random.default_rng(0), 200_000)
    assert np.median(prompts) == 11
    assert np.median(outputs) == 45
    # Cutting at 2048 takes about a token from either mean.
    assert prompts.mean() == pytest.approx(40.62, abs=1.5)
    assert outputs.mean() == pytest.approx(85.32, abs=1.5)


def test_the_order_of_the_papers_table_on_few_seeds() -> None:
    results = list(latency_table(requests=400, seeds=2, lines=PAPER_LINES[:3]))
    assert [result.failed for result in results] == [0, 0, 0]
    first, second, third = (result.average for result in results)
    assert first < second < third
    assert results[0].smallest <= first <= results[0].largest
