"""[J25]'s alpha-protection policies, and the livelock of small alpha."""

from __future__ import annotations

from fractions import Fraction

import pytest
from brute_force import rows_of
from hypothesis import given
from hypothesis import strategies as st
from per_round import alpha_protection
from strategies import instances

import online
from instances import Instance


@given(
    instances(max_requests=7, max_memory=14, max_arrival=8),
    st.sampled_from(["0", "0.1", "0.25", "0.5", "0.9"]),
)
def test_alpha_protection_is_its_description(instance: Instance, alpha: str) -> None:
    """[J25] Section 5.2."""
    threshold = int((1 - Fraction(alpha)) * instance.memory_limit)
    rows = rows_of(instance)
    starts = alpha_protection(rows, instance.memory_limit, threshold)
    run = online.simulate(instance, online.make_policy("alpha-protection", alpha=float(alpha)))
    if starts is None:
        assert run.status == "livelock"
    else:
        assert run.status == "completed"
        assert run.start_rounds.tolist() == starts


def test_each_request_is_cleared_with_probability_beta() -> None:
    """[J25] Appendix C."""
    # Round 3 of 20 requests would hold 80 > 79 tokens; any one of them makes room. One draw of
    # beta = 1/2 is enough unless nobody is drawn (one in a million).
    instance = Instance.from_arrays([1] * 20, [4] * 20, memory_limit=79)
    policy = online.make_policy("alpha-beta-clearing", alpha=0.0, beta=0.5)
    counts = []
    for seed in range(400):
        attempts = online.simulate(instance, policy, seed=seed, max_rounds=3).attempts
        counts.append(int(((attempts.end_round == 2) & ~attempts.completed).sum()))
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    assert abs(mean - 10) < 5 * (5 / 400) ** 0.5
    assert abs(variance - 5) < 2


@pytest.mark.parametrize(
    ("beta", "round_index"), [(1.0, 2), (1e-9, 4)], ids=["all cleared", "one cleared"]
)
def test_who_is_cleared_comes_back_at_once_only_to_an_empty_machine(
    beta: float, round_index: int
) -> None:
    """Both overflow after two rounds. One alone runs to round 4, beside which none fits."""
    pair = Instance.from_arrays([1, 1], [4, 4], memory_limit=7)
    policy = online.make_policy("alpha-beta-clearing", alpha=0.4, beta=beta)
    run = online.simulate(pair, policy, max_rounds=7)
    assert run.attempts.start_round[:3].tolist() == [0, 0, round_index]
