"""Simulated ratios beside the closed forms: what meets them, and what does not."""

from __future__ import annotations

import pytest

from instances import InvalidValueError
from online.theory.interval_ratios import a_min_two_point_ratio_bound
from studies.reproduction.c25.closed_form_convergence import (
    Case,
    SimulatedRatio,
    by_case,
    extrapolate,
    paper_cases,
    plot_convergence,
    simulated_ratios,
    trap_case,
    two_point_case,
)


def one(case: Case, memory: int, batches: int, seeds: int = 3) -> SimulatedRatio:
    return next(simulated_ratios([case], [memory], [batches], seeds))


@pytest.mark.slow
def test_a_min_as_analysed_meets_theorem_5_1() -> None:
    """[C25] Theorem 5.1."""
    case = two_point_case("a-min", {"overdue": "reserve"}, "a-min-reserve", 4, 8)
    assert case.closed_form == pytest.approx(1.25)
    ratios = [one(case, memory, 20).mean_ratio for memory in (48, 96, 400)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] == pytest.approx(1.25, abs=0.03)


def test_a_min_as_written_passes_theorem_5_1() -> None:
    case = two_point_case("a-min", {"overdue": "grow"}, "a-min", 1, 5)
    bound = a_min_two_point_ratio_bound(1 / 5)
    assert case.closed_form == pytest.approx(bound)
    result = one(case, 100, 20)
    assert result.mean_ratio - 5 * result.standard_error > bound + 0.2


def test_a_max_meets_its_expression_only_with_whole_peaks() -> None:
    for fit, rule, expected in (("peaks", "a-max-peaks", 4.53), ("rounds", "a-max", 3.6)):
        case = trap_case(fit, rule, 2.5)  # type: ignore[arg-type]
        assert case.closed_form == pytest.approx(4.5294, abs=1e-4)
        assert one(case, 64, 14).mean_ratio == pytest.approx(expected, rel=0.03)


def made_up(memory: int, requests: int, ratios: tuple[float, ...]) -> SimulatedRatio:
    return SimulatedRatio(paper_cases()[0], memory, 1, requests, ratios, 1.0, 1.0, 0.0)


def test_the_limit_of_an_exact_law_is_found() -> None:
    grid = [(m, m * b) for m in (100, 200, 400) for b in (20, 40)]
    exact = [made_up(m, n, (1.4 + 3 / m - 0.7 * m / n,) * 2) for m, n in grid]
    fit = extrapolate(exact)
    assert (fit.limit, fit.low, fit.high) == pytest.approx((1.4, 1.4, 1.4))
    noisy = [made_up(m, n, (1.4 - 0.1, 1.4 + 0.1)) for m, n in grid]
    fit = extrapolate(noisy)
    assert fit.limit == pytest.approx(1.4)
    assert fit.low < 1.38
    assert fit.high > 1.42
    with pytest.raises(InvalidValueError, match="do not determine"):
        extrapolate([made_up(100, n, (1.4,)) for n in (1000, 2000, 4000)])


def test_small_memories_and_large_instances_are_left_out() -> None:
    cases = [two_point_case("a-ell", {}, "a-ell", 1, 20)]
    results = list(simulated_ratios(cases, [30, 60, 120], [1, 2], 1, largest=120))
    assert [(r.memory_limit, r.requests) for r in results] == [(60, 60), (60, 120), (120, 120)]


def test_every_line_of_the_paper_has_a_panel() -> None:
    """[C25] Section 5."""
    from matplotlib.figure import Figure

    labels = [case.label for case in paper_cases()]
    assert len(set(labels)) == len(labels)
    results = list(simulated_ratios(paper_cases()[:1], [30, 60], [1, 2], 2))
    ax = Figure().add_subplot()
    (group,) = by_case(results).values()
    plot_convergence(ax, group, extrapolate(group))
    handles, names = ax.get_legend_handles_labels()
    assert len(handles) == 4
    assert set(names) >= {"closed form", "extrapolated"}
