"""The configuration relaxation: prices that prove its bound, and cuts that every schedule keeps."""

from __future__ import annotations

import numpy as np
from brute_force import all_feasible_schedules, sound_horizon

import hindsight
from hindsight.configurations.prices import SCALE, exact_bound
from instances import Instance, generate


def test_the_prices_returned_prove_the_bound_returned() -> None:
    instance = generate("arrival-model-1", seed=1, n=6)
    relaxed = hindsight.relax_strengthened(instance, iterations=60)
    assert relaxed.prices.scale == SCALE
    assert exact_bound(relaxed.prices.prices, instance) == relaxed.certified_bound
    # The checker of certificates shares no arithmetic with that.
    schedule = hindsight.best_list_schedule(instance)
    document = hindsight.make_certificate(schedule, relaxed.prices, search=False)
    assert document["proof"]["kind"] == "state-prices"
    assert hindsight.check_certificate(document).lower_bound == relaxed.certified_bound


def test_every_schedule_satisfies_the_cuts_returned() -> None:
    instance = Instance.from_arrays([2, 1, 3], [2, 3, 2], [0, 0, 1], memory_limit=6)
    horizon = sound_horizon(instance)
    cuts = hindsight.relax_strengthened(instance, iterations=5).cuts
    rows = [row for cut in cuts for row in cut.rows(instance, horizon)]
    assert len(rows) > len(cuts) > 1
    tight = 0
    for starts in all_feasible_schedules(instance, horizon):
        for coefficients, limit in rows:
            total = sum(coefficients.get(start, 0) for start in enumerate(starts))
            assert total <= limit
            tight += total == limit
    assert tight  # they are no idle inequalities
    together = [(0, 0), (1, 0), (2, 1)]  # which memory does not hold
    assert any(sum(c.get(start, 0) for start in together) > limit for c, limit in rows)


def test_it_is_tighter_than_the_linear_relaxation() -> None:
    instance = generate("arrival-model-1", seed=1, n=10)
    plain, strengthened = hindsight.relax(instance), hindsight.relax_strengthened(instance)
    assert strengthened.certified_bound > plain.certified_bound + 20
    again = hindsight.relax_strengthened(instance)
    assert (again.expected_start_times == strengthened.expected_start_times).all()


def test_a_queue_for_one_place_is_served_shortest_first() -> None:
    # No two fit together, so the order of the only optimum is what starts must tell.
    instance = Instance.from_arrays([6, 6, 6], [3, 1, 2], memory_limit=9)
    starts = hindsight.relax_strengthened(instance).expected_start_times
    assert np.argsort(starts).tolist() == [1, 2, 0]
