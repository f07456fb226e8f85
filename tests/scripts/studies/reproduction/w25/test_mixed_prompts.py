from __future__ import annotations

import pytest

from studies.reproduction.w25.mixed_prompts import bimodality, peaks_of


@pytest.mark.parametrize(
    ("counts", "peaks"),
    [
        ([5, 3, 1], [0]),
        ([1, 3, 1, 4], [1, 3]),
        ([2, 2, 1, 3, 3, 0], [0, 3]),
        ([1, 2, 2, 3], [3]),
        ([4, 4], [0]),
    ],
)
def test_peaks_are_above_both_neighbours(counts: list[int], peaks: list[int]) -> None:
    assert peaks_of(counts) == peaks


@pytest.mark.parametrize(
    ("counts", "holds"),
    [
        ([900, 100, 300, 200], True),
        ([300, 100, 900, 200], False),
        ([900, 290, 300, 200], False),
        ([900, 500, 300, 200], False),
        ([900, 100, 300, 100, 300], False),
    ],
)
def test_bimodal_is_two_peaks_the_first_higher_the_second_beyond_chance(
    counts: list[int], holds: bool
) -> None:
    """[W25] Figure EC.1."""
    assert bimodality(counts).holds is holds
