"""Orders by deadline on examples worked by hand, and what they may know."""

from __future__ import annotations

from typing import Any

import pytest

import online
from instances import Instance, ServiceLevel

ALIKE = Instance.from_arrays([3, 3, 3], [2, 2, 2], memory_limit=5)
"""One fits at a time, for two rounds each."""

UNLIKE = Instance.from_arrays([3, 2, 4], [1, 4, 2], memory_limit=6)
"""One fits at a time, for 1, 4 and 2 rounds."""


def of_each(*limits: float) -> list[ServiceLevel]:
    return [ServiceLevel(latency=limit) for limit in limits]


VLLM = "vllm:order=deadline,policy=priority,asynchronous=false"
TIMES: list[tuple[Instance, tuple[int, ...], str, list[int], list[bool]]] = [
    (ALIKE, (6, 2, 4), "fcfs", [0, 2, 4], [True, False, False]),
    *[(ALIKE, (6, 2, 4), policy, [4, 0, 2], [True] * 3) for policy in ("edf", VLLM)],
    (UNLIKE, (4, 5, 9), "edf", [0, 1, 5], [True] * 3),
    # The first request can never be on time, and in front it would take the others along.
    (ALIKE, (1, 2, 4), "edf", [4, 0, 2], [False, True, True]),
]


@pytest.mark.parametrize(("instance", "limits", "policy", "starts", "on_time"), TIMES)
def test_three_requests_are_ordered_as_by_hand(instance, limits, policy, starts, on_time) -> None:
    run = online.simulate(instance, policy, level=of_each(*limits))
    assert run.schedule.start_times.tolist() == starts
    assert run.on_time(of_each(*limits)).tolist() == on_time


def test_a_request_that_becomes_late_while_it_waits_lets_others_pass_at_once() -> None:
    # The long one holds 2 + k in round k. The second needs 5 tokens in the first round of its two
    # and 6 in the other, so it never fits beside it; it is late from round 3, the third fits.
    instance = Instance.from_arrays([2, 4, 1], [7, 2, 1], [0, 1, 1], memory_limit=9)
    run = online.simulate(instance, "edf", level=of_each(20, 4, 30))
    assert run.schedule.start_times.tolist() == [0, 7, 4]


def test_deadlines_come_of_predictions_and_never_of_true_outputs() -> None:
    seen: list[tuple[float, float]] = []

    class Watching(online.PriorityPolicy):
        def priority(self, request: Any) -> float:
            seen.append((request.first_token_deadline, request.deadline))
            return request.arrival_time

    level, told = (
        ServiceLevel(30, first_token=3, time_per_token=2),
        online.IntervalPredictions(1, 9),
    )
    for outputs in ([1, 9, 4], [9, 2, 8]):
        instance = Instance.from_arrays([1, 1, 1], outputs, [0, 0, 0], memory_limit=40)
        online.simulate(instance, Watching, predictions=told, level=level)
    # The point of [1, 9] is 5: a first token within 3 rounds and four more within 2 each.
    assert seen == [(3, 11)] * 6


def test_the_first_token_has_a_deadline_too() -> None:
    limits = [ServiceLevel(first_token=9), ServiceLevel(20, 3), ServiceLevel(first_token=1)]
    run = online.simulate(ALIKE, "edf", level=limits)
    assert run.schedule.start_times.tolist() == [4, 2, 0]


def test_a_level_for_each_goes_with_its_request_whatever_the_order_of_arrival() -> None:
    late_first = Instance.from_arrays([3, 3, 3], [2, 2, 2], [1, 0, 1], memory_limit=5)
    run = online.simulate(late_first, "edf", level=of_each(9, 9, 4))
    assert run.schedule.start_times.tolist() == [4, 0, 2]


def test_unserved_requests_are_late() -> None:
    run = online.simulate(ALIKE, "fcfs", max_rounds=3)
    assert run.on_time(ServiceLevel(latency=100)).tolist() == [True, False, False]
