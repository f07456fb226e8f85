"""Bounds of the user's: claims that are told apart from what is proved, and prices that prove."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute_force import optimal_total_latency

import hindsight
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.prices.states import StatePrices
from instances import Instance, InvalidTypeError, InvalidValueError, UnknownNameError

# Idle gaps and all: the last request comes long after the others are done.
INSTANCE = Instance.from_arrays([3, 4, 2, 5, 3], [4, 3, 5, 2, 3], [0, 0, 1, 1, 90], memory_limit=9)
OPTIMUM, _ = optimal_total_latency(INSTANCE)


def solved(*bounds: Any, **settings: Any) -> hindsight.Result:
    return hindsight.solve(
        INSTANCE, **{"method": "beams", "time_limit": 0, **settings}, bounds=bounds
    )


@pytest.fixture(scope="module")
def plain() -> hindsight.Result:
    """What is proved without a search: the interval is open."""
    return solved()


def test_bounds_of_one_name_stand_side_by_side() -> None:
    prices = MemoryPrices(np.array([1, 1, 1]), 2 * INSTANCE.memory_limit)
    result = solved(lambda _: prices, lambda _: 1)
    proved, claimed = result.bounds["bound '<lambda>'"], result.bounds["bound '<lambda> (2)'"]
    assert (proved.claimed, claimed.claimed) == (False, True)


def test_memory_prices_are_a_proof(plain: hindsight.Result) -> None:
    relaxed = hindsight.relax(INSTANCE)
    assert relaxed.certified_bound > plain.certified_lower_bound
    result = solved(lambda instance: relaxed.prices)
    assert result.lower_bound == result.certified_lower_bound == relaxed.certified_bound
    document = hindsight.make_certificate(result.schedule, result.proof, search=False)
    assert document["lower_bound"] == relaxed.certified_bound


def test_state_prices_are_a_proof(plain: hindsight.Result) -> None:
    priced = hindsight.solve(INSTANCE, method="paths", threads=1).proof
    assert isinstance(priced, StatePrices)
    result = solved(lambda _: priced)
    assert plain.certified_lower_bound < result.certified_lower_bound <= OPTIMUM


def test_preemptive_prices_prove_both_optima(plain: hindsight.Result) -> None:
    stopped = hindsight.solve(INSTANCE, preemption="keep")
    result = solved(lambda _: stopped.proof)
    assert plain.certified_lower_bound < result.certified_lower_bound <= stopped.upper_bound
    assert stopped.upper_bound <= OPTIMUM
    # They are no proof that the certificate of a schedule without preemption could hold.
    hindsight.make_certificate(result.schedule, result.proof, search=False)


def prices_of(*numerators: int) -> MemoryPrices:
    return MemoryPrices(np.array(numerators, dtype=np.int64), 1)


@pytest.mark.parametrize(
    ("prices", "settings", "reason"),
    [
        (prices_of(2**62, 2**62), {}, "too large"),
        (StatePrices(np.zeros((3, 4, 4), dtype=np.int64)), {}, r"must be \(T, M\+1, M\+1\)"),
        (StatePrices(np.full((3, 10, 10), -1, dtype=np.int64)), {}, "is negative"),
        (prices_of(1), {"goal": "makespan", "method": "mip"}, "not of|total latency"),
    ],
)
def test_prices_that_cannot_be_evaluated(prices: Any, settings: Any, reason: str) -> None:
    with pytest.raises(InvalidValueError, match=reason):
        solved(lambda _: prices, **settings)


def test_a_bound_is_of_the_goal_of_its_solve() -> None:
    makespan = hindsight.solve(INSTANCE, goal="makespan", bounds=lambda _: 93)
    assert makespan.upper_bound == 93
    assert makespan.bounds["bound '<lambda>'"] == (93, False, True)
    preemptive = hindsight.solve(INSTANCE, preemption="keep", bounds=lambda _: 1, time_limit=0)
    assert preemptive.bounds["bound '<lambda>'"] == (1, False, True)
    with pytest.raises(InvalidValueError, match="exceeds the makespan of a schedule, 93"):
        hindsight.solve(INSTANCE, goal="makespan", bounds=lambda _: 94)


WRITTEN = """
from fractions import Fraction

def outputs(instance):
    return instance.total_output_length

def broken(instance):
    return 1 // 0

number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    path = tmp_path / "own_bounds.py"
    path.write_text(WRITTEN)
    return lambda name: f"{path}{name}"


def test_from_a_file(file: Callable[[str], str], plain: hindsight.Result) -> None:
    assert solved(file(":outputs")).upper_bound == plain.upper_bound
    for bad, error, message in (
        (file(":broken"), InvalidValueError, r"fails: ZeroDivisionError.*own_bounds.py:8"),
        (file(":output"), UnknownNameError, r"did you mean 'outputs'\? Known: outputs, broken$"),
        (file(":number"), InvalidTypeError, "is neither a function nor FILE.py:NAME"),
    ):
        with pytest.raises(error, match=message):
            solved(bad)


def test_a_fleet_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="one replica .* this instance has replicas = 2"):
        hindsight.solve(INSTANCE.replaced(replicas=2), bounds=[lambda one: 1])


def test_a_claim_proves_nothing(plain: hindsight.Result) -> None:
    assert plain.lower_bound < OPTIMUM - 1

    def close(instance: Instance) -> Fraction:
        assert instance is INSTANCE
        return OPTIMUM - Fraction(3, 2)

    result = solved(close)
    assert result.bounds["bound 'close'"] == (OPTIMUM - 1, False, True)
    assert result.lower_bound == plain.lower_bound
    assert result.certified_lower_bound == plain.certified_lower_bound
    assert result.status == "feasible"
