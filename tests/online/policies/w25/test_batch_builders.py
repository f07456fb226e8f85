"""[W25]'s batch builders against all subsets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from online.policies.w25.batch_builders import exact_batch, scaled_batch

Lengths = tuple[list[int], list[int], int]


@st.composite
def lengths(draw: DrawFn) -> Lengths:
    limit = draw(st.integers(2, 30))
    rows = draw(
        st.lists(
            st.integers(1, limit - 1).flatmap(
                lambda s: st.tuples(st.just(s), st.integers(1, limit - s))
            ),
            min_size=1,
            max_size=8,
        )
    )
    return [s for s, _ in rows], [o for _, o in rows], limit


def f_of(outputs: list[int], batch: list[int]) -> Fraction:
    return Fraction(sum(outputs[i] for i in batch), len(batch) ** 2)


def fits(lengths: Lengths, batch: Sequence[int]) -> bool:
    prompts, outputs, limit = lengths
    return sum(prompts[i] + outputs[i] for i in batch) <= limit


def least(lengths: Lengths) -> tuple[Fraction, int]:
    """Least F over all subsets that fit, and minus the largest size with it."""
    n = len(lengths[0])
    return min(
        (f_of(lengths[1], list(batch)), -k)
        for k in range(1, n + 1)
        for batch in combinations(range(n), k)
        if fits(lengths, batch)
    )


def arrays(lengths: Lengths) -> tuple[np.ndarray, np.ndarray, int]:
    return np.array(lengths[0]), np.array(lengths[1]), lengths[2]


@given(lengths())
@settings(max_examples=examples(300))
def test_the_dynamic_program_is_the_best_subset(drawn: Lengths) -> None:
    """[W25] Algorithm 2, Section 3."""
    batch = exact_batch(*arrays(drawn)).tolist()
    assert sorted(set(batch)) == batch
    assert fits(drawn, batch)
    assert (f_of(drawn[1], batch), -len(batch)) == least(drawn)


@given(lengths(), st.sampled_from([0.05, 0.3, 1.0]))
@settings(max_examples=examples(200))
def test_rounded_memory_gives_no_larger_f(drawn: Lengths, epsilon: float) -> None:
    """[W25] Algorithm 3."""
    batch = scaled_batch(*arrays(drawn), epsilon, 10).tolist()
    assert f_of(drawn[1], batch) <= least(drawn)[0]
    excess = sum(drawn[0][i] + drawn[1][i] for i in batch) - drawn[2]
    assert excess < max(1, epsilon * drawn[2] / 10) * (len(batch) + 1)
