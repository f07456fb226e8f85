"""Equilibrium and stability against figures of [A25] and a fixed-point iteration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from online.fluid.balance import PromptType, equilibrium, is_stable, token_load

TYPES = st.lists(
    st.builds(PromptType, st.floats(0.01, 100), st.integers(1, 60), st.integers(1, 60)),
    min_size=1,
    max_size=4,
)


def test_example_2() -> None:
    """[A25] Example 2: 4 prompts a stage, 12 units of memory, 4 completions an iteration."""
    found = equilibrium([PromptType(4, 1, 1)], 0.4, 0.05)
    assert found.memory == pytest.approx(12)
    assert found.iteration_time == pytest.approx(1)
    assert found.throughput == 4
    assert found.prompts == pytest.approx((8,))


def test_proof_of_proposition_3() -> None:
    """[A25] Appendix A.3: K = 1 gives n* = (2, 3) and M* = 9."""
    d1 = 0.07
    found = equilibrium([PromptType(1, 1, 1), PromptType(1, 1, 2)], 1 - 9 * d1, d1)
    assert found.prompts == pytest.approx((2, 3))
    assert found.memory == pytest.approx(9)
    assert found.throughput == 3


@given(types=TYPES, share=st.floats(0, 0.95))
def test_the_equilibrium_is_where_arrivals_equal_completions(
    types: list[PromptType], share: float
) -> None:
    """[A25] Equations (4)-(10), Sections 2.2, 3."""
    d0 = 0.5
    footprints = [sum(k.prefill_length + s for s in range(k.decode_length + 1)) for k in types]
    load = sum(k.arrival_rate * f for k, f in zip(types, footprints, strict=True))
    d1 = share / load
    duration = d0
    for _ in range(600):
        duration = d0 + d1 * sum(
            k.arrival_rate * duration * f for k, f in zip(types, footprints, strict=True)
        )
    found = equilibrium(types, d0, d1)
    assert token_load(types) == pytest.approx(load)
    assert found.iteration_time == pytest.approx(duration)
    assert found.memory == pytest.approx(load * duration)
    assert found.iteration_time == pytest.approx(d0 + d1 * found.memory)
    assert found.load == pytest.approx(share)
    in_service = [k.arrival_rate * duration * (k.decode_length + 1) for k in types]
    assert found.prompts == pytest.approx(in_service)
    # With a limit, stable is the same as M* < C.
    assert is_stable(types, d0, d1, int(found.memory) + 2)
    if found.memory > 2:
        assert not is_stable(types, d0, d1, int(found.memory) - 1)


def test_both_sides_of_proposition_1() -> None:
    """[A25] Proposition 1."""
    at = [PromptType(1 / (0.05 * 3), 1, 1)]
    below = [PromptType(0.999 / (0.05 * 3), 1, 1)]
    assert not is_stable(at, 0.4, 0.05)
    assert is_stable(below, 0.4, 0.05)
    assert equilibrium(below, 0.4, 0.05).iteration_time == pytest.approx(400)
