"""Ratios are intervals; they collapse only on proof."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest

import hindsight
import online
from instances import Instance, Request


@dataclass
class Bounds:
    instance: Instance
    upper_bound: int | None
    lower_bound: int | None


INSTANCE = Instance(
    [Request(0, 63, 1), *[Request(0, 1, 2) for _ in range(21)]], 64, name="W25 Example 1"
)


def test_example_1_of_w25() -> None:
    run = online.simulate(INSTANCE, "mc-sf")
    result = hindsight.solve(INSTANCE, threads=1)
    assert run.total_latency == 64
    assert (result.upper_bound, result.lower_bound, result.status) == (45, 45, "optimal")
    ratio = online.ratio(run, result)
    assert ratio.is_exact
    assert ratio.exact == Fraction(64, 45)
    assert ratio.lower == ratio.upper == 64 / 45
    assert str(ratio) == "1.4222"


def test_an_open_interval_and_missing_bounds() -> None:
    run = online.simulate(INSTANCE, "mc-sf")
    ratio = online.ratio(run, Bounds(INSTANCE, 50, 40))
    assert (ratio.lower, ratio.upper, ratio.is_exact, ratio.exact) == (1.28, 1.6, False, None)
    ratio = online.ratio(run, Bounds(INSTANCE, 50, None))
    assert (ratio.lower, ratio.upper, ratio.is_exact) == (1.28, None, False)
    ratio = online.ratio(run, Bounds(INSTANCE, None, None))
    assert (ratio.lower, ratio.upper, ratio.is_exact) == (None, None, False)
    assert str(ratio) == "[?, ?]"


def test_other_instances_and_other_models_are_refused() -> None:
    run = online.simulate(INSTANCE, "mc-sf")
    other = Instance(INSTANCE.requests[1:], 64)
    with pytest.raises(online.MismatchError):
        online.ratio(run, Bounds(other, 45, 45))
    stopped = online.simulate(INSTANCE, "mc-sf", max_rounds=1)
    with pytest.raises(online.IncompleteRunError):
        online.ratio(stopped, Bounds(INSTANCE, 45, 45))
    prefill = online.simulate(INSTANCE, "mc-sf", service_model=online.PREFILL_ROUND)
    with pytest.raises(ValueError, match="round model"):
        online.ratio(prefill, Bounds(INSTANCE, 45, 45))
    timed = online.simulate(INSTANCE, "mc-sf", batch_time=online.AffineTime(1.0))
    with pytest.raises(ValueError, match="round model"):
        online.ratio(timed, Bounds(INSTANCE, 45, 45))
