"""The relaxation from prices against the model of all starts, and what it claims when it stops."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from effort import behind

import hindsight
from hindsight import relaxation
from hindsight.prices.tokens import price_bound
from hindsight.relaxation import relax_until
from hindsight.rounds.token_relaxation import TokenRelaxation
from hindsight.runtime import clock as clock_module
from hindsight.runtime.clock import Clock
from instances import Instance


def drawn(seed: int, n: int) -> Instance:
    """Short and long requests, all at once or arriving, some of them alike."""
    rng = np.random.default_rng([83, seed, n])
    limit = int(rng.integers(20, 61))
    long = rng.random(n) < 0.3
    prompts = np.where(long, rng.integers(5, limit // 2, n), rng.integers(1, 5, n))
    outputs = np.where(long, rng.integers(3, limit // 2, n), rng.integers(1, 6, n))
    arrivals = rng.integers(0, int(rng.choice([1, n, 4 * n])), n)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit)


def assert_same_value(instance: Instance) -> None:
    rows = hindsight.relax(instance, method="lp", threads=1)
    scale = hindsight.relax(instance, method="lagrangian", tolerance=1e-7, threads=1)
    assert scale.method == "lagrangian"
    assert scale.objective == pytest.approx(rows.objective, rel=1e-4)
    assert 0 <= rows.certified_bound - scale.certified_bound <= 1
    assert scale.objective <= rows.objective * (1 + 1e-9)
    bound = price_bound(instance, scale.prices)
    assert scale.certified_bound == bound.bound
    assert scale.objective == bound.scaled_value / bound.prices.denominator
    assert (scale.expected_start_times >= instance.arrival_times).all()
    starts = instance.weights @ scale.expected_start_times
    own = instance.weights @ (instance.output_lengths - instance.arrival_times)
    assert starts + own == pytest.approx(rows.objective, rel=1e-3)


def arriving(seed: int, n: int) -> Instance:
    """Requests that keep arriving, at loads from a third to three times the capacity."""
    rng = np.random.default_rng([84, seed, n])
    limit = int(rng.integers(15, 61))
    prompts, outputs = rng.integers(1, limit // 2, n), rng.integers(1, limit // 2, n)
    volume = float((prompts * outputs + outputs * (outputs + 1) / 2).mean())
    gap = volume / limit / rng.uniform(0.3, 3)
    arrivals = np.floor(np.cumsum(rng.exponential(gap, n))).astype(np.int64)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit)


@pytest.mark.parametrize("seed", behind(range(44), 6))
@pytest.mark.parametrize("family", [drawn, arriving])
def test_value_of_the_model_of_all_starts(
    family: Callable[[int, int], Instance], seed: int
) -> None:
    """[W25] Equations (8)-(11)."""
    assert_same_value(family(seed, 4 + seed))


class Looks:
    """Looks at a clock, of which the last says that time is up."""

    def __init__(self, until: int | None = None) -> None:
        self.until = until
        self.count = 0

    def __call__(self) -> bool:
        self.count += 1
        return self.until is not None and self.count >= self.until


def test_every_look_can_be_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fine the slices: what is returned is proved, and nothing goes on after it."""
    monkeypatch.setattr(clock_module, "SLICE_SECONDS", 0.0)
    instance = drawn(3, 8)
    value = hindsight.relax(instance, method="lp").objective
    # Past the list schedule, which few requests are given the time for.
    for until in (*range(1, 40), *range(40, 400, 37)):
        looks = Looks(until)
        values: list[float] = []
        relaxed = relax_until(
            looks,
            instance,
            method="lagrangian",
            tolerance=1e-9,
            progress=lambda line, values=values: values.append(line.lower_bound),  # type: ignore[misc]
        )
        assert values == sorted(values)
        assert relaxed.objective <= value * (1 + 1e-9)
        assert relaxed.certified_bound <= np.ceil(value - 1e-9)
        assert relaxed.expected_start_times.shape == (8,)
        # A few more looks find out where it stands; none of them goes with any work.
        assert looks.count <= until + 8


def test_a_broken_off_relaxation_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces it takes the same way, whatever was being done when a piece ended."""
    monkeypatch.setattr(clock_module, "SLICE_SECONDS", 0.0)
    instance = drawn(4, 12)
    whole = hindsight.relax(instance, method="lagrangian", tolerance=1e-6)
    clock = 0.0

    def tick() -> bool:
        nonlocal clock
        clock += 1.0
        return False

    monkeypatch.setattr(clock_module, "time", SimpleNamespace(monotonic=lambda: clock))
    run = TokenRelaxation(instance, 1e-6, Clock(None, tick), print)
    pieces = 0
    values = []
    found = None
    while found is None or found.stop_reason not in ("tolerance", "stalled"):
        run.clock.allow(200.0)
        found = run.run()
        values.append(found.objective)
        pieces += 1
    assert pieces > 3
    assert values == sorted(values)
    assert found.stop_reason == whole.stop_reason
    assert found.objective == pytest.approx(whole.objective, rel=1e-5)


def test_auto_goes_on_by_prices_where_highs_finds_no_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = drawn(0, 5)

    def give_up(*_: object) -> None:
        raise hindsight.SolverError("HiGHS found no optimum of the relaxation: unknown")

    value = hindsight.relax(instance, method="lp").objective
    monkeypatch.setattr(relaxation, "_relax_by_rows", give_up)
    relaxed = hindsight.relax(instance)
    assert relaxed.method == "lagrangian"
    assert 0.99 * value <= relaxed.objective <= value * (1 + 1e-9)
    with pytest.raises(hindsight.SolverError):
        hindsight.relax(instance, method="lp")
