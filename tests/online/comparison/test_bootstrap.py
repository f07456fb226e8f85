"""Confidence intervals against SciPy called plainly, and at the edges of what they can say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from online.comparison import ConfidenceInterval, Trial, ratio_confidence
from online.comparison.bootstrap import RESAMPLES, SEED


def record(total: int, upper: int | None, lower: int | None = -1, seed: int = 0) -> Trial:
    known = ("i", "d", 3, 9, "fcfs", {}, seed, "completed", total, 0)
    return Trial(*known, upper, upper if lower == -1 else lower)


LATENCIES = [12, 30, 25, 18, 40, 22, 19, 33]
OPTIMA = [10, 21, 25, 16, 29, 22, 15, 27]


def test_a_mean_of_ratios_is_what_scipy_gives() -> None:
    units = [[record(a, b)] for a, b in zip(LATENCIES, OPTIMA, strict=True)]
    mean, totals = ratio_confidence(units, confidence_level=0.9)
    ratios = np.array(LATENCIES) / np.array(OPTIMA)
    options = {"n_resamples": RESAMPLES, "confidence_level": 0.9, "batch": 1000}
    plain = bootstrap((ratios,), np.mean, rng=np.random.default_rng(SEED), **options)
    assert (mean.low, mean.high) == pytest.approx(tuple(plain.confidence_interval))
    paired = bootstrap(
        (LATENCIES, OPTIMA),
        lambda a, b: sum(a) / sum(b),
        paired=True,
        vectorized=False,
        rng=np.random.default_rng(SEED),
        **options,
    )
    assert (totals.low, totals.high) == pytest.approx(tuple(paired.confidence_interval))
    assert mean.level == totals.level == 0.9


def test_runs_on_one_instance_stay_together() -> None:
    # The same instances, each run twice with nothing different: no more is known.
    once = [[record(a, b)] for a, b in zip(LATENCIES, OPTIMA, strict=True)]
    twice = [unit * 2 for unit in once]
    for one, two in zip(ratio_confidence(once), ratio_confidence(twice), strict=True):
        assert (two.low, two.high) == (one.low, one.high)


def test_unproved_optima_widen_to_both_sides() -> None:
    proved = [[record(a, b)] for a, b in zip(LATENCIES, OPTIMA, strict=True)]
    wide = [[record(a, b, b - 3)] for a, b in zip(LATENCIES, OPTIMA, strict=True)]
    for exact, loose in zip(ratio_confidence(proved), ratio_confidence(wide), strict=True):
        assert loose.low == exact.low
        assert loose.high > exact.high


def test_where_nothing_can_be_said() -> None:
    nothing = ConfidenceInterval(None, None, 0.95)
    assert ratio_confidence([]) == (nothing, nothing)
    assert ratio_confidence([[record(3, 2)]]) == (nothing, nothing)
    assert str(nothing) == ""
    half = ratio_confidence([[record(3, 2, None)], [record(5, 4, None)]])[0]
    assert half.low is not None
    assert half.high is None
    assert str(half).endswith(", ?)")


def test_equal_ratios_are_a_point() -> None:
    mean, totals = ratio_confidence([[record(6, 5)], [record(12, 10)], [record(18, 15)]])
    assert str(mean) == str(totals) == "(1.2000, 1.2000)"


def test_two_instances_have_an_interval() -> None:
    # BCa is undefined here for some statistics; the percentiles of the resamples never are.
    mean, _ = ratio_confidence([[record(2, 1)], [record(1, 1)]])
    assert (mean.low, mean.high) == pytest.approx((1.0, 2.0))
