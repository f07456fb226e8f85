"""The configuration relaxation: prices that prove its bound, and cuts that every schedule keeps."""

from __future__ import annotations

import numpy as np

import hindsight
from instances import Instance, generate


def test_it_is_tighter_than_the_linear_relaxation() -> None:
    instance = generate("arrival-model-1", seed=1, n=10)
    plain, strengthened = hindsight.relax(instance), hindsight.relax(instance, method="states")
    assert strengthened.certified_bound > plain.certified_bound + 20
    again = hindsight.relax(instance, method="states")
    assert (again.expected_start_times == strengthened.expected_start_times).all()


def test_a_queue_for_one_place_is_served_shortest_first() -> None:
    # No two fit together, so the order of the only optimum is what starts must tell.
    instance = Instance.from_arrays([6, 6, 6], [3, 1, 2], memory_limit=9)
    starts = hindsight.relax(instance, method="states").expected_start_times
    assert np.argsort(starts).tolist() == [1, 2, 0]
