"""First prices of the configuration ascent: known prices, or those of a few lifted state tables.

The memory constraint and the pairwise cores of up to `MOST_CORES` prompt lengths
(`hindsight.configurations.tables`) are cheap to price by ascent. Their prices bring the ascent on
all configurations (`hindsight.configurations.ascent`) most of the way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.configurations.proofs import StatePrices
from instances import Instance
from instances.arrays import IntArray

from .ascent import ConfigurationAscent, TableAscent
from .gibbs_kernels import InTime
from .tables import ConfigurationCut, core_table, lift, memory_table, ordered_states

LARGEST_MEMORY_LIMIT = 255
"""Largest M for tables: they have (M + 1)^2 entries, and their dynamic programs M^3 steps."""

WARM_START = 300
"""Iterations of the ascent on tables."""

MOST_CORES = 12
"""Most prompt lengths whose cores are priced first. More of them take longer and prove less in as
many iterations: of fifty, 41,633 rounds after 15.5 s where twelve prove 42,107 after 10.3 s."""


def warm_ascent(
    instance: Instance,
    copies: IntArray,
    makespan: int,
    threads: int = 1,
    should_stop: Callable[[], bool] | None = None,
    in_time: InTime | None = None,
) -> ConfigurationAscent:
    """Create a configuration ascent that starts from the prices of the first tables.

    Parameters
    ----------
    instance : Instance
        The problem.
    copies : int64 array
        See `hindsight.configurations.tables.state_copies`, shape (M + 1, M + 1).
    makespan : int
        Makespan of a schedule: epochs up to it, or to the last arrival, are priced.
    threads : int, default 1
        Threads of the configuration ascent.
    should_stop : Callable[[], bool] or None, default None
        Polled between tables and in every iteration.
    in_time : InTime or None, default None
        Count late requests instead of latency.
    """
    n = len(instance)
    first = TableAscent(
        instance,
        copies,
        priced_epochs(instance, makespan),
        first_tables(instance, copies, should_stop),
        in_time,
    )
    first.ascend(
        WARM_START,
        start_heat=(4.0 + 0.1 * n, 0.1),
        step=(0.5 + 0.03 * n, 0.02),
        should_stop=should_stop,
    )
    return ConfigurationAscent(instance, copies, first.state_prices(), threads, in_time)


def resumed_ascent(
    instance: Instance, copies: IntArray, makespan: int, prices: StatePrices, threads: int = 1
) -> ConfigurationAscent:
    """Create a configuration ascent that starts from prices that are good already.

    Parameters
    ----------
    instance : Instance
        The problem.
    copies : int64 array
        See `hindsight.configurations.tables.state_copies`, shape (M + 1, M + 1).
    makespan : int
        Makespan of a schedule: epochs up to it, or to the last arrival, are priced.
    prices : StatePrices
        Prices for the instance.
    threads : int, default 1
        Threads of the configuration ascent.
    """
    states = ordered_states(copies)
    known = prices.prices[:, states[:, 0], states[:, 1]] / prices.scale
    first = np.zeros((max(len(known), priced_epochs(instance, makespan)), len(states)))
    first[: len(known)] = known
    return ConfigurationAscent(instance, copies, first, threads)


def priced_epochs(instance: Instance, makespan: int) -> int:
    """Return T, the number of epochs with prices: up to the makespan, and past the last arrival."""
    return max(makespan, int(instance.arrival_times.max())) + 1


def first_tables(
    instance: Instance, copies: IntArray, should_stop: Callable[[], bool] | None = None
) -> list[ConfigurationCut]:
    """Lift the memory constraint and the pairwise cores of some prompt lengths, evenly spaced."""
    limit = instance.memory_limit
    lengths = sorted({*instance.prompt_lengths.tolist(), 1} - {0})
    places = np.linspace(0, len(lengths) - 1, min(len(lengths), MOST_CORES))
    sigmas = [lengths[round(place)] for place in places.tolist()]
    tables = [memory_table(limit), *(core_table(sigma, limit) for sigma in sigmas)]
    lifted: list[ConfigurationCut] = []
    for table in tables:
        # Lifting a table takes a fifth of a second at M = 255; the first one alone gives a bound.
        if lifted and should_stop is not None and should_stop():
            break
        rho = lift(table.coefficients, table.capacity, copies, limit)
        lifted.append(ConfigurationCut(rho, table.capacity))
    return lifted
