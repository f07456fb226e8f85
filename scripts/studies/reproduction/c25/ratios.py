"""[C25] Figures 1 to 3: ratios of A_min and A_l to H-SF, by formulas and by fluid limits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from instances.arrays import FloatArray
from online.theory.fluid_limit import Rule, fluid_latency
from online.theory.interval_ratios import (
    a_ell_ratio_bound,
    a_min_ratio,
    a_min_two_point_ratio_bound,
    h_sf_latency,
)
from online.theory.rayleigh import rayleigh_maximum
from studies.reproduction.figure import Outcome, Setting, Statement, figure
from studies.reproduction.pictures import lines

PUBLISHED = (0.2555, 0.2793, 1.1587)
"""a, b and c of the curve a log(u + b) + c in the caption of [C25] Figure 1."""
PUBLISHED_R_SQUARED = 0.9999
"""[C25] Section 4.1 states that R^2 of the fit exceeds this."""
RANGE_STARTS, RANGE_ENDS = (1, 2, 10), (50, 100, 200, 500, 1000)
"""Starts and ends of ranges of u. [C25] states no range, so fits over all of them are compared."""
SLOPE_WITHIN, REST_WITHIN = 0.02, 0.05
"""Largest relative differences from the published a, and from b and c, that count as equal."""

PUBLISHED_CROSSING, CROSSING_WITHIN = 0.382, 0.0005
"""alpha* of [C25] Section 5.1, three digits."""
ABOVE_BOUND = 1.01
"""A fluid ratio keeps a bound up to this factor, because n / M is finite in the computation."""
PAIRS = ((1, 10), (1, 5), (1, 4), (1, 3), (2, 5), (1, 2), (2, 3), (3, 4))
LONGER = 4
"""Factor of the lengths in a second run. The ratio of Algorithm 2 depends on the scale."""
LABELS: dict[Rule, str] = {
    "a-min": "A_min as written",
    "a-min-reserve": "A_min, overdue held back",
    "a-ell": "A_l",
}

TAIL, FLUID_TAIL = 1e-14, 1e-3
"""Probability at which a law's tail is cut. Fluid limits take (longest length)^5 time: cut more."""
GRID = tuple(round(0.01 * step, 2) for step in range(1, 100))
FLUID_GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
RESERVE_UP_TO = 0.6
"""Largest q for which the fluid of A_min as in the proof is run. It agrees with the formula."""


def leading_ratio(x: Sequence[float], lower: int, rule: Rule) -> float:
    """Return the ratio to H-SF of a policy's total latency in the fluid limit, as n / M grows.

    The fluid's total latency is a (n/M)^2 + b (n/M), with empty prompts and all requests at once.
    The result is a, divided by the same number of H-SF ([C25] Lemma 4.6). Two totals determine a,
    with n/M four and eight times the longest output. Doubling n/M changed a by at most 0.3 % in the
    cases tried. For H-SF the result is 1. For A_min it can be less than the formula, as requests of
    different ages share memory better than equal ones.
    """
    batches = 4 * (lower + len(x) - 1)
    once, twice = (fluid_latency(x, 0, lower, count, rule) for count in (batches, 2 * batches))
    return (twice - 2 * once) / (batches**2 * h_sf_latency(x, 0, lower))


def logarithm(u: Any, a: float, b: float, c: float) -> Any:
    """Return the value of the curve a log(u + b) + c."""
    return a * np.log(u + b) + c


def r_squared(values: FloatArray, fitted: FloatArray) -> float:
    """Return 1 - sum of squared residuals / sum of squares about the mean."""
    return 1 - float(((values - fitted) ** 2).sum() / ((values - values.mean()) ** 2).sum())


def fit_logarithm(u: FloatArray, values: FloatArray) -> tuple[float, float, float]:
    """Fit the curve a log(u + b) + c to ``values`` by least squares, and return (a, b, c)."""
    from scipy.optimize import curve_fit

    bounds = ((0, -u[0], -10), (10, 100, 10))
    (a, b, c), _ = curve_fit(logarithm, u, values, p0=(0.25, 0.5, 1.2), bounds=bounds)
    return float(a), float(b), float(c)


def rank_one_part(u: int) -> float:
    """Return H = sum_{i <= u} 1 / (2 (2i - 1)), for which H <= `rayleigh_maximum` <= H + 1.

    With z_i = i x_i, and R with entries r = min(i, j) / max(i, j), the ratio of A_min is
    z'(11'/2 + R - R o R / 2) z / z'Rz. Here o is the entrywise product. The part with 11'/2 alone
    has the maximum 1'R^-1 1 / 2 = H, because R is the covariance of a Markov chain. The other parts
    add at least 0 and at most 1, because R o R and R - R o R / 2 are positive definite ([C25] Lemma
    4.9). H is log(u) / 4 + O(1), so the slope over log(u) tends to 1/4.
    """
    return float((0.5 / (2 * np.arange(1, u + 1) - 1)).sum())


def figure_1(setting: Setting) -> Outcome:
    """Refit the maximum of the Rayleigh quotient over several ranges of u."""
    last = 100 if setting.quick else 1000
    values = np.array(setting.map(rayleigh_maximum, range(1, last + 1)))
    u = np.arange(1, last + 1, dtype=np.float64)
    fits: list[tuple[tuple[float, float, float], float, float]] = []
    for end in (end for end in RANGE_ENDS if end <= last):
        for first in RANGE_STARTS:
            x, y = u[first - 1 : end], values[first - 1 : end]
            fit = fit_logarithm(x, y)
            own = r_squared(y, logarithm(x, *fit))
            fits.append((fit, own, r_squared(y, logarithm(x, *PUBLISHED))))
    nearest = max(fits, key=lambda one: one[2])[0]
    bound = [rank_one_part(int(at)) for at in u]
    # Compute the logarithms one by one. That of an array may differ in the last digit.
    curves_of = ([float(logarithm(at, *fit)) for at in u] for fit in (PUBLISHED, nearest))
    columns: list[Any] = [values, *curves_of, bound]
    names = ("ratio", "published_fit", "nearest_refit", "lower_bound_H")
    shown = np.unique(np.geomspace(1, last, 40).round().astype(int)) - 1
    curves = {
        name: {float(u[at]): [float(column[at])] for at in shown}
        for name, column in zip(names, columns, strict=True)
    }
    picture = lines(curves, "upper bound u", "ratio", title="worst ratio of A_min", log="x")
    rows = [[int(at), *map(float, row)] for at, *row in zip(u, *columns, strict=True)]
    return Outcome(("u", *names), rows, picture, fit_checks(fits))


def fit_checks(
    fits: Sequence[tuple[tuple[float, float, float], float, float]],
) -> list[Statement]:
    """Check the refits: form of the curve, slope, all coefficients. Check the published curve."""
    has_slope = [abs(fit[0] / PUBLISHED[0] - 1) <= SLOPE_WITHIN for fit, _, _ in fits]
    has_all = [
        slope and all(abs(fit[i] / PUBLISHED[i] - 1) <= REST_WITHIN for i in (1, 2))
        for slope, (fit, _, _) in zip(has_slope, fits, strict=True)
    ]
    best = max(published for _, _, published in fits)
    slopes = [fit[0] for fit, _, _ in fits]
    return [
        Statement(
            f"a logarithm fits with R^2 above {PUBLISHED_R_SQUARED} in every range of u (from "
            f"{min(own for _, own, _ in fits):.6f})",
            all(own > PUBLISHED_R_SQUARED for _, own, _ in fits),
        ),
        Statement(
            f"its slope is within {SLOPE_WITHIN:.0%} of the published one in some range "
            f"({min(slopes):.4f} to {max(slopes):.4f})",
            any(has_slope),
        ),
        Statement(f"so are, within {REST_WITHIN:.0%}, offset and constant", any(has_all)),
        Statement(
            f"the published curve itself has R^2 above {PUBLISHED_R_SQUARED} in some range "
            f"({best:.6f})",
            best > PUBLISHED_R_SQUARED,
        ),
    ]


def bounds(alpha: float) -> tuple[float, float]:
    """Return the bounds of A_min and of A_l ([C25] Theorems 5.1 and 5.2)."""
    return float(a_min_two_point_ratio_bound(alpha)), float(a_ell_ratio_bound(alpha))


def worst_share(task: tuple[Rule, int, int]) -> float:
    """Return the fluid ratio for the worst shares x_l and x_u of requests with two lengths.

    They have x_l / x_u = 1 / alpha for A_min, and max(0, 1 / alpha - 2) for A_l.
    """
    rule, lower, upper = task
    balance = max(0.0, upper / lower - 2) if rule == "a-ell" else 1 / (lower / upper)
    x = np.zeros(upper - lower + 1)
    x[0], x[-1] = balance / (1 + balance), 1 / (1 + balance)
    return leading_ratio(x.tolist(), lower, rule)


def crossing() -> float:
    """Return the alpha at which the two bounds meet, strictly between 0 and 1."""
    from scipy.optimize import brentq

    return float(brentq(lambda alpha: np.subtract(*bounds(alpha)), 1e-6, 0.999, xtol=1e-14))


def figure_2(setting: Setting) -> Outcome:
    """Compute where the bounds of A_min and A_l meet, and the ratios that the policies attain."""
    pairs, scales = (((1, 5), (1, 2)), (1,)) if setting.quick else (PAIRS, (1, LONGER))
    tasks: list[tuple[Rule, int, int]] = [
        (rule, scale * lower, scale * upper)
        for rule in LABELS
        for scale in scales
        # Only the ratio of A_min as written (Algorithm 2) depends on the scale of the lengths.
        if rule == "a-min" or scale == 1
        for lower, upper in pairs
        if scale * upper <= 20
    ]
    attained = setting.map(worst_share, tasks)
    alphas = np.linspace(0, 1, 201)[1:].tolist()
    rows: list[list[Any]] = [["bound", None, None, alpha, *bounds(alpha), None] for alpha in alphas]
    curves: dict[str, dict[float, list[float]]] = {
        "bound of A_min": {alpha: [bounds(alpha)[0]] for alpha in alphas[::10]},
        "bound of A_l": {alpha: [bounds(alpha)[1]] for alpha in alphas[::10]},
    }
    kept: dict[Rule, list[bool]] = {rule: [] for rule in LABELS}
    for (rule, lower, upper), ratio in zip(tasks, attained, strict=True):
        alpha = lower / upper
        bound = bounds(alpha)[rule == "a-ell"]
        both = [None, bound] if rule == "a-ell" else [bound, None]
        rows.append([LABELS[rule], lower, upper, alpha, *both, ratio])
        curves.setdefault(LABELS[rule], {}).setdefault(alpha, []).append(ratio)
        kept[rule].append(ratio <= ABOVE_BOUND * bound)
    met = crossing()
    signs = [bounds(alpha)[1] < bounds(alpha)[0] for alpha in alphas]
    single = signs == [alpha < met for alpha in alphas]
    checks = [
        Statement("the bounds cross once", single),
        Statement(
            f"they do so within {CROSSING_WITHIN} of {PUBLISHED_CROSSING} ({met:.5f})",
            abs(met - PUBLISHED_CROSSING) <= CROSSING_WITHIN,
        ),
        *(
            Statement(
                f"{LABELS[rule]} within {ABOVE_BOUND - 1:.0%} of its bound or below "
                f"({sum(kept[rule])} of {len(kept[rule])} cases)",
                all(kept[rule]),
            )
            for rule in ("a-ell", "a-min")
        ),
    ]
    names = ("what", "lower", "upper", "alpha", "a_min_bound", "a_ell_bound", "fluid_ratio")
    picture = lines(curves, "alpha = shorter / longer length", "ratio to H-SF")
    return Outcome(names, rows, picture, checks)


def shares(q: float, tail: float, *, weighted: bool) -> list[float]:
    """Return P(o = k) for k = 1, 2, .. until less than ``tail`` is left, with sum 1.

    P(o = k) is (1-q) q^(k-1), or k (1-q)^2 q^(k-1) if ``weighted``. The shares beyond u are q^u, or
    q^u (1 + u (1-q)).
    """
    last = 1
    while q**last * (1 + last * (1 - q) if weighted else 1) > tail:
        last += 1
    k = np.arange(1, last + 1)
    law = np.asarray(q ** (k - 1.0) * (k if weighted else 1), dtype=np.float64)
    found: list[float] = (law / law.sum()).tolist()
    return found


def fluid_point(task: tuple[Rule, float], *, weighted: bool) -> tuple[int, float, float]:
    """Return the longest length of the law after the cut, the ratio by formula, and by fluid."""
    rule, q = task
    x = shares(q, FLUID_TAIL, weighted=weighted)
    return len(x), float(a_min_ratio(x, 0, 1)), leading_ratio(x, 1, rule)


def figure_3(setting: Setting, bound: float, *, weighted: bool) -> Outcome:
    """Compute the ratio of A_min to H-SF on geometric lengths, by formula and by fluid limit.

    The ratio is a function of the parameter q of the law of lengths (`shares`). "A_min as written"
    is Algorithm 2 of [C25]. "Overdue held back" is the rule of its proofs: a request that outgrows
    its predicted length may take only memory that other such requests free. ``bound`` is the
    paper's bound on the ratio.
    """
    grid = GRID[4::10] if setting.quick else GRID
    curve = [float(a_min_ratio(shares(q, TAIL, weighted=weighted), 0, 1)) for q in grid]
    fluid_grid = (0.2, 0.4) if setting.quick else FLUID_GRID
    tasks: list[tuple[Rule, float]] = [("a-min", q) for q in fluid_grid]
    tasks += [("a-min-reserve", q) for q in fluid_grid if q <= RESERVE_UP_TO]
    points = setting.map(partial(fluid_point, weighted=weighted), tasks)
    rows: list[list[Any]] = [
        ["closed form", q, None, ratio, None] for q, ratio in zip(grid, curve, strict=True)
    ]
    names: dict[Rule, str] = {"a-min": "as written", "a-min-reserve": "overdue held back"}
    curves = {"closed form": {q: [ratio] for q, ratio in zip(grid, curve, strict=True)}}
    for (rule, q), found in zip(tasks, points, strict=True):
        label = f"fluid, A_min {names[rule]}"
        rows.append([label, q, *found])
        curves.setdefault(label, {})[q] = [found[-1]]
    written = [found[-1] for (rule, _), found in zip(tasks, points, strict=True) if rule == "a-min"]
    checks = [
        Statement(f"the closed form rises with q (to {curve[-1]:.4f})", rises(curve)),
        Statement(f"it stays below {bound:.4g}", max(curve) <= bound),
        Statement("in the fluid limit the ratio of A_min as written rises with q", rises(written)),
        Statement(
            f"it stays below {bound:.4g} up to {ABOVE_BOUND - 1:.0%} ({max(written):.3f})",
            max(written) <= ABOVE_BOUND * bound,
        ),
    ]
    columns = ("what", "q", "longest", "closed_form", "fluid_ratio")
    levels = {f"the paper's bound {bound:.4g}": bound}
    return Outcome(columns, rows, lines(curves, "q", "ratio to H-SF", levels=levels), checks)


def rises(ratios: Sequence[float]) -> bool:
    """Return whether each ratio is above the one before it."""
    return all(later > earlier for earlier, later in pairwise(ratios))


figure(
    "c25-figure-1",
    "the worst ratio of A_min for lengths 1 to u and s = 0 follows 0.2555 log(u + 0.2793) + "
    "1.1587, R^2 above 0.9999",
    figure_1,
)
figure(
    "c25-figure-2",
    "on two lengths the bound of A_l lies below that of A_min up to alpha = 0.382 and above it "
    "from there on",
    figure_2,
)
figure(
    "c25-figure-3-geometric",
    "on geometric lengths the ratio of A_min increases with q and stays below 1.7",
    partial(figure_3, bound=1.7, weighted=False),
)
figure(
    "c25-figure-3-weighted",
    "on linearly weighted geometric lengths the ratio of A_min increases with q and stays below "
    "1.6, indeed below 14/9",
    partial(figure_3, bound=14 / 9, weighted=True),
)
