"""No size is an error: memory follows the requests, not the numbers in them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import hindsight
from hindsight import best_list_schedule
from hindsight.exact import pyomo_model
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.prices.horizon import proved_horizon
from hindsight.prices.tokens import price_bound
from hindsight.prices.volume import fill_by_volume, mean_busy_time_bound
from instances import Instance, InvalidValueError, Request, generate

FAR = 10**7


def peak_bytes(compute: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        compute()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_volumes_of_long_requests_take_no_memory() -> None:
    """Two requests that fill the memory for 5,000,000 rounds each, one after the other."""
    instance = Instance.from_arrays([1, 1], [FAR, FAR], memory_limit=FAR + 1)
    assert peak_bytes(lambda: mean_busy_time_bound(instance)) < 100_000
    filling = fill_by_volume(instance)
    volume = FAR + FAR * (FAR + 1) // 2
    assert filling.rounds == -(-2 * volume // (FAR + 1))
    full = 2 * volume // (FAR + 1)
    assert sum(count for v, count in filling.marginal_volumes if v < np.inf) == full
    late = Instance([Request(2**50, 1, 1), Request(0, 1, 1)], memory_limit=3)
    assert peak_bytes(lambda: fill_by_volume(late)) < 100_000
    assert fill_by_volume(late).marginal_volumes == [(np.inf, 2**50), (np.inf, 1)]


def test_prices_are_looked_up_no_further_than_they_reach() -> None:
    instance = Instance([Request(0, 1, FAR), Request(2**40, 5, 3)], memory_limit=2 * FAR)
    prices = MemoryPrices(np.array([3, 0, 5]), 2)
    # Before memory is measured: loading compiled loops takes some.
    bound = price_bound(instance, prices)
    assert peak_bytes(lambda: price_bound(instance, prices)) < 100_000
    # In halves of a round: started at 0, the first pays 3 (1 + 1) + 5 (1 + 3), at 1 or 2 only
    # 5 (1 + 2) or 5 (1 + 1), and from 3 on nothing; the second arrives after the last price.
    waits = min(26, 2 + 15, 4 + 10, 6)
    assert bound.cheapest.tolist() == [2 * FAR + waits, 6]


@pytest.mark.parametrize("memory_limit", [2**14, 2**20, 2**24, 2**27, 2**31 - 1])
@pytest.mark.parametrize("method", ["lp", "lagrangian"])
def test_a_large_memory_keeps_the_certified_bound(memory_limit: int, method: str) -> None:
    """Six requests that fill it, one a round: 1 + 2 + .. + 6."""
    instance = Instance.from_arrays([memory_limit - 1] * 6, [1] * 6, memory_limit=memory_limit)
    relaxed = hindsight.relax(instance, method=method)  # type: ignore[arg-type]
    assert relaxed.certified_bound == 21
    assert price_bound(instance, relaxed.prices).bound == 21


def test_volumes_beyond_64_bits_are_no_small_model() -> None:
    """Sixteen volumes of 2^61 sum to nothing in 64 bits."""
    longest = 2**31 - 2
    instance = Instance.from_arrays([1] * 16, [longest] * 16, memory_limit=longest + 1)
    relaxed = hindsight.relax(instance, time_limit=1)
    assert relaxed.method == "lagrangian"
    assert relaxed.certified_bound >= 16 * longest


def test_schedules_too_long_for_a_profile_are_solved() -> None:
    longest = 150_000_000
    instance = Instance.from_arrays([1, 1], [longest, longest], memory_limit=longest + 1)
    result = hindsight.solve(instance, time_limit=0.5)
    assert (result.status, result.upper_bound) == ("feasible", 3 * longest)


def test_a_model_too_large_is_refused_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = generate("arrival-model-1", seed=0, n=8)
    horizon = proved_horizon(instance, best_list_schedule(instance))[1]
    size = pyomo_model.model_size(instance, "dense", horizon)
    monkeypatch.setattr(pyomo_model, "available_bytes", lambda: size.bytes)
    hindsight.build_model(instance)
    monkeypatch.setattr(pyomo_model, "available_bytes", lambda: size.bytes - 1)
    monkeypatch.setattr(pyomo_model, "all_starts", None)
    with pytest.raises(InvalidValueError, match=f"{size.columns:,} columns.* non-zeros"):
        hindsight.build_model(instance)
    with pytest.raises(InvalidValueError, match="non-zeros"):
        hindsight.second_opinion(instance)


def test_a_trace_is_refused_before_a_horizon_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths as they are logged: a program of a trillion non-zeros, and a search for nothing."""
    instance = generate("mixed-long-short", seed=0, n=20_000)
    monkeypatch.setattr(pyomo_model, "proved_horizon", None)
    for formulation in ("dense", "sparse"):
        with pytest.raises(InvalidValueError, match="GB are free"):
            hindsight.build_model(instance, formulation)  # type: ignore[arg-type]
