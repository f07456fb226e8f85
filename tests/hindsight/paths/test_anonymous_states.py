"""The heaviest anonymous states beside followed requests, against trying them all."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from brute_force import State, fit, heaviest
from drawn_instances import drawn_instance

from hindsight.paths.anonymous_states import heaviest_beside, room_for_states, set_epoch
from hindsight.paths.graph import most_at_once
from instances import Instance
from instances.arrays import IntArray
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH


def priced_states(
    columns: Any, followed: IntArray, tau: int, prices: Any
) -> tuple[Counter[State], dict[State, int]]:
    """States of requests that are not followed, with how many there may be and their prices."""
    s, o, a, _ = columns
    copies = Counter[State]()
    for i in np.flatnonzero(~followed).tolist():
        for age in range(min(int(o[i]) - 1, tau - int(a[i])) + 1):
            copies[int(s[i]) + age, int(o[i]) - age] += 1
    return copies, {state: int(prices[state]) for state in copies}


def followed_members(
    instance: Instance, followed: IntArray, tau: int, rng: np.random.Generator
) -> list[State]:
    """States of followed requests that run at tau together, in any order."""
    members: list[State] = []
    for i in rng.permutation(np.flatnonzero(followed)):
        a, o = int(instance.arrival_times[i]), int(instance.output_lengths[i])
        ages = range(min(o - 1, tau - a) + 1)
        if len(ages) and rng.random() < 0.8:
            age = int(rng.choice(ages))
            state = int(instance.prompt_lengths[i]) + age, o - age
            if fit([*members, state], instance.memory_limit):
                members.append(state)
    return members


def test_what_fits_beside_followed_requests_is_the_heaviest() -> None:
    """Members inside the list of states, alone and in all orders; trees that are begun anew."""
    inside = 0
    for seed in range(60):
        instance = drawn_instance([89, seed], (2, 7), (4, 11), prompts=(0, 3), outputs=5)
        rng = np.random.default_rng([5, seed])
        limit, n = instance.memory_limit, len(instance)
        followed = rng.random(n) < 0.6
        prices = rng.integers(0, 9, (limit + 1, limit + 1)) * rng.integers(0, 2, (limit + 1, 1))
        most = most_at_once(instance.prompt_lengths, limit)
        longest = int(instance.output_lengths[~followed].max(initial=0))
        room = 0 if seed % 2 else 100_000
        states = room_for_states(longest, most, limit, room)
        for tau in range(4):
            set_epoch(tau, prices, instance.columns, followed, states)
            copies, weights = priced_states(instance.columns, followed, tau, prices)
            theta = max((r for state, r in copies if prices[state, r] > 0), default=0)
            for _ in range(4):
                members = followed_members(instance, followed, tau, rng)
                held, rounds = np.zeros((2, most + 1), np.int64)
                for k, state in enumerate(members):
                    held[k], rounds[k] = state
                found = heaviest_beside(states, held, rounds, len(members), np.zeros_like(held))
                expected = heaviest(copies, weights, limit, members)
                assert found == expected, (seed, tau, members)
                inside += sum(r < theta for _, r in members) > 1
    assert inside > 20


def test_the_least_room_takes_as_many_members_as_fit() -> None:
    """M = 7, and requests that hold one token for one round: seven followed, another not."""
    instance = Instance.from_arrays(
        [0] * 8, [1] * 8, memory_limit=7, metadata={ALLOW_ZERO_PROMPT_LENGTH: True}
    )
    states = room_for_states(1, most_at_once(instance.prompt_lengths, 7), 7, 0)
    set_epoch(0, np.ones((8, 8), np.int64), instance.columns, np.arange(8) < 7, states)
    held, rounds = np.zeros(8, np.int64), np.ones(8, np.int64)
    found = [heaviest_beside(states, held, rounds, k, np.zeros_like(held)) for k in range(8)]
    assert found == [1] * 7 + [0]
