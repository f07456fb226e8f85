"""[J25] Figure 3: mean latency of the eight algorithms over the number of requests.

The paper gives slopes, in seconds of mean latency a request: 1/6 (MC-SF) against 1/2 (the best of
the others) at 50 arrivals a second, about 1/800 against 1/100 at 10. Slopes here are least squares
over the sizes, of means over seeds; the paper does not say how it took them, nor how many seeds it
drew. Each size is a prefix of the largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances import InvalidValueError
from online.pictures import Curve, new_axes, style
from studies.reproduction.declaration import Cause, Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import FACTOR, Statement, agrees

from .serving import (
    ALGORITHMS,
    HIGH,
    LOW,
    Case,
    Demand,
    Line,
    curve_of,
    points_of,
    serve_all,
    slope_and_fit,
    unlike_the_paper,
)

FULL_SIZES, FULL_SEEDS = tuple(range(1000, 10_001, 1000)), 3
QUICK_SIZES, QUICK_SEEDS = (200, 400, 600), 2
LINEAR = 0.98
"""R^2 from which growth counts as linear."""

PAPER_AT_1000 = ALGORITHMS[0].paper[0]
"""Seconds of MC-SF at 1,000 requests and 50 a second, [J25] Table 1."""

COLUMNS = ("algorithm", "requests", "seeds", "mean_latency", "low", "high", "evictions")


@dataclass(frozen=True)
class Slopes:
    """Seconds of mean latency a request: MC-SF's and the smallest of the seven others'."""

    mc_sf: float
    best_other: float


PAPER = {HIGH: Slopes(1 / 6, 1 / 2), LOW: Slopes(1 / 800, 1 / 100)}


@register_reproduction(
    "j25-figure-3-high-demand",
    "J25",
    "Figure 3",
    "50 arrivals a second: mean latency grows linearly for all; by about 1/6 s a request for "
    "MC-SF, 1/2 s for the best of the seven others",
    lengths={"lmsys": FULL_SIZES[-1]},
    varies=("lengths", "batch-time", "memory"),
)
def high_demand(setting: Setting) -> Outcome:
    """Left panel."""
    return _measure(setting, HIGH)


@register_reproduction(
    "j25-figure-3-low-demand",
    "J25",
    "Figure 3",
    "10 arrivals a second: mean latency grows by about 1/800 s a request for MC-SF, 1/100 s for "
    "the best of the seven others",
    lengths={"lmsys": FULL_SIZES[-1]},
    varies=("lengths", "batch-time", "memory"),
    cause=Cause(
        ("batch time", "the claim itself"),
        "Whether latency grows at all hangs on how near ten arrivals a second come to what the "
        "machine serves, and so on batch times: with those of tensor parallel 1, "
        "{batch-time=llama-2-70b-a100-tp1} hold. The paper's slopes at low and at high demand "
        "contradict each other (see Figure 3, high demand).",
    ),
)
def low_demand(setting: Setting) -> Outcome:
    """Right panel."""
    return _measure(setting, LOW)


def _measure(setting: Setting, demand: Demand) -> Outcome:
    sizes = QUICK_SIZES if setting.quick else FULL_SIZES
    seeds = range(QUICK_SEEDS if setting.quick else FULL_SEEDS)

    def cases(line: Line, n: int) -> list[Case]:
        given = (line.policy, line.parameters, n, demand)
        return [Case.of(*given, seed, setting.conditions) for seed in seeds]

    served = serve_all(
        setting, (case for line in ALGORITHMS for n in sizes for case in cases(line, n))
    )
    curves: dict[str, Curve] = {}
    rows: list[list[Any]] = []
    for line in ALGORITHMS:
        points = {n: [served[case] for case in cases(line, n)] for n in sizes}
        curve = curve_of(points, least=2)
        if curve is not None:
            curves[line.label] = curve
        found = points_of(curve)
        for n, each in points.items():
            evictions = float(np.mean([one.evictions for one in each]))
            rows.append([line.label, n, len(seeds), *found.get(n, [None] * 3), evictions])
    lines = {label: slope_and_fit(curve.x, curve.mean) for label, curve in curves.items()}
    first, *others = (line.label for line in ALGORITHMS)
    given_up = [label for label in others if label not in lines]
    others = [label for label in others if label in lines]
    if first not in lines or not others:
        reason = "leave MC-SF, or all others, without two sizes at which every run ends"
        raise InvalidValueError(None, "lengths", setting.conditions.used(("lmsys",)), reason)
    best = min(others, key=lambda label: lines[label][0])
    found_slopes = Slopes(lines[first][0], lines[best][0])
    checks = slope_checks(PAPER[demand], found_slopes, mc_sf_is_lowest(curves))
    if demand is HIGH:
        worst = min(fit for _, fit in lines.values())
        checks.append(Statement(f"straight lines (R^2 at least {worst:.3f})", worst >= LINEAR))
    return Outcome(
        COLUMNS,
        rows,
        _draw(curves, lines, demand),
        f"slopes {per_request(found_slopes.mc_sf)} (MC-SF) and "
        f"{per_request(found_slopes.best_other)} ({best}); at {sizes[-1]:,} requests "
        f"{curves[first].mean[-1]:.1f} s and {curves[best].mean[-1]:.1f} s",
        checks,
        ". ".join(
            [
                _remark(demand, lines),
                *([f"Not every run ends at two sizes: {', '.join(given_up)}"] if given_up else []),
                unlike_the_paper(setting.conditions),
            ]
        ),
    )


def per_request(slope: float) -> str:
    """A slope in the paper's form: 1/6 s; where nothing grows, as it is."""
    if slope <= 0:
        return f"{slope:.3g} s"
    return f"1/{1 / slope:,.0f} s" if slope < 0.1 else f"1/{1 / slope:.3g} s"


def mc_sf_is_lowest(curves: Mapping[str, Curve]) -> bool:
    """Tell whether the first curve lies below every other wherever both have a point."""
    first, *others = curves.values()
    mine = dict(zip(first.x, first.mean, strict=True))
    return all(
        mine[x] < mean
        for other in others
        for x, mean in zip(other.x, other.mean, strict=True)
        if x in mine
    )


def slope_checks(published: Slopes, found: Slopes, lowest: bool) -> list[Statement]:
    """The claim in parts: order, both slopes and their quotient, each within `FACTOR`."""
    wanted = published.best_other / published.mc_sf
    quotient = found.best_other / found.mc_sf if found.mc_sf > 0 else float("inf")
    within = f"within a factor {FACTOR:g} of the paper's"
    return [
        Statement("MC-SF the lowest at every size", lowest),
        Statement(
            f"MC-SF's slope {within} ({per_request(found.mc_sf)} against "
            f"{per_request(published.mc_sf)})",
            agrees(found.mc_sf, published.mc_sf),
        ),
        Statement(
            f"the best other's slope {within} ({per_request(found.best_other)} against "
            f"{per_request(published.best_other)})",
            agrees(found.best_other, published.best_other),
        ),
        Statement(
            f"their quotient {within} ({quotient:.2g} against {wanted:.2g})",
            agrees(quotient, wanted),
        ),
    ]


def _remark(demand: Demand, lines: Mapping[str, tuple[float, float]]) -> str:
    if demand is LOW:
        steepest = max(lines, key=lambda label: lines[label][0])
        return (
            "Whether latency grows depends on how near the load is to what the machine serves: "
            f"the steepest here is {steepest} with {per_request(lines[steepest][0])} a request"
        )
    n = FULL_SIZES[-1]
    high, low = (
        [slope * n for slope in (PAPER[case].mc_sf, PAPER[case].best_other)] for case in (HIGH, LOW)
    )
    # First come, first served, the last request waits about twice the mean.
    span = n / LOW.arrival_rate + 2 * low[1]
    return (
        f"The paper's slopes do not go together: at {n:,} requests they mean averages of "
        f"{high[0]:,.0f} s and {high[1]:,.0f} s here, but of {low[0]:.1f} s and {low[1]:.0f} s at "
        f"{LOW.arrival_rate:g} arrivals a second, where the same work is done within some "
        f"{span:,.0f} s; its Table 1 has {PAPER_AT_1000:g} s at 1,000, which is "
        f"{per_request(PAPER_AT_1000 / 1000)} a request"
    )


def _draw(
    curves: Mapping[str, Curve], lines: Mapping[str, tuple[float, float]], demand: Demand
) -> Any:
    ax = new_axes(6.4, 3.4)
    # One colour more than the palette tells apart.
    colours: Sequence[str] = (*style.LINE_COLOURS, style.QUIET)
    markers = (*style.LINE_MARKERS, "d")
    for place, (label, curve) in enumerate(curves.items()):
        ax.plot(
            curve.x,
            curve.mean,
            color=colours[place],
            marker=markers[place],
            linestyle=style.LINE_STYLES[place % len(style.LINE_STYLES)],
            markersize=3.5,
            linewidth=1.2,
            label=f"{label} ({per_request(lines[label][0])})",
        )
    ax.set_ylim(bottom=0)
    ax.set_xlim(left=0)
    title = f"{demand.name} demand: {demand.arrival_rate:g} requests a second"
    style.dress(ax, title, "requests", "mean latency (s)")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    style.legend(
        ax,
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        handlelength=2.8,
        title="algorithm (slope a request)",
        title_fontsize=style.TEXT_POINTS,
    )
    return ax.figure
