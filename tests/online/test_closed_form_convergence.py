"""Simulated ratios beside the closed forms: what meets them, and what does not."""

from __future__ import annotations

import pytest

from online.closed_form_convergence import Case, SimulatedRatio, simulated_ratios
from online.theory import a_max_two_point_ratio, a_min_two_point_ratio_bound


def one(case: Case, memory: int, batches: int, seeds: int = 3) -> SimulatedRatio:
    return next(simulated_ratios([case], [memory], batches, seeds))


@pytest.mark.slow
def test_a_min_as_analysed_meets_theorem_5_1() -> None:
    lengths = {"lower": 4, "upper": 8}
    case = Case("a-min", {"overdue": "reserve"}, "two-point", lengths, 1.25)
    ratios = [one(case, memory, 20).mean_ratio for memory in (50, 100, 400)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] == pytest.approx(1.25, abs=0.03)


def test_a_min_as_written_passes_theorem_5_1() -> None:
    lengths = {"lower": 1, "upper": 5}
    bound = a_min_two_point_ratio_bound(1 / 5)
    case = Case("a-min", {"overdue": "grow"}, "two-point", lengths, bound)
    result = one(case, 100, 20)
    assert result.mean_ratio - 5 * result.standard_error > bound + 0.2


def test_a_max_meets_its_expression_only_with_whole_peaks() -> None:
    limit = a_max_two_point_ratio(0.25, 2.5)
    for fit, expected in (("peaks", limit), ("rounds", 3.6)):
        case = Case("a-max", {"fit": fit}, "a-max-trap", {"balance": 2.5}, limit)
        assert one(case, 64, 20).mean_ratio == pytest.approx(expected, rel=0.03)
