"""Ratios on the papers' constructions, small, against closed forms and solvers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import adversaries
import pytest

import hindsight
import online
from instances import ServiceLevel, generate, one_long_and_units

NEED_A_SOLVER = {"sorted-lp", "lp-swap"}


def row(name: str, memory_limit: int, policy: str = "", seeds: int = 4) -> dict[str, Any]:
    """The construction of that name and policy, measured, with the verdict."""
    named = (one for one in adversaries.constructions() if one.label == name)
    (one,) = (one for one in named if policy in ("", one.policy))
    found = adversaries.measure(one, memory_limit, seeds)
    return {**found, "holds": adversaries.holds(found, is_upper=one.is_upper)}


@pytest.mark.parametrize("policy", sorted(set(online.policy_names()) - NEED_A_SOLVER))
def test_theorem_4_1_against_every_policy(policy: str) -> None:
    """[J25] Theorem 4.1."""
    for memory_limit in (16, 100, 257):
        source = generate("sqrt-n-adversary", memory_limit=memory_limit)
        run = online.simulate(source, policy, level=ServiceLevel(latency=99))
        assert run.status == "completed"
        assert run.instance is not None
        half = math.ceil(math.sqrt(memory_limit) / 2)
        # The short ones came h rounds before the long one's last start could have freed M.
        begun = int(run.attempts.start_round[run.attempts.request == 0][0])
        if run.evictions == 0:
            assert set(run.instance.arrival_times.tolist()) == {0, begun + memory_limit - half}
        ratio = run.total_latency / one_long_and_units(run.instance).total_latency
        assert ratio >= math.sqrt(memory_limit) / 28


def test_the_closed_form_of_the_adversary_against_mc_sf() -> None:
    # b = 0. In round M - j (j = h - 1, .., 1) the long request leaves j - 1 tokens: (j - 1) // 2
    # short ones run; the rest completes in round M. M = 400: h = 10.
    memory_limit, half = 400, 10
    run = online.simulate(generate("sqrt-n-adversary", memory_limit=memory_limit), "mc-sf")
    left, total = memory_limit // 2, memory_limit - 1
    for waited, j in enumerate(range(half - 1, 0, -1), start=1):
        started = (j - 1) // 2
        total += waited * started
        left -= started
    assert run.total_latency == total + left * half


@pytest.mark.parametrize("memory_limit", [16, 30])
def test_the_reference_of_the_adversary_is_the_optimum(memory_limit: int) -> None:
    found = row("sqrt-n-adversary", memory_limit)
    run = online.simulate(generate("sqrt-n-adversary", memory_limit=memory_limit), "mc-sf")
    assert run.instance is not None
    optimum = hindsight.solve(run.instance, threads=1, method="mip", time_limit=60)
    assert optimum.status == "optimal"
    assert found["ratio"] == found["upper"] == run.total_latency / optimum.upper_bound


def policy_first(root: int) -> Fraction:
    """The proof's own sums at M = R^2, with exact counts: their ratio tends to 4/3."""
    limit = root**2
    second = Fraction(2 * limit, 3) * sum(range(1, 3 * root + 1))
    first = root * sum(range(1, root + 1))
    delayed = Fraction(6 * limit * limit * root, limit)
    return (first + second + limit * limit) / (first + second + delayed)


@pytest.mark.parametrize(("trap", "most"), [("mc-sf-trap", 1.6), ("mc-sf-total-trap", 3)])
def test_the_printed_trap_is_bounded_and_the_steep_one_is_not(trap: str, most: float) -> None:
    """[W25] Theorems 1, EC.1."""
    assert policy_first(1000) < Fraction(4, 3) < policy_first(1000) * Fraction(101, 100)
    for size in (144, 576):
        found = row(f"{trap}(sizes=printed)", size)
        assert (found["upper"] < most, found["holds"]) == (True, "no")
        if trap == "mc-sf-trap":
            expected = float(policy_first(math.isqrt(size)))
            assert found["ratio"] == pytest.approx(expected, rel=0.02)
    steep = [row(f"{trap}(sizes=steep)", m)["ratio"] for m in (144, 576)]
    assert steep[1] / steep[0] == pytest.approx(2, rel=0.02)


def test_identical_requests_and_random_orders_stay_below_their_bounds() -> None:
    """[J25] Theorem 4.3; [C25] Theorems 3.4, 8.6, Algorithm 4."""
    for name in ("identical-requests", "two-point-worst-case"):
        found = row(name, 64, seeds=3)
        assert (found["holds"], found["ratio"] >= 1) == ("yes", True)
    assert found["error"] > 0
    # A_max meets the proof's expression and not the theorem:
    # (1/alpha)(t + alpha)(t + 1)/(t^2 + 2 alpha t + 1) at alpha = 1/4, t = 1/2.
    found = row("a-max-trap", 256, "a-max(fit='peaks')")
    assert (found["claim"], found["holds"]) == (6, "no")
    assert found["ratio"] == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize(
    ("ratio", "upper", "is_upper", "verdict"),
    [
        (3.0, 4.0, False, "yes"),
        (1.5, 4.0, False, ""),
        (1.5, math.nan, False, ""),
        (1.5, 1.9, False, "no"),
        (3.0, 4.0, True, "no"),
        (1.5, 4.0, True, ""),
        (1.5, 2.0, True, "yes"),
    ],
)
def test_claims_are_judged_by_the_right_end_of_the_interval(
    ratio: float, upper: float, is_upper: bool, verdict: str
) -> None:
    found = {"ratio": ratio, "upper": upper, "error": 0.0, "claim": 2.0}
    assert adversaries.holds(found, is_upper=is_upper) == verdict
    assert adversaries.holds({**found, "claim": math.nan}, is_upper=is_upper) == ""
