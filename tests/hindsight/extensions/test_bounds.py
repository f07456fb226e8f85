"""Bounds of the user's: claims that are told apart from what is proved, and prices that prove."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from brute_force import optimal_total_latency

import hindsight
from hindsight.configurations.proofs import StatePrices
from hindsight.extensions.bounds import BOUNDS, OwnBound
from hindsight.outcomes.proofs import MemoryPrices
from instances import Instance, InvalidTypeError, InvalidValueError, UnknownNameError

# Idle gaps and all: the last request comes long after the others are done.
INSTANCE = Instance.from_arrays([3, 4, 2, 5, 3], [4, 3, 5, 2, 3], [0, 0, 1, 1, 90], memory_limit=9)
OPTIMUM, _ = optimal_total_latency(INSTANCE)
PLAIN = hindsight.solve(INSTANCE, method="beams", time_limit=0)
"""What is proved without a search: the interval is open."""


@pytest.fixture(autouse=True)
def fresh_registry() -> Iterator[None]:
    with patch.dict(BOUNDS, clear=True):
        yield


def solved(*bounds: Any, **settings: Any) -> hindsight.SolveResult:
    return hindsight.solve(
        INSTANCE, **{"method": "beams", "time_limit": 0, **settings}, bounds=bounds
    )


def test_a_claim_that_is_reached_proves_nothing() -> None:
    result = solved(lambda _: OPTIMUM)
    assert result.upper_bound == OPTIMUM
    assert result.lower_bound == PLAIN.lower_bound < OPTIMUM
    assert result.status == "feasible"
    assert result.known_bounds().lower_bound == PLAIN.lower_bound


def test_memory_prices_are_a_proof() -> None:
    relaxed = hindsight.relax(INSTANCE)
    assert relaxed.certified_bound > PLAIN.certified_lower_bound
    result = solved(lambda instance: relaxed.memory_prices)
    assert result.lower_bound == result.certified_lower_bound == relaxed.certified_bound
    assert result.root_bound == relaxed.certified_bound
    document = hindsight.make_certificate(result.schedule, result.proof, search=False)
    assert document["lower_bound"] == relaxed.certified_bound


def test_state_prices_are_a_proof() -> None:
    relaxed = hindsight.relax_strengthened(INSTANCE, iterations=40)
    result = solved(lambda _: relaxed.prices)
    assert result.certified_lower_bound == relaxed.certified_bound > PLAIN.certified_lower_bound


def test_preemptive_prices_prove_both_optima() -> None:
    stopped = hindsight.solve(INSTANCE, preemptive=True)
    bound = OwnBound("stopped", lambda _: stopped.proof, "preemptive_total_latency")
    result = solved(bound)
    assert PLAIN.certified_lower_bound < result.certified_lower_bound <= stopped.upper_bound
    assert stopped.upper_bound <= OPTIMUM
    # They are no proof that the certificate of a schedule without preemption could hold.
    hindsight.make_certificate(result.schedule, result.proof, search=False)


def prices_of(*numerators: int) -> MemoryPrices:
    return MemoryPrices(np.array(numerators, dtype=np.int64), 1)


@pytest.mark.parametrize(
    ("prices", "settings", "reason"),
    [
        (prices_of(2**62, 2**62), {}, "too large"),
        (StatePrices(np.zeros((3, 4, 4), dtype=np.int64)), {}, "is of another M"),
        (StatePrices(np.full((3, 10, 10), -1, dtype=np.int64)), {}, "is negative"),
        (prices_of(1), {"objective": "makespan", "method": "mip"}, "not of|total latency"),
    ],
)
def test_prices_that_cannot_be_evaluated(prices: Any, settings: Any, reason: str) -> None:
    bound = OwnBound("priced", lambda _: prices, settings.get("objective", "total_latency"))
    with pytest.raises(InvalidValueError, match=reason):
        solved(bound, **settings)


def test_goals() -> None:
    preemptive = OwnBound("preemptive", lambda _: 1, "preemptive_total_latency")
    makespan = OwnBound("makespan", lambda _: 93, "makespan")
    solved(preemptive)
    with pytest.raises(InvalidValueError, match="is of the makespan"):
        solved(makespan)
    result = hindsight.solve(INSTANCE, objective="makespan", bounds=makespan)
    assert result.upper_bound == 93
    with pytest.raises(ValueError, match="goal"):
        hindsight.register_bound("other", goal="cost")  # type: ignore[arg-type]


WRITTEN = """
import hindsight

@hindsight.register_bound("outputs")
def outputs(instance):
    return instance.total_output_length

def broken(instance):
    return 1 // 0

number = 3
text = f"{__file__}:text"
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    path = tmp_path / "own_bounds.py"
    path.write_text(WRITTEN)
    return lambda name: f"{path}{name}"


def test_from_a_file(file: Callable[[str], str]) -> None:
    for given in (file(":outputs"), file(""), "outputs"):
        assert solved(given).upper_bound == PLAIN.upper_bound
    for bad, error, message in (
        (file(":broken"), InvalidValueError, r"fails: ZeroDivisionError.*own_bounds.py:9"),
        (file(":others"), InvalidValueError, r"is not in .*: write :outputs"),
        (file(":number"), InvalidTypeError, "is neither a bound nor the name of one"),
        (file(":text"), InvalidValueError, "is a text in .*: write :outputs"),
        ("volume", UnknownNameError, "unknown bound 'volume'; known: outputs"),
    ):
        with pytest.raises(error, match=message):
            solved(bad)


def test_a_claim_proves_nothing() -> None:
    assert PLAIN.lower_bound < OPTIMUM - 1

    @hindsight.register_bound("close")
    def close(instance: Instance) -> Fraction:
        assert instance is INSTANCE
        return OPTIMUM - Fraction(3, 2)

    assert hindsight.bound_names() == ["close"]
    for given in ("close", close):
        result = solved(given)
        assert result.own_bounds == {"bound 'close'": (OPTIMUM - 1, False)}
        assert result.lower_bound == PLAIN.lower_bound
        assert result.certified_lower_bound == PLAIN.certified_lower_bound
        assert result.status == "feasible"
