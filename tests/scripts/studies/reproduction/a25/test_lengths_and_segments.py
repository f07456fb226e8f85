from __future__ import annotations

import numpy as np
import pytest

from studies.reproduction.a25.length_figures import (
    bin_means,
    bin_shares,
    close,
    least_mean_output,
    total_variation,
)
from studies.reproduction.a25.segment_figures import (
    SegmentPanel,
    best_count,
    best_on_machine,
    conversation_types,
    dominates_until,
    grows,
    is_u_shaped,
    panel,
    totals_on_machine,
)


def curve(*terms: tuple[int, float, float, float]) -> list[SegmentPanel]:
    return [
        SegmentPanel(1, 1, 0.1, count, batch, boundary, buffer, batch + boundary + buffer)
        for count, batch, boundary, buffer in terms
    ]


def test_bins_end_with_their_fiftieth_token() -> None:
    lengths = np.array([1, 50, 51, 100, 101])
    assert bin_shares(lengths, 2).tolist() == [0.4, 0.4]
    values = np.array([1, 3, 10, 20, 7])
    assert bin_means(values, lengths, 3).tolist() == [2.0, 15.0, 7.0]


def test_the_printed_shares_need_longer_outputs_than_the_other_papers_have() -> None:
    shares = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1)
    at_upper_ends = sum(share * 50 * k for k, share in enumerate(shares, 1)) / sum(shares)
    assert least_mean_output() == pytest.approx(at_upper_ends - 49)
    assert least_mean_output() > 85.4


def test_total_variation_is_the_mass_to_be_moved() -> None:
    assert total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25])) == 0.25


def test_about_sixty_is_within_a_fifth() -> None:
    assert [close(value, 60) for value in (47.9, 48.1, 71.9, 72.1)] == [False, True, True, False]


def test_domination_ends_with_the_first_larger_term() -> None:
    assert dominates_until(curve((1, 5, 0, 0), (2, 3, 3, 1), (5, 3, 1, 4), (9, 9, 0, 0))) == 2
    assert dominates_until(curve((1, 5, 6, 0))) == 0


def test_a_u_has_its_minimum_near_ten_and_both_ends_above() -> None:
    ends = ((1, 8, 0, 0), (50, 5, 1, 1))
    assert is_u_shaped(curve(ends[0], (10, 4, 1, 1), ends[1]))
    assert best_count(curve(ends[0], (10, 4, 1, 1), ends[1])) == 10
    assert not is_u_shaped(curve(ends[0], (30, 4, 1, 1), ends[1]))
    assert not is_u_shaped(curve(ends[0], (10, 4, 1, 1), (50, 4, 1, 1.1)))


def test_growth_of_the_buffer_is_asked_of_every_boundary() -> None:
    easy = curve((1, 1, 0, 0), (2, 1, 1, 1), (3, 1, 1, 2))
    assert grows(easy, curve((1, 1, 0, 0), (2, 1, 1, 1.5), (3, 1, 1, 3)))
    assert not grows(easy, curve((1, 1, 0, 0), (2, 1, 1, 1.5), (3, 1, 1, 2)))


def test_the_memory_over_segments_is_u_shaped() -> None:
    """[A25] Figure 16: the least total lies at a moderate number of segments."""
    rows = panel(50, 200, 0.1, (1, 2, 5, 10, 20, 50))
    totals = [row.total for row in rows]
    assert min(totals) == totals[3]
    assert totals[:4] == sorted(totals[:4], reverse=True)
    assert totals[3:] == sorted(totals[3:])
    assert all(row.batch > row.boundary + row.buffer for row in rows)
    assert len(conversation_types(50)) == 500
    assert sum(kind.arrival_rate for kind in conversation_types(50)) == pytest.approx(50)


def test_a_smaller_probability_adds_its_logarithm_to_the_buffer() -> None:
    (easy,), (hard,) = (panel(50, 200, delta, (10,)) for delta in (0.1, 1e-5))
    # Term 3 is ln(L (1 + T) / delta) times what does not depend on delta.
    ratio = np.log(10 * 201 / 1e-5) / np.log(10 * 201 / 0.1)
    assert hard.buffer / easy.buffer == pytest.approx(ratio)
    assert (hard.batch, hard.boundary) == (easy.batch, easy.boundary)


def test_the_machine_cannot_keep_up_with_500_a_second() -> None:
    assert totals_on_machine(500, 200, 0.1, (1, 5)) == {}
    assert list(totals_on_machine(50, 200, 0.1, (1, 5))) == [5]


def test_the_minimum_on_the_machine_has_to_be_near_ten_as_well() -> None:
    assert best_on_machine({}, (1, 5)) == ("no thresholds keep up with that rate", False)
    text, agrees = best_on_machine({4: 1.0, 10: 2.0}, (1, 4, 10))
    assert "for 2 of 3" in text
    assert "is at 4" in text
    assert not agrees
    assert best_on_machine({4: 2.0, 10: 1.0}, (4, 10))[1]
