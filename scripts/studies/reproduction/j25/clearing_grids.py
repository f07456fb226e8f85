"""[J25] Figures 7, 8, 10 and 11: alpha-protection with beta-clearing over alpha and over beta.

The paper names ranges, not its grids, sizes or seeds; 10,000 requests are those of its set-up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances import InvalidValueError
from online.pictures import Curve, latency_curves, new_axes, style
from studies.reproduction.declaration import Cause, Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import MARGIN, Statement

from .serving import (
    HIGH,
    LOW,
    REQUESTS,
    Case,
    Demand,
    curve_of,
    points_of,
    round_limit,
    serve_all,
    unlike_the_paper,
)

ALPHAS = (0.0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
BETAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 0.75, 1.0)
HELD = (0.1, 0.2)
"""Values at which the other parameter is held."""

QUICK_ALPHAS, QUICK_BETAS = (0.025, 0.05, 0.1, 0.2, 0.25, 0.4), (0.01, 0.05, 0.2, 0.5, 1.0)
QUICK_REQUESTS = 1000
FULL_SEEDS, QUICK_SEEDS = 3, 1
SMALL_ALPHA = 0.1
"""Below it the paper finds latency much worse."""

Range = tuple[float, float]
Curves = Mapping[float, Curve]
Means = Mapping[float, Mapping[float, float]]
"""Mean latency by held and varied value; infinite where a run was given up."""


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


ALPHA_CAUSE = Cause(
    ("lengths", "rule not stated"),
    "Latency is steep below a knee and rises slowly above it, as in the paper, and the knee lies "
    "at a smaller alpha, whatever the batch times: with those of tensor parallel 1, "
    "{batch-time=llama-2-70b-a100-tp1} hold, of 2, {batch-time=llama-2-70b-a100-tp2}. With "
    "lengths of lighter tails it moves a little, and {lengths=three-moments} hold. What is left "
    "are the lengths of the conversations themselves, and what a clearing costs, which the paper "
    "does not say.",
)
BETA_CAUSE = Cause(
    ("rule not stated",),
    "A small beta is to be slow because clearing takes many rounds; the paper does not say what a "
    "clearing that frees too little costs, and here it is repeated within one decision. At alpha "
    "= 0.2 nothing is ever cleared, so that no beta can differ. With batch times of tensor "
    "parallel 1, {batch-time=llama-2-70b-a100-tp1} hold.",
)
"""Why Figures 7 and 10, and 8 and 11, come out as they do."""


@register_reproduction(
    "j25-figure-7",
    "J25",
    "Figure 7",
    "50 arrivals a second, beta 0.1 and 0.2: lowest latency for alpha in [0.15, 0.25], much worse "
    "below 0.1",
    lengths={"lmsys": REQUESTS},
    varies=("lengths", "batch-time", "memory"),
    cause=ALPHA_CAUSE,
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
    lengths={"lmsys": REQUESTS},
    varies=("lengths", "batch-time", "memory"),
    cause=BETA_CAUSE,
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
    lengths={"lmsys": REQUESTS},
    varies=("lengths", "batch-time", "memory"),
    cause=ALPHA_CAUSE,
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
    lengths={"lmsys": REQUESTS},
    varies=("lengths", "batch-time", "memory"),
    cause=BETA_CAUSE,
)
def beta_low(setting: Setting) -> Outcome:
    """Beta, low demand."""
    return _measure(setting, BETA_LOW)


def _measure(setting: Setting, grid: Grid) -> Outcome:
    n = QUICK_REQUESTS if setting.quick else REQUESTS
    seeds = range(QUICK_SEEDS if setting.quick else FULL_SEEDS)
    over_alpha = grid.varied == "alpha"
    values: tuple[float, ...]
    if over_alpha:
        values = QUICK_ALPHAS if setting.quick else ALPHAS
    else:
        values = QUICK_BETAS if setting.quick else BETAS

    def cases(value: float, held: float) -> list[Case]:
        alpha, beta = (value, held) if over_alpha else (held, value)
        parameters = {"alpha": alpha, "beta": beta}
        given = (n, grid.demand)
        return [
            Case.of("alpha-beta-clearing", parameters, *given, seed, setting.conditions)
            for seed in seeds
        ]

    served = serve_all(
        setting, (case for held in HELD for value in values for case in cases(value, held))
    )
    curves: dict[float, Curve] = {}
    means: dict[float, dict[float, float]] = {}
    rows: list[list[Any]] = []
    for held in HELD:
        points = {value: [served[case] for case in cases(value, held)] for value in values}
        curve = curve_of(points)
        if curve is None:
            reason = f"leave no {grid.varied} at which every run ends"
            raise InvalidValueError(None, "lengths", setting.conditions.used(("lmsys",)), reason)
        curves[held] = curve
        known = points_of(curve)
        means[held] = {value: known[value][0] if value in known else math.inf for value in values}
        for value, each in points.items():
            failed = sum(one.mean_latency is None for one in each)
            evictions = float(np.mean([one.evictions for one in each]))
            pair = [value, held] if over_alpha else [held, value]
            rows.append([*pair, len(seeds), failed, *known.get(value, [None] * 3), evictions])
    checks = (alpha_checks if over_alpha else beta_checks)(means, grid.good)
    remarks = [f"{n:,} requests, {len(seeds)} seeds", eviction_remark(rows)]
    if over_alpha:
        remarks.append(knee_remark(means))
    elif any(row[-1] for row in rows):
        remarks.append(
            "An overflow is cleared within one decision here, however many draws that takes, so a "
            "small beta costs no time"
        )
    lost = sum(row[3] for row in rows)
    if lost:
        remarks.append(
            f"Given up after {round_limit(n):,} rounds: {lost} of {len(served)} runs; their points "
            "count as worse than any and are crosses in the figure"
        )
    return Outcome(
        COLUMNS,
        rows,
        _draw(curves, means, grid),
        "; ".join(_summary(grid, held, each) for held, each in means.items()),
        checks,
        ". ".join([*remarks, unlike_the_paper(setting.conditions)]),
    )


def eviction_remark(rows: Sequence[Sequence[Any]]) -> str:
    """Describe how often requests are cleared, for the rows' smallest and largest alpha.

    A run that is given up clears without end: points with one count only where no other is left.
    """
    by_alpha: dict[float, list[Sequence[Any]]] = {}
    for row in rows:
        by_alpha.setdefault(row[0], []).append(row)
    free = [alpha for alpha, each in by_alpha.items() if not any(row[-1] for row in each)]
    if len(free) == len(by_alpha):
        return "No run clears any request, so beta makes no difference"

    def cleared(alpha: float) -> str:
        completed = [row[-1] for row in by_alpha[alpha] if not row[3]]
        number = np.mean(completed or [row[-1] for row in by_alpha[alpha]])
        return f"{number:,.0f} at alpha = {alpha:g}{'' if completed else ' until given up'}"

    since = f", none from alpha = {min(free):g} on" if free else ""
    ends = f"{cleared(min(by_alpha))} and {cleared(max(by_alpha))}"
    return f"Requests cleared in a run: {ends} on average{since}"


def knee_remark(means: Means) -> str:
    """The largest alpha up to which every alpha is worse than the best by more than `MARGIN`."""
    knee = None
    for alpha in next(iter(means.values())):
        if min(excesses(means, [alpha])) <= MARGIN:
            break
        knee = alpha
    if knee is None:
        return f"No small alpha is worse than the best by {MARGIN:.0%}"
    return f"Every alpha up to {knee:g} is worse than the best by {MARGIN:.0%}"


def alpha_checks(means: Means, good: Range) -> list[Statement]:
    """The best alpha in the range, and every alpha below 0.1 worse by more than `MARGIN`."""
    best = [min(each, key=each.__getitem__) for each in means.values()]
    small = [alpha for alpha in next(iter(means.values())) if alpha < SMALL_ALPHA]
    least = min(excesses(means, small))
    return [
        Statement(
            f"best alpha in [{good[0]:g}, {good[1]:g}] "
            f"(at {' and '.join(f'{alpha:g}' for alpha in best)})",
            all(good[0] <= alpha <= good[1] for alpha in best),
        ),
        Statement(
            f"every alpha below {SMALL_ALPHA:g} worse than the best by {MARGIN:.0%} "
            f"(by at least {least:.1%})",
            least > MARGIN,
        ),
    ]


def beta_checks(means: Means, good: Range) -> list[Statement]:
    """Check that in the range all are within `MARGIN` of the best, and the extreme betas not."""
    betas = list(next(iter(means.values())))
    inside = max(excesses(means, [beta for beta in betas if good[0] <= beta <= good[1]]))
    checks = [
        Statement(
            f"every beta in [{good[0]:g}, {good[1]:g}] within {MARGIN:.0%} of the best "
            f"(within {inside:.1%})",
            inside <= MARGIN,
        )
    ]
    for end in (min(betas), max(betas)):
        least = min(excesses(means, [end]))
        text = f"beta = {end:g} worse than the best by {MARGIN:.0%} (by at least {least:.1%})"
        checks.append(Statement(text, least > MARGIN))
    return checks


def excesses(means: Means, values: Sequence[float]) -> list[float]:
    """Distance from the best of its curve, as a share, at these values of every curve."""
    return [each[value] / min(each.values()) - 1 for each in means.values() for value in values]


def _summary(grid: Grid, held: float, means: Mapping[float, float]) -> str:
    other = "beta" if grid.varied == "alpha" else "alpha"
    known = {value: mean for value, mean in means.items() if mean < math.inf}
    low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    lost = ", ".join(f"{value:g}" for value in means if value not in known)
    given_up = f", given up at {grid.varied} = {lost}" if lost else ""
    if known[high] == known[low]:
        return f"{other} = {held:g}: {known[low]:.2f} s at every {grid.varied}{given_up}"
    return (
        f"{other} = {held:g}: from {known[low]:.2f} s ({grid.varied} = {low:g}) to "
        f"{known[high]:.2f} s ({grid.varied} = {high:g}){given_up}"
    )


def _draw(curves: Curves, means: Means, grid: Grid) -> Any:
    other = "beta" if grid.varied == "alpha" else "alpha"
    ax = new_axes(6.4, 3.0)
    ax.axvspan(*grid.good, color="#eeeeee", linewidth=0, label="the paper's range", zorder=0)
    shown = {f"{other} = {held:g}": curve for held, curve in curves.items()}
    title = f"{grid.demand.name} demand"
    latency_curves(shown, ax=ax, title=title, x_label=grid.varied, y_label="mean latency (s)")
    top = 1.1 * ax.get_ylim()[1]
    ax.set_ylim(0, top)
    for place, each in enumerate(means.values()):
        lost = [value for value, mean in each.items() if mean == math.inf]
        heights = [(0.98 - 0.05 * place) * top] * len(lost)
        ax.plot(lost, heights, "x", color=style.LINE_COLOURS[place], markersize=4)
    style.legend(ax, handlelength=2.6)
    return ax.figure
