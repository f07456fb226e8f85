"""Every number from outside is checked by `instances.validation`: one answer to each kind.

A door is a place that takes a number; each is tried with the same numbers that are none, and with
the same value as a Python number, as NumPy's scalars and as a fraction.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doors import NO_INTEGERS, NO_NUMBERS, Door, assert_no_number, assert_same_number

import hindsight
import instances
import online
from instances import Instance, InvalidValueError, Workload
from instances.logs.windows import TraceRule
from online import AffineTime, IterationTime, TiledTime
from online.fluid import balance, nested_design, wait_design
from online.theory import interval_ratios

ROOT = Path(__file__).resolve().parent.parent
TINY = Instance.from_arrays([1], [2], memory_limit=4)
TYPE = balance.PromptType(0.5, 1, 2)
RNG = np.random.default_rng(0)


def _policy(name: str, parameter: str) -> Door:
    return lambda x: vars(online.make_policy(name, **{parameter: x}))[parameter]


def _field(kind: Any, field: str, **others: Any) -> Door:
    return lambda x: getattr(kind(**{**others, field: x}), field)


REALS: dict[str, Door] = {
    "solve": lambda x: hindsight.solve(TINY, time_limit=x).upper_bound,
    "relax-tolerance": lambda x: hindsight.relax(TINY, tolerance=x).certified_bound,
    "certificate": lambda x: hindsight.make_certificate(
        hindsight.best_list_schedule(TINY), time_limit=x
    ),
    "faster": lambda x: _workload(1.0).faster(x).arrival_times.tolist(),
    "workload": lambda x: _workload(x).arrival_times.tolist(),
    "balance": lambda x: instances.generate("a-max-trap", balance=x).digest,
    "threshold": _policy("two-point-switch", "threshold"),
    "alpha": _policy("alpha-protection", "alpha"),
    "wrong": _field(online.NoisyPredictions, "wrong", delta=1),
    "affine-time": lambda x: AffineTime(x, x, x),
    "table-time": lambda x: TiledTime([1, 2], [x, 1.0], kv_token=x),
    "iteration-time": lambda x: IterationTime(x, x),
    "prompt-type": _field(balance.PromptType, "arrival_rate", prefill_length=1, decode_length=1),
    "equilibrium-d0": lambda x: balance.equilibrium([TYPE], x, 0.01),
    "margin": lambda x: nested_design.nested_thresholds(
        nested_design.group([TYPE]), 0.1, 0.001, margin=x
    ),
    "plan": lambda x: wait_design.WaitPlan((TYPE,), (1,), x, x).batch_duration,
    "alpha-ratio": lambda x: float(interval_ratios.a_min_two_point_ratio_bound(x)),
    "shares": lambda x: round(float(interval_ratios.a_min_ratio([x, x], 1, 1)), 12),
    "window": lambda x: TraceRule(memory_limit=9, round_seconds=x) and None,
}

INTEGERS: dict[str, Door] = {
    "seed": lambda x: online.simulate(TINY, "mc-sf", seed=x).seed,
    "memory-limit": lambda x: Instance.from_arrays([1], [1], memory_limit=x).memory_limit,
    "max-rounds": lambda x: online.simulate(TINY, "mc-sf", max_rounds=x).status,
    "solve-threads": lambda x: hindsight.solve(TINY, threads=x).upper_bound,
    "generator": lambda x: instances.generate("uniform", n=x).digest,
    "thresholds": lambda x: online.make_policy("nested-wait", thresholds=x)._thresholds,
    "wait": lambda x: online.make_policy("wait", thresholds=x)._types,
    "interval": lambda x: dataclasses.astuple(online.IntervalPredictions(x, x)),
    "delta": _field(online.NoisyPredictions, "delta"),
    "prediction": lambda x: dataclasses.astuple(online.Prediction(x, x, x)),
    "group": lambda x: nested_design.group([TYPE, balance.PromptType(1, 1, 5)], x).ends,
    "plan": lambda x: wait_design.WaitPlan((TYPE,), (x,), 1.0, 1.0).thresholds,
    "id": lambda x: instances.Request(0, 1, 1, x).id,
}


def _workload(time: Any) -> Workload:
    return Workload([time], [1], [1], memory_limit=2)


@pytest.mark.parametrize("name", REALS)
def test_what_is_no_number_is_refused_everywhere(name: str) -> None:
    for value in NO_NUMBERS:
        assert_no_number(REALS[name], value)


@pytest.mark.parametrize("name", INTEGERS)
def test_what_is_no_whole_number_is_refused_everywhere(name: str) -> None:
    for value in NO_INTEGERS:
        if name == "id" and isinstance(value, str):
            continue
        assert_no_number(INTEGERS[name], value)


@pytest.mark.parametrize("name", REALS)
def test_a_number_is_the_same_in_every_type(name: str) -> None:
    assert_same_number(REALS[name], 0.5, np.float64, np.float32, Fraction)


@pytest.mark.parametrize("name", INTEGERS)
def test_a_whole_number_is_the_same_in_every_type(name: str) -> None:
    assert_same_number(INTEGERS[name], 2, np.int64, np.int8, np.uint16)


def test_small_integer_types_do_not_overflow() -> None:
    told = online.IntervalPredictions(np.int8(100), np.int8(120)).predict(1, 110, RNG)
    assert told == online.Prediction(100, 110, 120)
    plan = wait_design.WaitPlan((balance.PromptType(1.0, 1000, 1000),), (np.int8(100),), 1.0, 1.0)  # type: ignore[arg-type]
    assert plan.batch_memory == 100 * balance.PromptType(1.0, 1000, 1000).footprint


def test_a_fraction_stays_exact_where_rounding_would_show() -> None:
    sixths = online.ProportionalPredictions(Fraction(5, 6))  # type: ignore[arg-type]
    assert sixths.predict(1, 6, RNG).upper == 11
    assert online.ProportionalPredictions(0.1).predict(1, 10, RNG).upper == 11


def test_rates_whose_sum_no_float_holds_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="arrival_rate"):
        balance.equilibrium([balance.PromptType(5e307, 1, 1)] * 2, 0.1, 0.1)
    with pytest.raises(InvalidValueError, match="arrival_rate"):
        nested_design.Segments(1, (1, 2), (1e308, 1e308))
