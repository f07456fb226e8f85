"""Runs on weighted instances: what policies see, what is summed, and what is compared."""

from __future__ import annotations

import pytest
from answering_source import Grudge

import online
from instances import Instance
from online import PriorityPolicy
from online.policy_interface import VisibleRequest

# Two requests of volume 9, one after the other: the heavier is worth five of the lighter.
INSTANCE = Instance.from_arrays([1, 1], [3, 3], memory_limit=4, weights=[1, 5], name="pair")


class WeightedVolumeFirst(PriorityPolicy):
    """Smallest volume over weight first."""

    def priority(self, request: VisibleRequest) -> float:
        """Token-rounds over weight."""
        return request.volume / request.weight


def test_policies_see_weights_and_totals_count_them() -> None:
    plain = online.simulate(INSTANCE, "smallest-volume-first")
    heavy = online.simulate(INSTANCE, WeightedVolumeFirst())
    assert plain.schedule.start_times.tolist() == [0, 3]
    assert heavy.schedule.start_times.tolist() == [3, 0]
    assert (plain.total_latency, heavy.total_latency) == (3 + 5 * 6, 6 + 5 * 3)
    assert heavy.mean_latency == heavy.schedule.mean_latency == 21 / 6


@pytest.mark.parametrize("name", ["mc-sf", "vllm", "sglang", "h-sf"])
def test_the_total_of_a_run_is_the_weighted_sum_of_its_latencies(name: str) -> None:
    instance = Instance.from_arrays(
        [1, 3, 2, 1], [4, 2, 3, 5], [0, 1, 1, 2], memory_limit=7, weights=[2, 1, 9, 4]
    )
    run = online.simulate(instance, name)
    ends = [w * one for w, one in zip([2, 1, 9, 4], run.latencies.tolist(), strict=True)]
    assert run.total_latency == sum(ends)


def test_a_realised_instance_has_the_weights_of_its_arrivals() -> None:
    class Source(Grudge):
        """The same, with weights."""

        def release(self, now: float):  # type: ignore[no-untyped-def]
            return [one._replace(weight=3) for one in super().release(now)]

    assert online.simulate(Source(1), "mc-sf").instance.weights.tolist() == [3, 3]
    assert not online.simulate(Grudge(1), "mc-sf").instance.is_weighted
