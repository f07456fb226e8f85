"""Edges of continuous time that a round-by-round reading decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import online
from instances import Instance, InvalidTypeError, InvalidValueError, MemoryRule, Workload
from instances.batch_time import LLAMA_2_70B_2XA100
from online import Decision
from online.batch_time import AffineTime, UnitTime
from online.comparison import compare_many
from online.fluid import PromptType, decay_rate, group, nested_thresholds, token_load
from online.policy_interface import State
from online.simulation import summarize


class AskedEveryRound(type(online.make_policy("mc-sf"))):  # type: ignore[misc]
    """MC-SF, asked again after every round: the clock must not notice."""

    def decide(self, state: State) -> Decision:
        decision = super().decide(state)
        return Decision(start=decision.start, wake=state.round_index + 1)


def test_the_clock_does_not_depend_on_where_stretches_are_cut() -> None:
    """0.7 + 3 * 0.1 is 1.0 or just below it, by the order of the additions."""
    workload = Workload([0.7, 1.0], [1, 1], [10, 1], memory_limit=50)
    ends = [
        online.simulate(workload, policy, batch_time=AffineTime(0.1)).completion_times.tolist()
        for policy in ("mc-sf", AskedEveryRound())
    ]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("batch_time", ["llama-2-70b-2xa100", LLAMA_2_70B_2XA100, UnitTime])
def test_what_is_no_batch_time_is_refused_with_where_there_are_some(batch_time: Any) -> None:
    workload = Workload([0.0], [2], [9], memory_limit=40)
    with pytest.raises(InvalidTypeError, match=r"preset\(name\)\.batch_time"):
        online.simulate(workload, "mc-sf", batch_time=batch_time)


@pytest.mark.parametrize(
    "door",
    [
        lambda work: online.simulate(work, "vllm"),
        lambda work: online.compare(work, "vllm"),
        lambda work: compare_many([work.under(MemoryRule()), work], "vllm"),
    ],
)
def test_seconds_are_not_taken_for_rounds(door: Callable[[Workload], Any]) -> None:
    with pytest.raises(InvalidTypeError, match=r"in seconds: give batch_time .*AffineTime\(0\.05"):
        door(Workload([0.0, 2.5], [1, 1], [10, 1], memory_limit=50))


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("arrivals", "mc-sf"),
        ("predictions", "exact"),
        ("predictions", online.IntervalPredictions),
        ("service_model", "prefill"),
    ],
)
def test_what_is_of_another_kind_is_refused_by_name(field: str, bad: Any) -> None:
    workload = Workload([0.0], [2], [9], memory_limit=40)
    given = {"arrivals": workload, "batch_time": UnitTime(), field: bad}
    with pytest.raises(InvalidTypeError, match=f"^{field} = .* is no "):
        online.simulate(given.pop("arrivals"), "mc-sf", **given)


def test_a_cut_off_run_with_pauses_has_metrics() -> None:
    workload = Workload([0.0, 0.5], [2, 3], [9, 9], memory_limit=40)
    run = online.simulate(workload, "vllm-v0", batch_time=UnitTime(), max_rounds=3)
    assert summarize(run)["completed"] == 0


def test_a_prompt_in_many_chunks_is_no_livelock() -> None:
    workload = Workload([0.0], [100_000], [10], memory_limit=200_000)
    policy = online.make_policy("sarathi", chunk_size=8)
    run = online.simulate(workload, policy, batch_time=UnitTime())
    assert run.status == "completed"


def test_overload_with_margins_is_refused_and_not_sought_for_ever() -> None:
    types = [PromptType(0.001, 62, length) for length in range(1, 200)]
    types.append(PromptType(10, 62, 200))
    with pytest.raises(InvalidValueError, match="load"):
        nested_thresholds(group(types), 1.0, 1.1 / token_load(types))


@pytest.mark.parametrize(("n", "previous"), [(500_001, 1_000_000), (50_001, 100_000)])
def test_the_decay_rate_of_a_tiny_drift(n: int, previous: int) -> None:
    theta = decay_rate(n, previous, 0.5)
    drift = n - previous / 2
    # To first order: twice the drift over the variance of the binomial.
    assert theta == pytest.approx(2 * drift / (previous * 0.25), rel=1e-2)


@pytest.mark.parametrize("name", ["mc-sf", "mc-benchmark", "sorted-f-swap", "sarathi", "vllm-v0"])
def test_rounds_of_one_second_are_the_round_model_where_nothing_idles(name: str) -> None:
    rng = np.random.default_rng(2)
    source = Instance.from_arrays(rng.integers(1, 9, 30), rng.integers(1, 17, 30), memory_limit=50)
    timed = online.simulate(source, name, batch_time=UnitTime())
    rounds = online.simulate(source, name)
    assert timed.completion_times.tolist() == rounds.completion_rounds.tolist()
