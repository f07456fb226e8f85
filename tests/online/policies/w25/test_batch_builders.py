"""[W25]'s batch builders against all subsets."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from instances import InvalidValueError
from online.policies.w25.batch_builders import (
    exact_batch,
    greedy_fill,
    local_swap,
    quantile_batch,
    scaled_batch,
    swap_batch,
)

Lengths = tuple[list[int], list[int], int]


@st.composite
def lengths(draw: DrawFn, most: int = 8) -> Lengths:
    limit = draw(st.integers(2, 30))
    rows = draw(
        st.lists(
            st.integers(1, limit - 1).flatmap(
                lambda s: st.tuples(st.just(s), st.integers(1, limit - s))
            ),
            min_size=1,
            max_size=most,
        )
    )
    return [s for s, _ in rows], [o for _, o in rows], limit


def f_of(outputs: list[int], batch: list[int]) -> Fraction:
    return Fraction(sum(outputs[i] for i in batch), len(batch) ** 2)


def fits_by_peaks(lengths: Lengths, batch: list[int]) -> bool:
    prompts, outputs, limit = lengths
    return sum(prompts[i] + outputs[i] for i in batch) <= limit


def fits_in_rounds(lengths: Lengths, batch: list[int]) -> bool:
    prompts, outputs, limit = lengths
    return all(
        sum(prompts[i] + r for i in batch if outputs[i] >= r) <= limit
        for r in range(1, max(outputs) + 1)
    )


def least(lengths: Lengths, fits: object) -> tuple[Fraction, int]:
    """Least F over all subsets that fit, and minus the largest size with it."""
    n = len(lengths[0])
    return min(
        (f_of(lengths[1], list(batch)), -k)
        for k in range(1, n + 1)
        for batch in combinations(range(n), k)
        if fits(lengths, list(batch))  # type: ignore[operator]
    )


def arrays(lengths: Lengths) -> tuple[np.ndarray, np.ndarray, int]:
    return np.array(lengths[0]), np.array(lengths[1]), lengths[2]


@given(lengths())
@settings(max_examples=examples(300))
def test_the_dynamic_program_is_the_best_subset(drawn: Lengths) -> None:
    """[W25] Algorithm 2, Section 3."""
    for fit, fits in (("peaks", fits_by_peaks), ("rounds", fits_in_rounds)):
        batch = exact_batch(*arrays(drawn), fit=fit).tolist()  # type: ignore[arg-type]
        assert sorted(set(batch)) == batch
        assert fits(drawn, batch)
        assert (f_of(drawn[1], batch), -len(batch)) == least(drawn, fits)


@given(lengths(), st.sampled_from([0.05, 0.3, 1.0]))
@settings(max_examples=examples(200))
def test_rounded_outputs_keep_the_promise(drawn: Lengths, epsilon: float) -> None:
    """[W25] Algorithm 3, Lemma 1."""
    batch = scaled_batch(*arrays(drawn), epsilon, scale="output").tolist()
    assert fits_by_peaks(drawn, batch)
    assert f_of(drawn[1], batch) <= (1 + Fraction(str(epsilon))) * least(drawn, fits_by_peaks)[0]


@given(lengths(), st.sampled_from([0.1, 1.0]), st.sampled_from([1, 5, 100]))
@settings(max_examples=examples(200))
def test_rounded_memory_never_misses_quality(
    drawn: Lengths, epsilon: float, precision: int
) -> None:
    batch = scaled_batch(*arrays(drawn), epsilon, precision).tolist()
    assert f_of(drawn[1], batch) <= least(drawn, fits_by_peaks)[0]
    factor = max(1.0, epsilon * drawn[2] / precision)
    peaks = sum(drawn[0][i] + drawn[1][i] for i in batch)
    assert peaks < drawn[2] + (len(batch) + 1) * factor


@given(lengths(most=12))
@settings(max_examples=examples(300))
def test_swaps_never_worsen_and_end_where_none_helps(drawn: Lengths) -> None:
    """[W25] Algorithm 4."""
    prompts, outputs, limit = arrays(drawn)
    peaks = prompts + outputs
    order = np.argsort(peaks, kind="stable")
    for offered in (order, np.arange(len(peaks))):
        start = offered[greedy_fill(peaks[offered], limit)]
        batch = local_swap(prompts, outputs, limit, start).tolist()
        assert len(set(batch)) == len(start)
        assert fits_by_peaks(drawn, batch)
        assert f_of(drawn[1], batch) <= f_of(drawn[1], start.tolist())
        for out in batch:
            for into in set(range(len(peaks))) - set(batch):
                swapped = [into if i == out else i for i in batch]
                if fits_by_peaks(drawn, swapped):
                    assert f_of(drawn[1], swapped) >= f_of(drawn[1], batch)
    assert (
        swap_batch(prompts, outputs, limit).tolist()
        == local_swap(prompts, outputs, limit, order[greedy_fill(peaks[order], limit)]).tolist()
    )


@given(lengths(most=12), st.integers(0, 5))
@settings(max_examples=examples(200))
def test_quantile_greedy_is_its_pseudocode(drawn: Lengths, seed: int) -> None:
    """[W25] Algorithm 5."""
    prompts, outputs, limit = drawn
    n = len(prompts)
    peaks = [s + o for s, o in zip(prompts, outputs, strict=True)]
    sample = np.random.default_rng(seed).choice(n, max(1, n // 2), replace=False)
    largest_peak = np.quantile([peaks[i] for i in sample], 0.3)
    largest_output = np.quantile([outputs[i] for i in sample], 0.3)
    by_output = sorted(range(n), key=lambda i: outputs[i])
    taken: list[int] = []
    memory = 0
    for i in by_output:
        small = peaks[i] <= largest_peak and outputs[i] <= largest_output
        if small and memory + peaks[i] <= limit:
            taken.append(i)
            memory += peaks[i]
    remaining = [i for i in by_output if i not in taken]
    for i in sorted(remaining, key=lambda i: Fraction(outputs[i], peaks[i])):
        if memory + peaks[i] <= limit:
            taken.append(i)
            memory += peaks[i]
    found = quantile_batch(*arrays(drawn), np.random.default_rng(seed))
    assert found.tolist() == sorted(taken)
    assert fits_by_peaks(drawn, taken)


def test_too_large_a_table_is_refused() -> None:
    many = np.full(10_000, 3)
    with pytest.raises(InvalidValueError, match="too large for a dynamic program"):
        exact_batch(many, many, 16_492)
