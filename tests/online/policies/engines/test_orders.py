"""The orders of an engine's queue against sorting by their definitions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import ServiceLevel
from online import BucketPredictions, ExactPredictions, IntervalPredictions, NoisyPredictions
from online.policies.engines.orders import ORDERS, WaitingQueue
from online.policy_interface import VisibleRequest
from online.policy_interface.predictions import PredictionModel

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
    queue = WaitingQueue(order, ageing)
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
