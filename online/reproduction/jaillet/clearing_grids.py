"""[J25] Figures 7, 8, 10 and 11: alpha-protection with beta-clearing over alpha and over beta.

The paper names ranges, not its grids, sizes or seeds; 10,000 requests are those of its set-up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from online.pictures import Curve, latency_curves, new_axes, style
from online.reproduction.declaration import Outcome, Setting, register_reproduction

from .checks import MARGIN, Check, explain, verdict_of
from .serving import HIGH, LOW, REQUESTS, SYNTHETIC, Case, Demand, curve_of, points_of, serve_all

ALPHAS = tuple(round(0.025 * k, 3) for k in range(17))
BETAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
HELD = (0.1, 0.2)
"""Values at which the other parameter is held."""

QUICK_ALPHAS, QUICK_BETAS = (0.0, 0.05, 0.1, 0.2, 0.25, 0.4), (0.01, 0.05, 0.2, 0.5, 1.0)
QUICK_REQUESTS = 1000
FULL_SEEDS, QUICK_SEEDS = 5, 1
SMALL_ALPHA = 0.1
"""Below it the paper finds latency much worse."""

Range = tuple[float, float]
Curves = Mapping[float, Curve]


@dataclass(frozen=True)
class Grid:
    """A figure: what is varied, at which demand, and the range the paper recommends."""

    varied: str
    demand: Demand
    good: Range


ALPHA_HIGH = Grid("alpha", HIGH, (0.15, 0.25))
ALPHA_LOW = Grid("alpha", LOW, (0.10, 0.25))
BETA_HIGH = Grid("beta", HIGH, (0.05, 0.25))
BETA_LOW = Grid("beta", LOW, (0.05, 0.20))

COLUMNS = ("alpha", "beta", "seeds", "failed", "mean_latency", "low", "high", "evictions")


@register_reproduction(
    "j25-figure-7",
    "J25",
    "Figure 7",
    "50 arrivals a second, beta 0.1 and 0.2: lowest latency for alpha in [0.15, 0.25], much worse "
    "below 0.1",
)
def alpha_high(setting: Setting) -> Outcome:
    """Alpha, high demand."""
    return _measure(setting, ALPHA_HIGH)


@register_reproduction(
    "j25-figure-8",
    "J25",
    "Figure 8",
    "50 arrivals a second, alpha 0.1 and 0.2: low latency for beta in [0.05, 0.25], worse for very "
    "small beta and for large beta",
)
def beta_high(setting: Setting) -> Outcome:
    """Beta, high demand."""
    return _measure(setting, BETA_HIGH)


@register_reproduction(
    "j25-figure-10",
    "J25",
    "Figure 10",
    "10 arrivals a second, beta 0.1 and 0.2: lowest latency for alpha in [0.10, 0.25], much worse "
    "below 0.1",
)
def alpha_low(setting: Setting) -> Outcome:
    """Alpha, low demand."""
    return _measure(setting, ALPHA_LOW)


@register_reproduction(
    "j25-figure-11",
    "J25",
    "Figure 11",
    "10 arrivals a second, alpha 0.1 and 0.2: steady latency for beta in [0.05, 0.20], worse "
    "outside as at high demand",
)
def beta_low(setting: Setting) -> Outcome:
    """Beta, low demand."""
    return _measure(setting, BETA_LOW)


def _measure(setting: Setting, grid: Grid) -> Outcome:
    n = QUICK_REQUESTS if setting.quick else REQUESTS
    seeds = range(QUICK_SEEDS if setting.quick else FULL_SEEDS)
    over_alpha = grid.varied == "alpha"
    if over_alpha:
        values = QUICK_ALPHAS if setting.quick else ALPHAS
    else:
        values = QUICK_BETAS if setting.quick else BETAS

    def cases(value: float, held: float) -> list[Case]:
        alpha, beta = (value, held) if over_alpha else (held, value)
        parameters = {"alpha": alpha, "beta": beta}
        return [Case.of("alpha-beta-clearing", parameters, n, grid.demand, seed) for seed in seeds]

    served = serve_all(
        setting, (case for held in HELD for value in values for case in cases(value, held))
    )
    curves: dict[float, Curve] = {}
    rows: list[list[Any]] = []
    for held in HELD:
        points = {value: [served[case] for case in cases(value, held)] for value in values}
        curve = curves[held] = curve_of(points)
        known = points_of(curve)
        for value, each in points.items():
            failed = sum(one.mean_latency is None for one in each)
            evictions = float(np.mean([one.evictions for one in each]))
            pair = [value, held] if over_alpha else [held, value]
            rows.append([*pair, len(seeds), failed, *known.get(value, [None] * 3), evictions])
    find = alpha_checks if over_alpha else beta_checks
    checks = find(curves, grid.good)
    lost = sum(row[3] for row in rows)
    remarks = [f"{n:,} requests, {len(seeds)} seeds", eviction_remark(rows)]
    if over_alpha:
        remarks.append(knee_remark(curves))
    else:
        remarks.append(
            "An overflow is cleared within one decision here, however many draws that takes, so a "
            "small beta costs no time"
        )
    if lost:
        remarks.append(f"{lost} runs never ended; points with one are left out")
    return Outcome(
        COLUMNS,
        rows,
        _draw(curves, grid),
        "; ".join(_summary(grid, held, curve) for held, curve in curves.items()),
        verdict_of(checks),
        explain(checks, *remarks, SYNTHETIC),
    )


def eviction_remark(rows: Sequence[Sequence[Any]]) -> str:
    """How often anything is cleared, for the smallest and the largest alpha of the rows."""
    by_alpha: dict[float, list[float]] = {}
    for row in rows:
        by_alpha.setdefault(row[0], []).append(row[-1])
    ends = (min(by_alpha), max(by_alpha))
    figures = " and ".join(f"{np.mean(by_alpha[end]):,.0f} at alpha = {end:g}" for end in ends)
    free = [alpha for alpha, evictions in by_alpha.items() if not any(evictions)]
    since = f", none from alpha = {min(free):g} on" if free else ""
    return f"Requests cleared in a run: {figures} on average{since}"


def knee_remark(curves: Curves) -> str:
    """The largest alpha up to which every alpha is worse than the best by more than `MARGIN`."""
    knee = None
    for alpha in _common(curves):
        if _worst(curves, [alpha], min) <= MARGIN:
            break
        knee = alpha
    if knee is None:
        return f"No small alpha is worse than the best by {MARGIN:.0%}"
    return f"Every alpha up to {knee:g} is worse than the best by {MARGIN:.0%}"


def alpha_checks(curves: Curves, good: Range) -> list[Check]:
    """The best alpha in the range, and every alpha below 0.1 worse by more than `MARGIN`."""
    checks = []
    best = {held: _best(curve) for held, curve in curves.items()}
    checks.append(
        Check(
            f"best alpha in [{good[0]:g}, {good[1]:g}] (at {_listed(best)})",
            all(good[0] <= alpha <= good[1] for alpha in best.values()),
        )
    )
    least = min(
        mean / min(curve.mean) - 1
        for curve in curves.values()
        for alpha, mean in zip(curve.x, curve.mean, strict=True)
        if alpha < SMALL_ALPHA
    )
    checks.append(
        Check(
            f"every alpha below {SMALL_ALPHA:g} worse than the best by {MARGIN:.0%} "
            f"(by at least {least:.1%})",
            least > MARGIN,
        )
    )
    return checks


def beta_checks(curves: Curves, good: Range) -> list[Check]:
    """In the range all within `MARGIN` of the best; the smallest and the largest beta not."""
    inside = _worst(curves, [x for x in _common(curves) if good[0] <= x <= good[1]], max)
    smallest, largest = (_worst(curves, [end], min) for end in _ends(curves))
    low, high = _ends(curves)
    return [
        Check(
            f"every beta in [{good[0]:g}, {good[1]:g}] within {MARGIN:.0%} of the best "
            f"(within {inside:.1%})",
            inside <= MARGIN,
        ),
        Check(
            f"beta = {low:g} worse than the best by {MARGIN:.0%} (by {smallest:.1%})",
            smallest > MARGIN,
        ),
        Check(
            f"beta = {high:g} worse than the best by {MARGIN:.0%} (by {largest:.1%})",
            largest > MARGIN,
        ),
    ]


def _worst(curves: Curves, values: Sequence[float], choose: Any) -> float:
    """Excess over each curve's best at these values: the largest or smallest of both curves."""
    return float(
        choose(
            mean / min(curve.mean) - 1
            for curve in curves.values()
            for x, mean in zip(curve.x, curve.mean, strict=True)
            if x in values
        )
    )


def _common(curves: Curves) -> list[float]:
    return sorted(set.intersection(*(set(curve.x) for curve in curves.values())))


def _ends(curves: Curves) -> Range:
    values = _common(curves)
    return values[0], values[-1]


def _best(curve: Curve) -> float:
    return curve.x[int(np.argmin(curve.mean))]


def _listed(values: Mapping[float, float]) -> str:
    return " and ".join(f"{value:g}" for value in values.values())


def _summary(grid: Grid, held: float, curve: Curve) -> str:
    other = "beta" if grid.varied == "alpha" else "alpha"
    return (
        f"{other} = {held:g}: from {min(curve.mean):.2f} s ({grid.varied} = {_best(curve):g}) to "
        f"{max(curve.mean):.2f} s ({grid.varied} = {curve.x[int(np.argmax(curve.mean))]:g})"
    )


def _draw(curves: Curves, grid: Grid) -> Any:
    other = "beta" if grid.varied == "alpha" else "alpha"
    ax = new_axes(4.8, 3.0)
    ax.axvspan(*grid.good, color="#eeeeee", linewidth=0, label="the paper's range", zorder=0)
    shown = {f"{other} = {held:g}": curve for held, curve in curves.items()}
    title = f"{grid.demand.name} demand"
    latency_curves(shown, ax=ax, title=title, x_label=grid.varied, y_label="mean latency (s)")
    style.legend(ax, handlelength=2.6)
    return ax.figure
