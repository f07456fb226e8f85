from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import online
from instances import InvalidValueError
from online import Trial
from online.pictures import Curve
from online.simulation.metrics import Steps
from online.trials.intervals import Interval
from studies.reproduction import Setting, reproduction
from studies.reproduction.j25 import (
    clearing_grids,
    latency_growth,
    lengths,
    memory_use,
    optimum_ratios,
    serving,
    table_1,
)
from studies.reproduction.verdicts import Statement, agrees


def curve(points: dict[float, float]) -> Curve:
    return Curve.from_samples({x: [mean] for x, mean in points.items()})


def held(checks: list[Statement]) -> list[bool]:
    return [check.holds for check in checks]


@pytest.mark.parametrize(
    ("found", "expected"),
    [(0.5, True), (2.0, True), (0.49, False), (2.01, False), (-1.0, False), (float("nan"), False)],
)
def test_figures_agree_within_a_factor_two(found: float, expected: bool) -> None:
    assert agrees(found, 1.0) is expected


def test_a_slope_is_that_of_the_line() -> None:
    slope, fit = serving.slope_and_fit([0, 1, 2, 3], [1, 3, 5, 7])
    assert (slope, fit) == pytest.approx((2, 1))
    # By hand: mean x 1, mean y 1, sum of products 2, of squares 2; a third of the spread is left.
    slope, fit = serving.slope_and_fit([0, 1, 2], [0, 1 + 1, 2])
    assert slope == pytest.approx(1)
    assert fit == pytest.approx(1 - (2 / 3) / (8 / 3))


def served_but(policy: str, module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run takes a hundredth of a second a request; no run of one policy ever ends."""

    def serve_all(_: Setting, cases: Iterable[serving.Case]) -> dict[serving.Case, serving.Served]:
        return {
            case: serving.Served(None if case.policy == policy else case.requests / 100, 0)
            for case in cases
        }

    monkeypatch.setattr(module, "serve_all", serve_all)


def test_a_policy_whose_runs_never_end_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    served_but("mc-benchmark", latency_growth, monkeypatch)
    outcome = reproduction("j25-figure-3-high-demand").measure(Setting(quick=True))
    assert "Not every run ends at two sizes: MC-Benchmark. " in outcome.remark
    assert "slopes 1/100 s (MC-SF)" in outcome.measured


@pytest.mark.parametrize(
    ("name", "module", "policy"),
    [
        ("j25-figure-3-low-demand", latency_growth, "mc-sf"),
        ("j25-figure-7", clearing_grids, "alpha-beta-clearing"),
    ],
)
def test_lengths_that_leave_nothing_to_measure_are_refused(
    name: str, module: object, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    served_but(policy, module, monkeypatch)
    with pytest.raises(InvalidValueError, match=r"lengths = .* leave "):
        reproduction(name).measure(Setting(quick=True))


def test_sizes_are_prefixes_of_one_draw() -> None:
    small, large = serving.workload(5, 50.0, 3), serving.workload(9, 50.0, 3)
    assert small.arrival_times.tolist() == large.arrival_times[:5].tolist()
    assert small.output_lengths.tolist() == large.output_lengths[:5].tolist()
    assert small.prompt_lengths.tolist() == large.prompt_lengths[:5].tolist()


def test_a_run_is_made_once() -> None:
    case = serving.Case.of("mc-sf", {}, 3, serving.LOW, 7)
    told: list[int] = []
    setting = Setting(progress=lambda done, total: told.append(total))
    first = serving.serve_all(setting, [case, case])
    assert serving.serve_all(setting, [case]) == first
    assert told == [1]
    # Three requests that never wait: each runs alone or beside two others, in rounds above 50 ms.
    work = serving.workload(3, 10.0, 7)
    assert first[case].mean_latency is not None
    assert first[case].mean_latency >= 0.05 * work.output_lengths.mean()


def test_a_point_with_a_run_that_never_ended_is_left_out() -> None:
    done, lost = serving.Served(2.0, 0), serving.Served(None, 9)
    found = serving.curve_of({1: [done, done], 2: [done, lost]})
    assert (found.x, found.mean) == ((1.0,), (2.0,))


def test_slopes_are_judged_in_parts() -> None:
    """[J25] Figure 3."""
    published = latency_growth.Slopes(1 / 6, 1 / 2)
    checks = latency_growth.slope_checks(published, latency_growth.Slopes(0.1, 0.2), True)
    assert held(checks) == [True, True, False, True]
    flat = latency_growth.slope_checks(published, latency_growth.Slopes(-0.01, 0.2), False)
    assert held(flat) == [False, False, False, False]


@pytest.mark.parametrize(
    ("slope", "text"), [(1 / 6, "1/6 s"), (1 / 1234, "1/1,234 s"), (0.0, "0 s"), (-0.5, "-0.5 s")]
)
def test_slopes_are_written_as_in_the_paper(slope: float, text: str) -> None:
    assert latency_growth.per_request(slope) == text


def test_the_lowest_curve_is_below_at_every_common_size() -> None:
    low, high = curve({1: 1.0, 2: 2.0}), curve({1: 1.5, 2: 2.5})
    part = curve({2: 1.9})
    assert latency_growth.mc_sf_is_lowest({"a": low, "b": high})
    assert not latency_growth.mc_sf_is_lowest({"a": low, "b": high, "c": part})
    assert not latency_growth.mc_sf_is_lowest({"a": low, "b": low})


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=20
    ),
    st.integers(1, 12),
)
def test_intervals_of_time_keep_mean_and_ends(
    rounds: list[tuple[int, int, int]], bins: int
) -> None:
    clock = 0
    starts, ends, values = [], [], []
    for length, idle, value in rounds:
        clock += idle
        starts.append(float(clock))
        clock += length
        ends.append(float(clock))
        values.append(value)
    steps = Steps(np.array(starts), np.array(ends), np.array(values))
    rows = memory_use.binned(steps, bins)
    area = sum((e - s) * v for s, e, v in zip(starts, ends, values, strict=True))
    assert sum((high - low) * mean for low, high, _, mean, _ in rows) == pytest.approx(area)
    for low, high, smallest, mean, largest in rows:
        assert smallest - 1e-9 <= mean <= largest + 1e-9
        middle = (low + high) / 2
        inside = [v for s, e, v in zip(starts, ends, values, strict=True) if s <= middle < e]
        assert smallest <= (inside[0] if inside else 0) <= largest
    assert max(row[4] for row in rows) == max(values)


def test_memory_is_judged_by_batches() -> None:
    """[J25] Figures 6, 9."""
    mostly_full = np.array([0.95] * 19 + [0.1])
    assert held(memory_use.memory_checks(mostly_full, 0, True)) == [True, True, True]
    half = np.array([0.6] * 20)
    assert held(memory_use.memory_checks(half, 0, True)) == [True, True, False]
    # What would not have fitted was sent back, so that no batch tells of it.
    assert held(memory_use.memory_checks(half, 1, False)) == [False, True]


def test_alpha_is_judged_by_where_it_is_best() -> None:
    """[J25] Figures 7, 10."""
    good = {0.0: math.inf, 0.05: 1.5, 0.2: 1.0, 0.3: 1.2}
    assert held(clearing_grids.alpha_checks({0.1: good}, (0.15, 0.25))) == [True, True]
    means = {0.1: good, 0.2: {**good, 0.05: 1.05}}
    assert held(clearing_grids.alpha_checks(means, (0.15, 0.25))) == [True, False]
    outside = {0.1: {0.05: 1.5, 0.3: 1.0}}
    assert held(clearing_grids.alpha_checks(outside, (0.15, 0.25))) == [False, True]


def test_the_knee_is_the_last_bad_alpha_from_the_left() -> None:
    bowl = {0.0: math.inf, 0.05: 1.5, 0.1: 1.05, 0.2: 1.0, 0.4: 1.3}
    flat = {0.0: 2.0, 0.05: 1.0, 0.1: 1.0, 0.2: 1.0, 0.4: 1.0}
    assert "up to 0.05 is worse" in clearing_grids.knee_remark({0.1: bowl})
    assert "up to 0 is worse" in clearing_grids.knee_remark({0.1: bowl, 0.2: flat})
    assert "No small alpha" in clearing_grids.knee_remark({0.1: {0.0: 1.0, 0.4: 1.05}})


def test_beta_is_judged_inside_and_at_both_ends() -> None:
    """[J25] Figures 8, 11."""
    bowl = {0.01: 2.0, 0.1: 1.0, 0.2: 1.05, 1.0: 1.5}
    assert held(clearing_grids.beta_checks({0.1: bowl}, (0.05, 0.25))) == [True, True, True]
    flat = {0.1: bowl, 0.2: dict.fromkeys(bowl, 1.0)}
    assert held(clearing_grids.beta_checks(flat, (0.05, 0.25))) == [True, False, False]


def test_clearings_are_counted_by_alpha() -> None:
    rows = [[0.1, 0.1, 5, 0, 1, 1, 1, 4.0], [0.1, 0.2, 5, 0, 1, 1, 1, 6.0]]
    rows += [[0.2, beta, 5, 0, 1, 1, 1, 0.0] for beta in (0.1, 0.2)]
    assert clearing_grids.eviction_remark(rows) == (
        "Requests cleared in a run: 5 at alpha = 0.1 and 0 at alpha = 0.2 on average, none from "
        "alpha = 0.2 on"
    )
    given_up = [0.1, 1.0, 5, 1, None, None, None, 900.0]
    assert "5 at alpha = 0.1 and" in clearing_grids.eviction_remark([*rows, given_up])
    assert "900 at alpha = 0.1 until given up" in clearing_grids.eviction_remark(
        [given_up, *rows[2:]]
    )
    assert clearing_grids.eviction_remark(rows[2:]).startswith("No run clears any request")


def test_order_ignores_pairs_that_the_paper_does_not_tell_apart() -> None:
    assert table_1.pairs_in_order([3, 2, 1], [50.0, 50.1, 51.0]) == (0, 2)
    assert table_1.pairs_in_order([1, 2, 3], [50.0, 51.0, 52.0]) == (3, 3)


def test_the_table_is_judged_in_parts() -> None:
    """[J25] Table 1."""
    published = [32.0, 46.0, 52.0, 51.0]
    assert held(table_1.table_checks(published, published)) == [True] * 4
    halved = [average / 2 for average in published]
    assert held(table_1.table_checks(halved, published)) == [True, True, True, False]
    swapped = [32.0, 46.0, 51.0, 52.0]
    assert held(table_1.table_checks(swapped, published)) == [True, False, True, True]


def test_moments_are_those_published() -> None:
    """[J25] Figure 5, Section 5.2."""
    assert held(lengths.moment_checks(lengths.PAPER, fitted=True)) == [True] * 4
    off = {**lengths.PAPER, "output": lengths.Moments(85.32, 50.0)}
    checks = lengths.moment_checks(off, fitted=True)
    assert held(checks) == [True, True, True, False]
    # The law has them by construction; one that is off has not.
    assert [each.counts for each in checks] == [False, False, False, True]
    assert all(each.counts for each in lengths.moment_checks(off, fitted=False))


def ratio(low: float, high: float | None = None) -> Interval:
    ends = [None if end is None else Fraction(str(end)) for end in (low, high)]
    return Interval(ends[0], ends[0] if high is None else ends[1])


def test_only_proved_optima_count_as_matches() -> None:
    assert optimum_ratios.exact_matches([ratio(1), ratio(1.1), ratio(1, 1.2)]) == 1


def record(total: int, optimum: int) -> Trial:
    known = {"cost": total, "lower": optimum, "upper": optimum}
    return Trial("x", str(total), 3, 9, "mc-sf", status="completed", **known)


def test_ratios_are_judged_in_parts() -> None:
    """[J25] Figure 2."""
    records = [record(100, 100), record(112, 100)]
    found = [one.ratio for one in records if one.ratio is not None]
    summary = online.table(records).iloc[0]
    for published, expected in (
        (optimum_ratios.Published(1.05, 1.2, None), [True, True, True]),
        (optimum_ratios.Published(1.02, 1.05, 90), [False, False, True]),
        (optimum_ratios.Published(1.1, 1.3, 10), [True, False, False]),
    ):
        checks = optimum_ratios.ratio_checks(published, summary, found, [1.0, 1.0], 3)
        assert held(checks) == [*expected, True]


def test_the_papers_mean_must_be_possible_at_its_sizes() -> None:
    records = [record(112, 100)]
    summary = online.table(records).iloc[0]
    found = [one.ratio for one in records if one.ratio is not None]
    published = optimum_ratios.Published(1.05, 1.2, None)
    # Standard error of (1.04, 1.06, 1.04, 1.06): 0.0115 / 2; the mean may lie 0.0163 below.
    bounds = [1.04, 1.06, 1.04, 1.06]
    for shift, possible in ((0.0, True), (0.016, True), (0.017, False), (-0.5, True)):
        moved = [bound + shift for bound in bounds]
        checks = optimum_ratios.ratio_checks(published, summary, found, moved, 3)
        assert checks[-1].holds is possible


@pytest.mark.slow
def test_a_found_schedule_bounds_the_ratio_from_below() -> None:
    bounded = optimum_ratios.bound_ratio((1, 0, 2000))
    # An earlier solve proved that this draw's optimum is in [11926, 12100].
    assert bounded.requests == 57
    assert bounded.total_latency >= bounded.best_schedule >= 11926
    assert bounded.ratio >= 1


@pytest.mark.slow
def test_trials_are_kept_in_the_results_file(tmp_path: Path) -> None:
    setting = Setting(results=tmp_path / "trials.jsonl")
    first = optimum_ratios.proved_trials(setting, 1, 3, 4)
    assert [one.is_proved for one in first] == [True] * 4
    kept = (tmp_path / "trials.jsonl").read_text()
    assert optimum_ratios.proved_trials(setting, 1, 3, 4) == first
    assert (tmp_path / "trials.jsonl").read_text() == kept
    assert optimum_ratios.proved_trials(Setting(), 1, 3, 4) == first
