"""Rules that make verdicts of the measurements of the four papers, on numbers made up by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import FileFormatError, Instance, InvalidValueError, generate
from instances.batch_time import BatchStretch
from instances.batch_time.models import IterationTime
from online import make_policy, simulate
from online.fluid.nested_design import group
from online.simulation.metrics import Steps
from online.theory.interval_ratios import a_min_ratio
from online.theory.rayleigh import rayleigh_maximum
from online.trials.intervals import Interval
from studies.reproduction import Setting, Statement, find
from studies.reproduction.a25 import lengths as a25_lengths
from studies.reproduction.a25 import segments
from studies.reproduction.a25 import serving as a25
from studies.reproduction.a25.machine import D0, D1, MEMORY_LIMIT, Roofline
from studies.reproduction.c25 import latency as c25
from studies.reproduction.c25 import ratios
from studies.reproduction.c25.lengths import SAMPLED_OUTPUTS, SAMPLED_PROMPTS, moments
from studies.reproduction.figure import agrees
from studies.reproduction.j25 import latency as j25
from studies.reproduction.j25 import others
from studies.reproduction.j25.workloads import workload
from studies.reproduction.lengths import Given, MomentsOfSample, override, three_moment_law
from studies.reproduction.w25 import latency as w25
from studies.reproduction.w25 import lengths as w25_lengths


def held(checks: Sequence[Statement]) -> list[bool]:
    return [bool(one.holds) for one in checks]


@pytest.mark.parametrize(
    ("found", "expected"),
    [(0.5, True), (2.0, True), (0.49, False), (2.01, False), (-1.0, False), (float("nan"), False)],
)
def test_numbers_agree_within_a_factor_two(found: float, expected: bool) -> None:
    assert agrees(found, 1.0) is expected


# --- [J25] -------------------------------------------------------------------------------------


def test_a_slope_is_that_of_the_line() -> None:
    assert j25.slope_and_fit({0: 1, 1: 3, 2: 5, 3: 7}) == pytest.approx((2, 1))
    # By hand: mean x 1, mean y 4/3, sum of products 2, of squares 2; a quarter is left.
    assert j25.slope_and_fit({0: 0, 1: 2, 2: 2}) == pytest.approx((1, 1 - (2 / 3) / (8 / 3)))


def test_slopes_and_order_are_judged_in_parts() -> None:
    """[J25] Figure 3."""
    means = {"MC-SF": {1: 1.0, 2: 2.0}, "b": {1: 1.5, 2: 2.5}}
    fits = {"MC-SF": (0.1, 1.0), "b": (0.2, 1.0), "c": (0.9, 1.0)}
    assert held(j25.slope_checks(means, fits, (1 / 6, 1 / 2))) == [True, True, False, True]
    flat = {**fits, "MC-SF": (-0.01, 1.0)}
    crossed = {**means, "c": {2: 1.9}}
    assert held(j25.slope_checks(crossed, flat, (1 / 6, 1 / 2))) == [False] * 4


@pytest.mark.parametrize(
    ("slope", "text"), [(1 / 6, "1/6 s"), (1 / 1234, "1/1,234 s"), (0.0, "0 s"), (-0.5, "-0.5 s")]
)
def test_slopes_are_written_as_in_the_paper(slope: float, text: str) -> None:
    assert j25.per_request(slope) == text


@pytest.mark.parametrize(
    ("name", "policy"),
    [("j25-figure-3-low-demand", "mc-sf"), ("j25-figure-7", "alpha-beta-clearing")],
)
def test_lengths_that_leave_nothing_to_measure_are_refused(
    name: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(case: j25.Case, given: Given) -> tuple[float, int]:
        return math.inf if case[0].startswith(policy) else case[1] / 100, 0

    monkeypatch.setattr(j25, "serve", serve)
    with pytest.raises(InvalidValueError, match=r"lengths = .* leave "):
        find(name).measure(Setting(quick=True))


def test_sizes_are_prefixes_of_one_draw() -> None:
    small, large = workload(5, 50.0, 3, {}), workload(9, 50.0, 3, {})
    for name in ("arrival_times", "output_lengths", "prompt_lengths"):
        assert getattr(small, name).tolist() == getattr(large, name)[:5].tolist()


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
    rows = others.binned(Steps(np.array(starts), np.array(ends), np.array(values)), bins)
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
    full, half = np.array([0.95] * 19 + [0.1]), np.array([0.6] * 20)
    assert held(others.memory_checks(full, 0, close_to_full=True)) == [True, True, True]
    assert held(others.memory_checks(half, 0, close_to_full=True)) == [True, True, False]
    # What would not have fitted was evicted, so that no batch shows it.
    assert held(others.memory_checks(half, 1, close_to_full=False)) == [False, True]


def test_alpha_is_judged_by_where_it_is_best() -> None:
    """[J25] Figures 7, 10."""
    good = {0.0: math.inf, 0.05: 1.5, 0.2: 1.0, 0.3: 1.2}
    for means, expected in (
        ({0.1: good}, [True, True]),
        ({0.1: good, 0.2: {**good, 0.05: 1.05}}, [True, False]),
        ({0.1: {0.05: 1.5, 0.3: 1.0}}, [False, True]),
    ):
        assert held(j25.alpha_checks(means, (0.15, 0.25))) == expected


def test_beta_is_judged_inside_and_at_both_ends() -> None:
    """[J25] Figures 8, 11."""
    bowl = {0.01: 2.0, 0.1: 1.0, 0.2: 1.05, 1.0: 1.5}
    assert held(j25.beta_checks({0.1: bowl}, (0.05, 0.25))) == [True, True, True]
    flat = {0.1: bowl, 0.2: dict.fromkeys(bowl, 1.0)}
    assert held(j25.beta_checks(flat, (0.05, 0.25))) == [True, False, False]


def test_the_table_is_judged_in_parts() -> None:
    """[J25] Table 1."""
    published = [32.0, 46.0, 52.0, 51.0]
    assert held(j25.table_checks(published, published)) == [True] * 4
    halved = [average / 2 for average in published]
    assert held(j25.table_checks(halved, published)) == [True, True, True, False]
    assert held(j25.table_checks([32.0, 46.0, 51.0, 52.0], published)) == [True, False, True, True]
    # Pairs that the paper does not tell apart have no order.
    close = j25.table_checks([1, 2, 5, 4, 3], [32.0, 46.0, 50.0, 50.1, 51.0])
    assert "0 of 2 pairs" in close[1].text


def test_ratios_are_judged_in_parts() -> None:
    """[J25] Figure 2."""
    found = [Interval(Fraction(ratio), Fraction(ratio)) for ratio in ("1", "1.12")]
    for published, expected in (
        ((1.05, 1.2, None), [True, True, True]),
        ((1.02, 1.05, 90), [False, False, True]),
        ((1.1, 1.3, 10), [True, False, False]),
    ):
        assert held(others.ratio_checks(published, found, [1.0, 1.0], 3)) == [*expected, True]
    # Only proved optima count as matches.
    open_ones = [Interval(Fraction(1), Fraction("1.2"))]
    assert not held(others.ratio_checks((1.05, 1.2, None), open_ones, [1.0, 1.0], 3))[2]


def test_the_papers_mean_must_be_possible_at_its_sizes() -> None:
    found = [Interval(Fraction("1.12"), Fraction("1.12"))]
    # Standard error of (1.04, 1.06, 1.04, 1.06): 0.0115 / 2; the mean may lie 0.0163 below.
    for shift, possible in ((0.0, True), (0.016, True), (0.017, False), (-0.5, True)):
        moved = [bound + shift for bound in (1.04, 1.06, 1.04, 1.06)]
        assert held(others.ratio_checks((1.05, 1.2, None), found, moved, 3))[-1] is possible


# --- [C25] -------------------------------------------------------------------------------------


def test_the_fit_finds_the_curve_that_made_the_points() -> None:
    u = np.arange(1.0, 60.0)
    fit = ratios.fit_logarithm(u, 0.3 * np.log(u + 0.7) + 1.1)
    assert fit == pytest.approx((0.3, 0.7, 1.1), abs=1e-5)
    # Residuals 0, 1, 0 about a spread of 1 + 0 + 1.
    assert ratios.r_squared(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 3.0])) == 0.5


@pytest.mark.parametrize("u", [1, 2, 5, 30, 100])
def test_the_rank_one_part_bounds_the_maximum(u: int) -> None:
    """[C25] Lemma 4.9."""
    part = ratios.rank_one_part(u)
    assert part <= rayleigh_maximum(u) <= part + 1
    i = np.arange(1, u + 1)
    r = np.minimum.outer(i, i) / np.maximum.outer(i, i)
    assert part == pytest.approx(np.linalg.solve(r, np.ones(u)).sum() / 2)


PUBLISHED = ratios.PUBLISHED
OFF = (0.2555, -0.4, 1.1587)


@pytest.mark.parametrize(
    ("fits", "holds"),
    [
        ([(PUBLISHED, 0.99999, 0.99999)], [True, True, True, True]),
        ([(PUBLISHED, 0.99999, 0.9998)], [True, True, True, False]),
        ([(OFF, 0.99999, 0.99999)], [True, True, False, True]),
        ([((0.27, 0.2793, 1.1587), 0.99999, 0.99999)], [True, False, False, True]),
        ([(OFF, 0.99999, 0.9998), (PUBLISHED, 0.9998, 0.99999)], [False, True, True, True]),
    ],
)
def test_the_statements_of_figure_1(fits: Any, holds: list[bool]) -> None:
    """[C25] Figure 1, Section 4.1."""
    assert held(ratios.fit_checks(fits)) == holds


@pytest.mark.parametrize("rule", ["a-min-reserve", "a-ell"])
@pytest.mark.parametrize(("lower", "upper"), [(1, 4), (2, 3)])
def test_the_worst_shares_attain_the_bound(rule: Any, lower: int, upper: int) -> None:
    """[C25] Section 5.1."""
    bound = ratios.bounds(lower / upper)[rule == "a-ell"]
    assert ratios.worst_share((rule, lower, upper)) == pytest.approx(bound, rel=2e-3)
    assert ratios.crossing() == pytest.approx((3 - math.sqrt(5)) / 2, abs=1e-12)
    assert ratios.leading_ratio([0.0, 1.0], 1, "a-min") == pytest.approx(1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("q", [0.1, 0.6])
def test_the_laws_are_cut_where_little_is_left(q: float, weighted: bool) -> None:
    law = ratios.shares(q, 1e-3, weighted=weighted)
    k = np.arange(1, 400)
    whole = (1 - q) * q ** (k - 1) * ((1 - q) * k if weighted else 1)
    assert whole[len(law) :].sum() <= 1e-3 < whole[len(law) - 1 :].sum()
    assert law == pytest.approx(whole[: len(law)] / whole[: len(law)].sum())


def test_the_weighted_ratio_tends_to_14_ninths() -> None:
    """[C25] Theorem 5.3."""
    law = ratios.shares(0.99, 1e-12, weighted=True)
    assert float(a_min_ratio(law, 0, 1)) == pytest.approx(14 / 9, rel=1e-3)
    assert [ratios.rises(curve) for curve in ([1.1, 1.6], [1.6, 1.1], [1, 1])] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("published", [SAMPLED_PROMPTS, SAMPLED_OUTPUTS])
def test_the_second_law_has_the_published_moments(published: MomentsOfSample) -> None:
    law = three_moment_law(published)
    k = np.arange(1, published.largest + 1)
    mean = float((law * k).sum())
    assert (len(law), law.min() >= 0) == (published.largest, True)
    assert law.sum() == pytest.approx(1)
    assert mean == pytest.approx(published.mean, rel=1e-5)
    assert float((law * k**2).sum()) - mean**2 == pytest.approx(published.variance, rel=1e-4)
    assert 1 + int(np.searchsorted(law.cumsum(), 0.5)) == published.median
    assert list(moments(np.array([1, 2, 3, 10])).values()) == pytest.approx([1, 10, 4, 2.5, 50 / 3])


def made(least: Sequence[float], most: Sequence[float]) -> c25.Ratios:
    """Two seeds whose H-SF takes 2 and 4 seconds, the others the ratios given at each size."""
    base = np.array([[2.0, 4.0]] * len(least))
    ours = {"A_min": np.array(least), "A_max": np.array(most)}
    return {"H-SF": base, **{name: base * own[:, None] for name, own in ours.items()}}


@pytest.mark.parametrize(
    ("least", "most", "holds"),
    [
        ([1.0, 1.1], [2.0, 3.0], [True, True, True]),
        ([1.0, 1.11], [2.0, 3.0], [False, True, True]),
        ([1.0, 2.1], [2.0, 3.0], [False, False, True]),
        ([1.0, 1.05], [2.0, 1.04], [True, False, False]),
    ],
)
def test_the_statements_of_figure_5(
    least: Sequence[float], most: Sequence[float], holds: list[bool]
) -> None:
    """[C25] Figure 5."""
    assert held(c25.check_5({c25.ROUGH: made(least, most)}, [1, 2])) == holds


def test_the_statements_of_figures_6_and_7() -> None:
    """[C25] Figures 6, 7."""
    rough = made([1.0, 1.5], [2.0, 4.0])
    for least, most, holds in (
        ([1.0, 1.1], [1.0, 2.0], [True, True, True]),
        ([1.0, 1.4], [1.0, 2.5], [False, False, True]),
        ([1.1, 1.1], [1.0, 1.5], [False, True, False]),
    ):
        found = {c25.ROUGH: rough, c25.CLASSES: made(least, most)}
        assert held(c25.check_6(found, [1, 2])) == holds
    narrow, wide = made([1.0, 1.0], [1.0, 1.1]), made([1.0, 1.1], [1.0, 1.25])
    worse = made([1.0, 1.2], [1.0, 1.3])
    for three, holds in (
        ((narrow, wide, wide), [True, True, True]),
        ((wide, wide, narrow), [False, False, True]),
        ((narrow, wide, worse), [True, True, False]),
    ):
        assert held(c25.check_7(dict(zip("abc", three, strict=True)), [1, 2])) == holds


# --- [W25] -------------------------------------------------------------------------------------

PAPER_LIKE = {
    "fcfs": 9.0,
    "mc-sf": 6.0,
    "sorted-lp": 5.0,
    "lp-swap": 3.0,
    "sorted-f-swap": 3.0,
    "sorted-f-quantile": 4.0,
}


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({}, None),
        ({"mc-sf": 4.9}, 0),
        ({"sorted-f-quantile": 2.9}, 1),
        ({"sorted-lp": 3.1}, 2),
        ({"sorted-f-swap": 3.2}, 3),
    ],
)
def test_each_statement_of_figure_8_can_fail_alone(
    changed: dict[str, float], failing: int | None
) -> None:
    """[W25] Figure 8."""
    found = held(w25.figure_8_checks({200: {**PAPER_LIKE, **changed}}))
    assert found == [place != failing for place in range(4)]


@pytest.mark.parametrize(
    ("values", "holds"),
    [([1, 1, 1], True), ([0, 1, 1], True), ([0, 0, 1], False), ([1, 1, 0], False)],
)
def test_a_statement_holds_at_the_largest_size_and_at_most_sizes(
    values: list[int], holds: bool
) -> None:
    means = {
        size: {**PAPER_LIKE, "mc-sf": 6.0 if value else 4.9} for size, value in enumerate(values)
    }
    # A size without the others says nothing, were it the largest.
    found = w25.figure_8_checks({**means, 9: {"fcfs": 9.0}})[0]
    assert (found.holds, f"at {sum(values)} of 3 sizes" in found.text) == (holds, True)


def test_alike_is_of_the_larger() -> None:
    assert [w25.alike(*pair) for pair in ((95, 100), (100, 95), (94.9, 100))] == [True, True, False]


@pytest.mark.parametrize("name", w25.RELAXED)
def test_one_relaxation_gives_both_policies_what_their_own_would(name: str) -> None:
    instance = generate("exponential", seed=1, n=25)
    shared = simulate(instance, w25.policy_of(name, w25.relaxed(instance, 1, "auto")))
    assert shared.total_latency == simulate(instance, name).total_latency
    found = w25.totals(("exponential", 12, 3))
    small = generate("exponential", seed=3, n=12)
    assert found[name] == simulate(small, make_policy(name)).schedule.total_latency
    assert max(found["relaxation"], found["volumes"]) <= found[name]


def test_a_coarse_relaxation_divides_lengths() -> None:
    instance = Instance.from_arrays([30, 31, 30], [90, 10, 45], memory_limit=165)
    coarse = w25.relaxed(instance, 10, "auto").instance
    assert (coarse.memory_limit, coarse.prompt_lengths.tolist()) == (16, [3, 4, 3])
    assert coarse.output_lengths.tolist() == [9, 1, 5]


def test_the_memory_that_matches_a_total() -> None:
    # Three requests that hold two tokens for one round: M = 2, 4, 6 let one, two, three run.
    instance = Instance.from_arrays([1, 1, 1], [1, 1, 1], memory_limit=9)
    assert [w25.matching_memory([instance], total) for total in (6, 4, 7)] == [3, 5, None]


@pytest.fixture
def summaries(tmp_path: Path) -> Given:
    """Forty requests (3000 + k, k), which no law of conversations reaches."""
    rows = "".join(f"{3000 + k},{k},{3000 + 2 * k},1.0\n" for k in range(1, 41))
    heading = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
    (tmp_path / "arxiv.csv").write_text(heading + rows)
    return override({}, "arxiv", str(tmp_path / "arxiv.csv"))


def test_a_fifth_of_the_mixture_is_drawn_from_the_file_without_repetition(
    summaries: Given,
) -> None:
    prompts, outputs = w25_lengths.mixture(np.random.default_rng(0), summaries, 200)
    long = prompts >= 3000
    assert sorted(prompts[long]) == list(range(3001, 3041))
    # A request keeps its own output, and the order is shuffled.
    assert (prompts[long] - outputs[long] == 3000).all()
    assert 10 < long[:100].sum() < 30
    with pytest.raises(FileFormatError, match=r"holds 40 requests .* and 41 are needed"):
        w25_lengths.summaries(np.random.default_rng(0), summaries, 41)


@pytest.mark.parametrize(("count", "ends"), [(1000, (5, 994)), (200, (1, 198)), (50, (0, 49))])
def test_the_central_range_cuts_both_tails_alike(count: int, ends: tuple[int, int]) -> None:
    shuffled = np.random.default_rng(0).permutation(count).tolist()
    assert w25_lengths.central_range(shuffled) == ends


@pytest.mark.parametrize(
    ("counts", "peaks", "holds"),
    [
        ([5, 3, 1], [0], False),
        ([2, 2, 1, 3, 3, 0], [0, 3], False),
        ([1, 2, 2, 3], [3], False),
        ([900, 100, 300, 200], [0, 2], True),
        ([300, 100, 900, 200], [0, 2], False),
        ([900, 290, 300, 200], [0, 2], False),
        ([900, 100, 300, 100, 300], [0, 2, 4], False),
    ],
)
def test_bimodal_is_two_peaks_the_first_higher_the_second_beyond_chance(
    counts: list[int], peaks: list[int], holds: bool
) -> None:
    """[W25] Figure EC.1."""
    assert w25_lengths.peaks_of(counts) == peaks
    assert w25_lengths.bimodality(counts).holds is holds


# --- [A25] -------------------------------------------------------------------------------------


def test_the_machine_is_that_of_the_data_sheets() -> None:
    """[A25] Section 6."""
    # 13.48 GB at 2,039 GB/s, half a megabyte a token, 58.45 GiB left of 72.
    assert pytest.approx(6.61e-3, rel=1e-3) == D0
    assert pytest.approx(2**19 / 2.039e12) == D1
    assert MEMORY_LIMIT == (72 * 2**30 - 13_476_831_232) // 2**19 == 121_750


def test_the_roofline_is_the_slower_of_memory_and_arithmetic() -> None:
    # 2 requests decode, 1 brings a prompt of 50: 52 tokens, then 3 a round; 10 resident are held.
    names = ("rounds", "requests", "new_prompt_tokens", "new_requests", "memory", "growth")
    numbers = dict(zip(names, (3, 3, 50, 1, 110, 3), strict=True))
    stretch = BatchStretch(**numbers, held_memory=10)
    time = Roofline(IterationTime(1.0, 0.01), token_seconds=0.1)
    assert time.durations(stretch).tolist() == pytest.approx([5.2, 2.03, 2.06])
    assert Roofline(IterationTime(1.0), 0.5).durations(stretch).tolist() == [26.0, 1.5, 1.5]


def test_throughput_counts_completions_in_the_middle_of_the_run() -> None:
    # From 10 to 20: completions at 12 (its left end) and 18.5 are outside of (12, 18].
    arrivals = np.array([10.0, 10.0, 10.0, 11.0, 11.0])
    completions = np.array([12.0, 13.0, 18.0, 18.5, 20.0])
    tokens = np.array([1, 10, 100, 1000, 10_000])
    assert a25.window_throughput(arrivals, completions, tokens) == pytest.approx(110 / 6)


def test_a_comparison_takes_means_over_seeds_and_the_better_baseline() -> None:
    runs = [
        ["equation 1", rate, 0, label, 0.0, throughput, latency]
        for label, rate, throughput, latency in (
            ("WAIT", 5, 90, 2.0),
            ("WAIT", 5, 110, 4.0),
            ("vLLM", 5, 80, 1.0),
            ("Sarathi", 5, 125, 5.0),
            ("WAIT", 2, 50, 1.0),
            ("vLLM", 2, 40, 1.5),
            ("Sarathi", 2, 49, 2.0),
        )
    ]
    low, high = a25.compare(runs, "WAIT")
    assert (high.rate, high.lead, high.latency) == (5, pytest.approx(-0.2), 3.0)
    assert (high.is_ahead, high.is_faster, high.is_modestly_slower) == (False, False, False)
    assert (low.rate, low.lead, low.is_ahead, low.is_faster) == (
        2,
        pytest.approx(1 / 49),
        True,
        True,
    )
    assert not a25.Point(5, 0.009, 1.0, 1.1).is_ahead
    assert a25.Point(5, 0.0, 2.0, 1.0).is_modestly_slower


def test_thresholds_fill_the_memory_or_are_scaled_to_the_cap() -> None:
    """[A25] Section 6.2."""
    # 28,506 tokens a prompt over its stages, in the mean: four fit in 121,750, five do not.
    thresholds = a25.filling(group(a25.TEN_LENGTHS), a25.TEN_LENGTHS)
    assert thresholds[0] == 4
    assert list(thresholds) == sorted(thresholds, reverse=True)
    printed, stages = (15, 14, 12, 8), (21, 20, 40, 80)
    assert a25.scaled(printed, stages, 1715) == printed
    assert a25.scaled(printed, stages, 1714) == (14, 13, 11, 7)
    assert a25.scaled(printed, stages, 3) == (1, 1, 1, 1)


def test_bins_end_with_their_fiftieth_token() -> None:
    lengths = np.array([1, 50, 51, 100, 101])
    assert a25_lengths.bin_shares(lengths)[:3].tolist() == [0.4, 0.4, 0.2]
    means = a25_lengths.bin_means(np.array([1, 3, 10, 20, 7]), lengths)
    assert means[:3].tolist() == [2.0, 15.0, 7.0]
    assert [a25_lengths.close(x) for x in (47.9, 48.1, 71.9, 72.1)] == [False, True, True, False]
    _, outputs = a25_lengths.conversations(3000, 4, {})
    assert (len(outputs), 450 < outputs.max() <= 500) == (3000, True)


def curve(*terms: tuple[int, float, float, float]) -> dict[int, list[float]]:
    return {count: [*own, sum(own)] for count, *own in terms}


def test_the_memory_over_segments_is_judged_in_parts() -> None:
    """[A25] Figures 16 to 18."""
    until = segments.dominates_until
    assert until(curve((1, 5, 0, 0), (2, 3, 3, 1), (5, 3, 1, 4), (9, 9, 0, 0))) == 2
    assert until(curve((1, 5, 6, 0))) == 0
    ends = ((1, 8, 0, 0), (50, 5, 1, 1))
    assert segments.is_u_shaped(curve(ends[0], (10, 4, 1, 1), ends[1]))
    assert not segments.is_u_shaped(curve(ends[0], (30, 4, 1, 1), ends[1]))
    assert not segments.is_u_shaped(curve(ends[0], (10, 4, 1, 1), (50, 4, 1, 1.1)))
    easy = curve((1, 1, 0, 0), (2, 1, 1, 1), (3, 1, 1, 2))
    assert segments.grows(easy, curve((1, 1, 0, 0), (2, 1, 1, 1.5), (3, 1, 1, 3)))
    assert not segments.grows(easy, curve((1, 1, 0, 0), (2, 1, 1, 1.5), (3, 1, 1, 2)))


def test_a_smaller_probability_adds_its_logarithm_to_the_buffer() -> None:
    easy, hard = (segments.terms((50, 200, delta), (10,))[10] for delta in (0.1, 1e-5))
    # Term 3 is ln(L (1 + T) / delta) times what does not depend on delta.
    assert hard[2] / easy[2] == pytest.approx(np.log(2010 / 1e-5) / np.log(2010 / 0.1))
    assert hard[:2] == easy[:2]
    # The machine of Section 6 cannot keep up with 500 a second, nor without segments with 50.
    machine = segments.EQUATION_1
    assert segments.terms((500, 200, 0.1), (1, 5), machine) == {}
    assert list(segments.terms((50, 200, 0.1), (1, 5), machine)) == [5]
