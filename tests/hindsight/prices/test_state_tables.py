"""State tables against enumeration: what any configuration weighs."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import fit, heaviest
from drawn_instances import by_state, copies_of, maximum_weight, tiny
from effort import sweep

from hindsight.prices.state_tables import core_table, memory_table, ordered_states


@pytest.mark.parametrize("seed", sweep(range(60)))
def test_maximum_weight_by_enumeration(seed: int) -> None:
    instance = tiny(seed)
    copies = copies_of(instance)
    rho = np.random.default_rng(seed).integers(0, 10, copies.shape)
    weight = maximum_weight(rho, copies, instance.memory_limit)
    assert weight == heaviest(by_state(copies), by_state(rho), instance.memory_limit, ())


@pytest.mark.parametrize("limit", [2, 3, 7, 12])
def test_no_configuration_weighs_more_than_the_capacity(limit: int) -> None:
    """With as many requests in each state as fit."""
    m, r = np.indices((limit + 1, limit + 1))
    copies = np.where((r >= 1) & (m + r <= limit), limit, 0)
    states = ordered_states(copies)
    for sigma in (None, *range(1, limit + 1)):
        table = np.zeros_like(m)
        rows = memory_table(states) if sigma is None else core_table(states, sigma)
        table[states.held, states.rounds] = rows
        weight = maximum_weight(table, copies, limit)
        assert weight == limit if sigma is None else weight <= 1
        if sigma is not None:  # what holds sigma or more, and does not fit beside such a state
            for m_, r_, inside in zip(states.held, states.rounds, rows, strict=True):
                assert inside == (m_ >= sigma and not fit([(m_, r_), (sigma, r_)], limit))
