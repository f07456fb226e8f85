"""Random instances of a seed, for tests that count what they find over many of them."""

from __future__ import annotations

import numpy as np

from hindsight.prices.state_tables import core_table, memory_table, ordered_states, state_copies
from hindsight.prices.states import SCALE, integer_capacities
from instances import Instance
from instances.arrays import IntArray
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH


def drawn_instance(
    seed: list[int],
    requests: tuple[int, int],
    limits: tuple[int, int],
    *,
    prompts: tuple[int, int] | None = None,
    outputs: int | None = None,
    last_arrival: int | None = None,
) -> Instance:
    """Ranges include both ends; by default a request may be as long as the memory is large.

    Without a last arrival all requests are there at once; where the prompts begin at 0 the
    instance allows it.
    """
    rng = np.random.default_rng(seed)
    n, limit = (int(rng.integers(*span, endpoint=True)) for span in (requests, limits))
    least, most = prompts or (1, limit)
    s = rng.integers(least, min(most, limit - 1), n, endpoint=True)
    o = [int(rng.integers(1, min(limit - x, outputs or limit) + 1)) for x in s.tolist()]
    a = None if last_arrival is None else rng.integers(0, last_arrival, n, endpoint=True)
    return Instance.from_arrays(
        s, o, a, memory_limit=limit, metadata={ALLOW_ZERO_PROMPT_LENGTH: True} if not least else {}
    )


def tiny(seed: int) -> Instance:
    """Some of them with empty prompts, every second one with arrivals."""
    prompts, last = (0 if seed % 3 == 0 else 1, 3), 4 if seed % 2 else None
    return drawn_instance([41, seed], (1, 4), (3, 9), prompts=prompts, outputs=5, last_arrival=last)


def crowded(key: int, seed: int, requests: tuple[int, int]) -> Instance:
    """Requests in each other's way; some with empty prompts, every second one with arrivals."""
    prompts, last = (0 if seed % 7 == 0 else 1, 3), 5 if seed % 2 else None
    return drawn_instance(
        [key, seed], requests, (4, 10), prompts=prompts, outputs=5, last_arrival=last
    )


def parts_apart(count: int) -> tuple[list[Instance], Instance]:
    """Small instances, and one of all in any order, so far apart that their optima add up."""
    parts = [
        drawn_instance([59, k], (4, 4), (6, 6), prompts=(1, 3), outputs=5, last_arrival=3)
        for k in range(count)
    ]
    rows = [
        (q.prompt_length, q.output_length, 40 * k + q.arrival_time)
        for k, part in enumerate(parts)
        for q in part
    ]
    shuffled = np.random.default_rng(67).permutation(np.array(rows))
    return parts, Instance.from_arrays(*shuffled.T, memory_limit=6)


def copies_of(instance: Instance) -> IntArray:
    """How many requests pass through each state."""
    return state_copies(instance.prompt_lengths, instance.output_lengths, instance.memory_limit)


def by_state(table: IntArray) -> dict[tuple[int, int], int]:
    """The entries of a table that are not 0, by m and r."""
    return {(m, r): int(table[m, r]) for m, r in np.argwhere(table).tolist()}


def maximum_weight(coefficients: IntArray, copies: IntArray, memory_limit: int) -> int:
    """The largest total coefficient of any configuration, see the module of tables.

    Read from the state that runs longest on, k members that hold S in all need S + k r <= M.
    """
    best, states = {(0, 0): 0}, by_state(copies)
    for m, r in sorted(states, key=lambda state: -state[1]):
        for _ in range(min(states[m, r], memory_limit)):
            more = dict(best)
            for (k, S), weight in best.items():
                if S + m + (k + 1) * r <= memory_limit:
                    found = weight + int(coefficients[m, r])
                    more[k + 1, S + m] = max(more.get((k + 1, S + m), 0), found)
            if more == best:
                break
            best = more
    return max(best.values())


def drawn_prices(
    instance: Instance, rng: np.random.Generator, least_epochs: int = 0
) -> tuple[IntArray, IntArray]:
    """Integer prices of some epochs, from those of memory and two cores, and their capacities."""
    limit, copies = instance.memory_limit, copies_of(instance)
    epochs = least_epochs + int(rng.integers(1, 15))
    drawn = rng.uniform(0.0, 1.0, (3, epochs)) * rng.integers(0, 2, (3, 1))
    prices = np.zeros((epochs, *copies.shape), dtype=np.int64)
    states = ordered_states(copies)
    tables = memory_table(states), *(core_table(states, sigma) for sigma in (1, 2))
    for table, capacity, row in zip(tables, (limit, 1, 1), drawn, strict=True):
        units = np.floor(row * SCALE / capacity).astype(np.int64)
        prices[:, states.held, states.rounds] += np.multiply.outer(units, table)
    return prices, integer_capacities(prices, copies)
