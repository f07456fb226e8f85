"""The orders of an engine's queue against sorting by their definitions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from effort import examples

from instances import ServiceLevel
from online import BucketPredictions, ExactPredictions, IntervalPredictions, NoisyPredictions
from online.policies.engines.orders import ORDERS, WaitingQueue
from online.policy_interface import VisibleRequest

NOISY, BUCKETS = NoisyPredictions(3, wrong=0.3), BucketPredictions((2, 5, 12))
MODELS: list[Any] = [ExactPredictions(), NOISY, IntervalPredictions(1, 12), BUCKETS]
DEFINITIONS: dict[str, Any] = {
    "fcfs": lambda one: 0,
    "shortest-output": lambda one: one.prediction.point,
    "longest-output": lambda one: -one.prediction.point,
    "shortest-prompt": lambda one: one.prompt_length,
    "shortest-job": lambda one: one.prompt_length + one.prediction.point,
    "priority": lambda one: next(k for k in range(64) if one.prediction.point <= 2**k),
    "deadline": lambda one: one.arrival_time + min(one.level.latency, one.level.first_token),
}
"""What each name says, in tokens or units of time."""


def draw(seed: int) -> list[VisibleRequest]:
    rng = np.random.default_rng([79, seed])
    # Quarters add up to equal keys, and tenths do only where nothing is rounded.
    unit, model = (0.25, 0.1, 1)[seed % 3], MODELS[seed // 3 % 4]
    requests = []
    for index, time in enumerate(sorted(rng.integers(0, 13, 8).tolist())):
        prompt, output, latency, first = rng.integers(1, 13, 4).tolist()
        told, level = model.predict(prompt, output, rng), ServiceLevel(latency, first)
        requests.append(VisibleRequest(index, index, unit * time, prompt, told, 1, level))
    return requests


@pytest.mark.parametrize("ageing", ["0", "0.1", "0.25", "4"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_queue_is_served_as_its_keys_at_any_time_say(order: str, ageing: str) -> None:
    for seed in range(examples(48, 24)):
        requests = draw(seed)
        queue = WaitingQueue(order, float(ageing))
        for request in reversed(requests):
            queue.push(request)
        now = Fraction(requests[-1].arrival_time) + seed

        def key(one: VisibleRequest, now: Fraction = now) -> tuple[Fraction, int]:
            age = now - Fraction(one.arrival_time)
            return Fraction(DEFINITIONS[order](one)) - Fraction(ageing) * age, one.index

        served = [queue.pop() for _ in requests]
        assert served == [request.index for request in sorted(requests, key=key)]
        assert not queue
