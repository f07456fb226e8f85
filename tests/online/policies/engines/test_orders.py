"""The orders of an engine's queue against sorting by their definitions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import online
from instances import ServiceLevel, Workload
from online import (
    AffineTime,
    BucketPredictions,
    ExactPredictions,
    IntervalPredictions,
    NoisyPredictions,
)
from online.policies.engines.orders import ORDERS, QueueOrder, Returned, WaitingQueue
from online.policy_interface import PredictionModel, VisibleRequest

MODELS: list[PredictionModel] = [
    ExactPredictions(),
    NoisyPredictions(3, wrong=0.3),
    IntervalPredictions(1, 12),
    BucketPredictions((2, 5, 12)),
]


def definition(order: str, request: VisibleRequest) -> Any:
    """What each name says, in tokens or units of time."""
    output, level = request.prediction.point, request.level
    if order == "priority":
        return next(k for k in range(64) if output <= 2**k)
    return {
        "fcfs": 0,
        "shortest-output": output,
        "longest-output": -output,
        "shortest-prompt": request.prompt_length,
        "shortest-job": request.prompt_length + output,
        "deadline": Fraction(request.arrival_time + min(level.latency, level.first_token)),
    }[order]


def draw(model: PredictionModel, seed: int, n: int, gap: int) -> list[VisibleRequest]:
    rng = np.random.default_rng([79, seed])
    # Quarters add up to equal keys, and tenths do only where nothing is rounded.
    unit = (0.25, 0.1, 1)[seed % 3]
    times = sorted(unit * int(k) for k in rng.integers(0, gap + 1, n))
    requests = []
    for index, time in enumerate(times):
        prompt, output = (int(k) for k in rng.integers(1, 13, 2))
        prediction = model.predict(prompt, output, rng)
        limits = rng.integers(1, 30, 2)
        level = ServiceLevel(float(limits[0]), first_token=float(limits[1]))
        requests.append(VisibleRequest(index, f"r{index}", time, prompt, prediction, 1, level))
    return requests


@given(
    order=st.sampled_from(sorted(ORDERS)),
    ageing=st.sampled_from([0, 0.1, 0.25, 1, 4]),
    model=st.sampled_from(MODELS),
    seed=st.integers(0, 10_000),
    waited=st.integers(0, 50),
)
@settings(max_examples=examples(200, 80))
def test_a_queue_is_served_as_its_keys_at_any_time_say(
    order: str, ageing: float, model: PredictionModel, seed: int, waited: int
) -> None:
    requests = draw(model, seed, n=8, gap=12)
    queue = WaitingQueue(QueueOrder(order, ageing))
    for request in reversed(requests):
        queue.push(request)
    now = requests[-1].arrival_time + waited
    weight = Fraction(str(ageing))

    def key(request: VisibleRequest) -> tuple[Fraction, int]:
        age = Fraction(now) - Fraction(request.arrival_time)
        return definition(order, request) - weight * age, request.index

    served = [queue.pop() for _ in requests]
    assert served == [request.index for request in sorted(requests, key=key)]
    assert not queue


@pytest.mark.parametrize(
    ("returned", "served"),
    [("front", [1, 0, 2, 3, 4]), ("tail", [2, 3, 0, 1, 4]), ("arrival", [0, 1, 2, 3, 4])],
)
def test_where_the_preempted_wait(returned: Returned, served: list[int]) -> None:
    requests = draw(ExactPredictions(), 0, n=5, gap=12)
    queue = WaitingQueue(QueueOrder(), returned)
    for request in requests[:4]:
        queue.push(request)
    assert [queue.pop(), queue.pop()] == [0, 1]
    # Both come back in one round, one after the other.
    queue.push(requests[0])
    queue.push(requests[1])
    queue.push(requests[4])
    assert [queue.pop() for _ in range(5)] == served


def overload(order: str, ageing: float) -> tuple[float, int]:
    """When a long request starts under short ones without end, and after how many of them."""
    # One request fits at a time; two short ones arrive in every two rounds, the time of one.
    times = [0.0, 0.0, *(float(k) for k in range(1, 200))]
    outputs = [2, 20, *([2] * 199)]
    source = Workload(times, [1] * 201, outputs, memory_limit=21, batch_time=AffineTime(1.0))
    policy = online.make_policy("sarathi", max_num_seqs=1, watermark=0, order=order, ageing=ageing)
    run = online.simulate(source, policy)
    assert run.status == "completed"
    starts = run.start_times
    return float(starts[1]), int((starts < starts[1]).sum())


def test_ageing_ends_the_wait_of_what_is_long() -> None:
    never, overtaken_by = overload("shortest-output", 0)
    assert overtaken_by == 200
    assert never > 399
    for ageing in (1.0, 0.5, 0.25):
        start, overtakers = overload("shortest-output", ageing)
        # 18 tokens longer: no request that arrives 18 / ageing later goes first.
        assert overtakers <= 1 + 18 / ageing
        assert start <= 2 * (1 + 18 / ageing)
    assert overload("fcfs", 0)[1] == 1
    # 20 tokens are of class 5, 2 tokens of class 1.
    assert overload("priority", 0.25)[1] <= 1 + 4 / 0.25
