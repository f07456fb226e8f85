"""Rules that make verdicts of the measurements of the four papers, on numbers made up by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from instances import Instance, generate
from instances.batch_time import BatchStretch
from online import Interval, IterationTime, make_policy, simulate
from online.fluid.nested_design import group
from studies.reproduction import Statement
from studies.reproduction.a25 import lengths as a25_lengths
from studies.reproduction.a25 import segments
from studies.reproduction.a25 import serving as a25
from studies.reproduction.a25.machine import D0, D1, MEMORY_LIMIT, Roofline
from studies.reproduction.c25 import latency as c25
from studies.reproduction.c25 import ratios
from studies.reproduction.c25.lengths import SAMPLED_OUTPUTS, SAMPLED_PROMPTS
from studies.reproduction.figure import agrees
from studies.reproduction.j25 import latency as j25
from studies.reproduction.j25 import others
from studies.reproduction.lengths import MomentsOfSample, three_moment_law
from studies.reproduction.w25 import latency as w25
from studies.reproduction.w25 import lengths as w25_lengths

FITS = {"MC-SF": (0.1, 1.0), "b": (0.2, 1.0), "c": (0.9, 1.0)}
MEANS = {"MC-SF": {1: 1.0, 2: 2.0}, "b": {1: 1.5, 2: 2.5}}
FULL, HALF = np.array([0.95] * 19 + [0.1]), np.array([0.6] * 20)
ALPHA = {0.0: math.inf, 0.05: 1.5, 0.2: 1.0, 0.3: 1.2}
BETA = {0.01: 2.0, 0.1: 1.0, 0.2: 1.05, 1.0: 1.5}
TABLE = [32.0, 46.0, 52.0, 51.0]
PUBLISHED, OFF = ratios.PUBLISHED, (0.2555, -0.4, 1.1587)
EIGHT = {"fcfs": 9.0, "mc-sf": 6.0, "sorted-lp": 5.0, "lp-swap": 3.0}
EIGHT |= {"sorted-f-swap": 3.0, "sorted-f-quantile": 4.0}


def slopes(means: Any, fits: Any) -> list[Statement]:
    return j25.slope_checks(means, fits, (1 / 6, 1 / 2))


def ratio_rows(published: Any, *found: str, shift: float = -0.06, most: str = "") -> Any:
    intervals = [Interval(Fraction(one), Fraction(most or one)) for one in found]
    bounds = [bound + shift for bound in (1.04, 1.06, 1.04, 1.06)]
    return others.ratio_checks(published, intervals, bounds, 3)


def made(least: Sequence[float], most: Sequence[float]) -> c25.Ratios:
    """Two seeds whose H-SF takes 2 and 4 seconds, the others the ratios given at each size."""
    base = np.array([[2.0, 4.0]] * len(least))
    ours = {"A_min": np.array(least), "A_max": np.array(most)}
    return {"H-SF": base, **{name: base * own[:, None] for name, own in ours.items()}}


def figure_5(least: list[float], most: list[float]) -> list[Statement]:
    return c25.check_5({c25.ROUGH: made(least, most)}, [1, 2])


def figure_6(least: list[float], most: list[float]) -> list[Statement]:
    found = {c25.ROUGH: made([1.0, 1.5], [2.0, 4.0]), c25.CLASSES: made(least, most)}
    return c25.check_6(found, [1, 2])


def figure_7(*ends: tuple[float, float]) -> list[Statement]:
    found = {name: made([1.0, a], [1.0, b]) for name, (a, b) in zip("abc", ends, strict=True)}
    return c25.check_7(found, [1, 2])


def figure_8(**changed: float) -> list[Statement]:
    renamed = {name.replace("_", "-"): value for name, value in changed.items()}
    return w25.figure_8_checks({200: {**EIGHT, **renamed}})


def mc_sf_at_sizes(*values: float) -> list[Statement]:
    """A size without the others says nothing, were it the largest."""
    means = {size: {**EIGHT, "mc-sf": value} for size, value in enumerate(values)}
    return w25.figure_8_checks({**means, 9: {"fcfs": 9.0}})[:1]


NARROW, WIDE, WORSE = (1.0, 1.1), (1.1, 1.25), (1.2, 1.3)
VERDICTS: list[tuple[str, Callable[[], list[Statement]]]] = [
    # [J25] Figure 3: slopes and order.
    ("1101", lambda: slopes(MEANS, FITS)),
    ("0000", lambda: slopes({**MEANS, "c": {2: 1.9}}, {**FITS, "MC-SF": (-0.01, 1.0)})),
    # [J25] Figures 6, 9: batches; what would not have fitted was evicted, so none shows it.
    ("111", lambda: others.memory_checks(FULL, 0, close_to_full=True)),
    ("110", lambda: others.memory_checks(HALF, 0, close_to_full=True)),
    ("01", lambda: others.memory_checks(HALF, 1, close_to_full=False)),
    # [J25] Figures 7, 8, 10, 11.
    ("11", lambda: j25.alpha_checks({0.1: ALPHA}, (0.15, 0.25))),
    ("10", lambda: j25.alpha_checks({0.1: ALPHA, 0.2: {**ALPHA, 0.05: 1.05}}, (0.15, 0.25))),
    ("01", lambda: j25.alpha_checks({0.1: {0.05: 1.5, 0.3: 1.0}}, (0.15, 0.25))),
    ("111", lambda: j25.beta_checks({0.1: BETA}, (0.05, 0.25))),
    ("100", lambda: j25.beta_checks({0.1: BETA, 0.2: dict.fromkeys(BETA, 1.0)}, (0.05, 0.25))),
    # [J25] Table 1.
    ("1111", lambda: j25.table_checks(TABLE, TABLE)),
    ("1110", lambda: j25.table_checks([one / 2 for one in TABLE], TABLE)),
    ("1011", lambda: j25.table_checks([32.0, 46.0, 51.0, 52.0], TABLE)),
    # [J25] Figure 2: only proved optima count as matches, and the mean must be possible.
    ("1111", lambda: ratio_rows((1.05, 1.2, None), "1", "1.12")),
    ("0011", lambda: ratio_rows((1.02, 1.05, 90), "1", "1.12")),
    ("1001", lambda: ratio_rows((1.1, 1.3, 10), "1", "1.12")),
    ("0001", lambda: ratio_rows((1.05, 1.2, None), "1", most="1.2")),
    # Standard error of (1.04, 1.06, 1.04, 1.06): 0.0115 / 2; the mean may lie 0.0163 below.
    ("1111", lambda: ratio_rows((1.05, 1.2, None), "1", "1.12", shift=0.016)),
    ("1110", lambda: ratio_rows((1.05, 1.2, None), "1", "1.12", shift=0.017)),
    # [C25] Figure 1, Section 4.1.
    ("1111", lambda: ratios.fit_checks([(PUBLISHED, 0.99999, 0.99999)])),
    ("1110", lambda: ratios.fit_checks([(PUBLISHED, 0.99999, 0.9998)])),
    ("1101", lambda: ratios.fit_checks([(OFF, 0.99999, 0.99999)])),
    ("1001", lambda: ratios.fit_checks([((0.27, 0.2793, 1.1587), 0.99999, 0.99999)])),
    ("0111", lambda: ratios.fit_checks([(OFF, 1, 0.9998), (PUBLISHED, 0.9998, 0.99999)])),
    # [C25] Figures 5 to 7.
    ("111", lambda: figure_5([1.0, 1.1], [2.0, 3.0])),
    ("011", lambda: figure_5([1.0, 1.11], [2.0, 3.0])),
    ("001", lambda: figure_5([1.0, 2.1], [2.0, 3.0])),
    ("100", lambda: figure_5([1.0, 1.05], [2.0, 1.04])),
    ("111", lambda: figure_6([1.0, 1.1], [1.0, 2.0])),
    ("001", lambda: figure_6([1.0, 1.4], [1.0, 2.5])),
    ("010", lambda: figure_6([1.1, 1.1], [1.0, 1.5])),
    ("111", lambda: figure_7(NARROW, WIDE, WIDE)),
    ("001", lambda: figure_7(WIDE, WIDE, NARROW)),
    ("110", lambda: figure_7(NARROW, WIDE, WORSE)),
    # [W25] Figure 8: each statement can fail alone; it holds at the largest and at most sizes.
    ("1111", figure_8),
    ("0111", lambda: figure_8(mc_sf=4.9)),
    ("1011", lambda: figure_8(sorted_f_quantile=2.9)),
    ("1101", lambda: figure_8(sorted_lp=3.1)),
    ("1110", lambda: figure_8(sorted_f_swap=3.2)),
    ("1", lambda: mc_sf_at_sizes(4.9, 6.0, 6.0)),
    ("0", lambda: mc_sf_at_sizes(4.9, 4.9, 6.0)),
    ("0", lambda: mc_sf_at_sizes(6.0, 6.0, 4.9)),
    # [W25] Figure EC.1: two peaks, the first higher, the second beyond chance.
    ("1", lambda: [w25_lengths.bimodality([900, 100, 300, 200])]),
    ("0", lambda: [w25_lengths.bimodality([300, 100, 900, 200])]),
    ("0", lambda: [w25_lengths.bimodality([900, 290, 300, 200])]),
    ("0", lambda: [w25_lengths.bimodality([900, 100, 300, 100, 300])]),
    ("0", lambda: [w25_lengths.bimodality([1, 2, 2, 3])]),
]


@pytest.mark.parametrize(("expected", "checks"), VERDICTS, ids=range(len(VERDICTS)))
def test_each_statement_is_judged_by_its_rule(
    expected: str, checks: Callable[[], list[Statement]]
) -> None:
    assert "".join(str(int(one.holds)) for one in checks()) == expected


def test_numbers_agree_within_a_factor_of_two() -> None:
    assert all(agrees(found, 1.0) for found in (0.5, 2.0))
    assert not any(agrees(found, 1.0) for found in (0.49, 2.01, -1.0, math.nan))
    assert [w25.alike(*pair) for pair in ((95, 100), (100, 95), (94.9, 100))] == [True, True, False]
    assert [a25_lengths.close(x) for x in (47.9, 48.1, 71.9, 72.1)] == [False, True, True, False]


def test_fits_find_the_curves_that_made_the_points() -> None:
    assert j25.slope_and_fit({0: 1, 1: 3, 2: 5, 3: 7}) == pytest.approx((2, 1))
    # By hand: mean x 1, mean y 4/3, sum of products 2, of squares 2; a quarter is left.
    assert j25.slope_and_fit({0: 0, 1: 2, 2: 2}) == pytest.approx((1, 1 - (2 / 3) / (8 / 3)))
    u = np.arange(1.0, 60.0)
    fit = ratios.fit_logarithm(u, 0.3 * np.log(u + 0.7) + 1.1)
    assert fit == pytest.approx((0.3, 0.7, 1.1), abs=1e-5)
    # Residuals 0, 1, 0 about a spread of 1 + 0 + 1.
    assert ratios.r_squared(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 3.0])) == 0.5


@pytest.mark.parametrize("u", [1, 5, 100])
def test_the_rank_one_part_by_linear_equations(u: int) -> None:
    """[C25] Lemma 4.9."""
    part = ratios.rank_one_part(u)
    i = np.arange(1, u + 1)
    r = np.minimum.outer(i, i) / np.maximum.outer(i, i)
    assert part == pytest.approx(np.linalg.solve(r, np.ones(u)).sum() / 2)


@pytest.mark.parametrize("rule", ["a-min-reserve", "a-ell"])
@pytest.mark.parametrize(("lower", "upper"), [(1, 4), (2, 3)])
def test_the_worst_shares_attain_the_bound(rule: Any, lower: int, upper: int) -> None:
    """[C25] Section 5.1."""
    bound = ratios.bounds(lower / upper)[rule == "a-ell"]
    assert ratios.worst_share((rule, lower, upper)) == pytest.approx(bound, rel=2e-3)
    assert ratios.crossing() == pytest.approx((3 - math.sqrt(5)) / 2, abs=1e-12)


@pytest.mark.parametrize("published", [SAMPLED_PROMPTS, SAMPLED_OUTPUTS])
def test_the_second_law_has_the_published_moments(published: MomentsOfSample) -> None:
    law = three_moment_law(published)
    k = np.arange(1, published.largest + 1)
    mean = float((law * k).sum())
    assert (len(law), law.min() >= 0) == (published.largest, True)
    assert (law.sum(), mean) == pytest.approx((1, published.mean), rel=1e-5)
    assert float((law * k**2).sum()) - mean**2 == pytest.approx(published.variance, rel=1e-4)
    assert 1 + int(np.searchsorted(law.cumsum(), 0.5)) == published.median


@pytest.mark.parametrize("name", w25.RELAXED)
def test_one_relaxation_gives_both_policies_what_their_own_would(name: str) -> None:
    found, small = w25.totals(("exponential", 12, 3)), generate("exponential", seed=3, n=12)
    assert found[name] == simulate(small, make_policy(name)).schedule.total_latency
    assert max(found["relaxation"], found["volumes"]) <= found[name]


def test_a_coarse_relaxation_divides_lengths() -> None:
    instance = Instance.from_arrays([30, 31, 30], [90, 10, 45], memory_limit=165)
    coarse = w25.relaxed(instance, 10, "auto").instance
    assert (coarse.memory_limit, coarse.prompt_lengths.tolist()) == (16, [3, 4, 3])
    assert coarse.output_lengths.tolist() == [9, 1, 5]
    # Three requests that hold two tokens for one round: M = 2, 4, 6 let one, two, three run.
    alike = Instance.from_arrays([1, 1, 1], [1, 1, 1], memory_limit=9)
    assert [w25.matching_memory([alike], total) for total in (6, 4, 7)] == [3, 5, None]


@pytest.mark.parametrize(("count", "ends"), [(1000, (5, 994)), (200, (1, 198)), (50, (0, 49))])
def test_the_central_range_cuts_both_tails_alike(count: int, ends: tuple[int, int]) -> None:
    shuffled = np.random.default_rng(0).permutation(count).tolist()
    assert w25_lengths.central_range(shuffled) == ends


def test_the_machine_is_that_of_the_data_sheets() -> None:
    """[A25] Section 6."""
    # 13.48 GB at 2,039 GB/s, half a megabyte a token, 58.45 GiB left of 72.
    assert pytest.approx(6.61e-3, rel=1e-3) == D0
    assert pytest.approx(2**19 / 2.039e12) == D1
    assert MEMORY_LIMIT == (72 * 2**30 - 13_476_831_232) // 2**19 == 121_750
    # 2 requests decode, 1 brings a prompt of 50: 52 tokens, then 3 a round; 10 resident are held.
    stretch = BatchStretch(3, 3, 50, 1, 110, 3, held_memory=10)
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
    at_5 = (("WAIT", 90, 2.0), ("WAIT", 110, 4.0), ("vLLM", 80, 1.0), ("Sarathi", 125, 5.0))
    at_2 = (("WAIT", 50, 1.0), ("vLLM", 40, 1.5), ("Sarathi", 49, 2.0))
    runs = [["equation 1", 5, 0, label, 0.0, *rest] for label, *rest in at_5]
    runs += [["equation 1", 2, 0, label, 0.0, *rest] for label, *rest in at_2]
    low, high = a25.compare(runs, "WAIT")
    assert (high.rate, high.lead, high.latency) == (5, pytest.approx(-0.2), 3.0)
    assert (high.is_ahead, high.is_faster, high.is_modestly_slower) == (False, False, False)
    assert (low.rate, low.lead) == (2, pytest.approx(1 / 49))
    assert (low.is_ahead, low.is_faster) == (True, True)
    assert not a25.Point(5, 0.009, 1.0, 1.1).is_ahead
    assert a25.Point(5, 0.0, 2.0, 1.0).is_modestly_slower


def test_thresholds_fill_the_memory_or_are_scaled_to_the_cap() -> None:
    """[A25] Section 6.2."""
    # 28,506 tokens a prompt over its stages, in the mean: four fit in 121,750, five do not.
    thresholds = a25.filling(group(a25.TEN_LENGTHS), a25.TEN_LENGTHS)
    assert thresholds[0] == 4
    assert list(thresholds) == sorted(thresholds, reverse=True)
    printed, stages = (15, 14, 12, 8), (21, 20, 40, 80)
    for cap, found in ((1715, printed), (1714, (14, 13, 11, 7)), (3, (1, 1, 1, 1))):
        assert a25.scaled(printed, stages, cap) == found


def test_bins_end_with_their_fiftieth_token() -> None:
    lengths = np.array([1, 50, 51, 100, 101])
    assert a25_lengths.bin_shares(lengths)[:3].tolist() == [0.4, 0.4, 0.2]
    means = a25_lengths.bin_means(np.array([1, 3, 10, 20, 7]), lengths)
    assert means[:3].tolist() == [2.0, 15.0, 7.0]


def curve(*terms: tuple[int, float, float, float]) -> dict[int, list[float]]:
    return {count: [*own, sum(own)] for count, *own in terms}


def test_the_memory_over_segments_is_judged_in_parts() -> None:
    """[A25] Figures 16 to 18."""
    until = segments.dominates_until
    assert until(curve((1, 5, 0, 0), (2, 3, 3, 1), (5, 3, 1, 4), (9, 9, 0, 0))) == 2
    assert until(curve((1, 5, 6, 0))) == 0
    first, middle, last = (1, 8, 0, 0), (10, 4, 1, 1), (50, 5, 1, 1)
    assert segments.is_u_shaped(curve(first, middle, last))
    assert not segments.is_u_shaped(curve(first, (30, 4, 1, 1), last))
    assert not segments.is_u_shaped(curve(first, middle, (50, 4, 1, 1.1)))
    easy = curve((1, 1, 0, 0), (2, 1, 1, 1), (3, 1, 1, 2))
    assert segments.grows(easy, curve((1, 1, 0, 0), (2, 1, 1, 1.5), (3, 1, 1, 3)))
    assert not segments.grows(easy, curve((1, 1, 0, 0), (2, 1, 1, 1.5), (3, 1, 1, 2)))
    # Term 3 is ln(L (1 + T) / delta) times what does not depend on delta.
    small, tiny = (segments.terms((50, 200, delta), (10,))[10] for delta in (0.1, 1e-5))
    assert tiny[2] / small[2] == pytest.approx(np.log(2010 / 1e-5) / np.log(2010 / 0.1))
    # The machine of Section 6 cannot keep up with 500 a second, nor without segments with 50.
    assert segments.terms((500, 200, 0.1), (1, 5), segments.EQUATION_1) == {}
    assert list(segments.terms((50, 200, 0.1), (1, 5), segments.EQUATION_1)) == [5]
