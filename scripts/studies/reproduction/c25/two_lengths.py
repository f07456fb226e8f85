"""[C25] Figure 2: the bounds of A_min and A_l where every output has one of two lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from online.pictures import new_axes
from online.pictures.style import LINE_COLOURS, QUIET, dress, legend
from online.theory.fluid_limit import Rule
from online.theory.interval_ratios import a_ell_ratio_bound, a_min_two_point_ratio_bound
from online.trials.intervals import rounded_up
from studies.reproduction.declaration import Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

from .leading_ratio import leading_ratio

PUBLISHED_CROSSING = 0.382
"""alpha* of [C25] Section 5.1, three digits."""
CROSSING_WITHIN = 0.0005
ABOVE_BOUND = 1.01
"""A fluid ratio up to this times the bound keeps it: what the fluid leaves of n / M."""

PAIRS = ((1, 10), (1, 5), (1, 4), (1, 3), (2, 5), (1, 2), (2, 3), (3, 4))
LONGER = 4
"""The same alphas with lengths so many times longer: A_min as written is not scale-free."""
QUICK_PAIRS = ((1, 5), (1, 2))

LABELS: dict[Rule, str] = {
    "a-min": "A_min as written",
    "a-min-reserve": "A_min, overdue held back",
    "a-ell": "A_l",
}


@dataclass(frozen=True)
class WorstShare:
    """A policy at the shares of two lengths that attain its bound.

    Attributes
    ----------
    ratio : float
        To H-SF, in the limit of M and n / M.
    bound : float
        [C25] Theorem 5.1 or 5.2.
    """

    rule: Rule
    lower: int
    upper: int
    ratio: float
    bound: float

    @property
    def keeps_bound(self) -> bool:
        """Up to what the fluid leaves."""
        return self.ratio <= ABOVE_BOUND * self.bound


def worst_share(task: tuple[Rule, int, int]) -> WorstShare:
    """The fluid at x_l / x_u = 1 / alpha for A_min, max(0, 1 / alpha - 2) for A_l."""
    rule, lower, upper = task
    alpha = lower / upper
    if rule == "a-ell":
        balance, bound = max(0.0, 1 / alpha - 2), a_ell_ratio_bound(alpha)
    else:
        balance, bound = 1 / alpha, a_min_two_point_ratio_bound(alpha)
    x = np.zeros(upper - lower + 1)
    x[0], x[-1] = balance / (1 + balance), 1 / (1 + balance)
    return WorstShare(rule, lower, upper, leading_ratio(x.tolist(), lower, rule), bound)


def crossing() -> float:
    """Return the alpha at which the two bounds meet, strictly between 0 and 1."""
    from scipy.optimize import brentq

    return float(brentq(_difference, 1e-6, 0.999, xtol=1e-14))


def _difference(alpha: float) -> float:
    return float(a_ell_ratio_bound(alpha)) - float(a_min_two_point_ratio_bound(alpha))


def statements(met: float, single: bool, points: Sequence[WorstShare]) -> list[Statement]:
    """State where the curves cross, and whether each policy keeps its bound at its worst shares."""

    def keeps(rule: Rule) -> Statement:
        found = [point.keeps_bound for point in points if point.rule == rule]
        text = f"{LABELS[rule]} within {ABOVE_BOUND - 1:.0%} of its bound or below"
        return Statement(f"{text} ({sum(found)} of {len(found)} cases)", all(found))

    return [
        Statement("the bounds cross once", single),
        Statement(
            f"they do so within {CROSSING_WITHIN} of {PUBLISHED_CROSSING}",
            abs(met - PUBLISHED_CROSSING) <= CROSSING_WITHIN,
        ),
        keeps("a-ell"),
        keeps("a-min"),
    ]


@register_reproduction(
    "c25-figure-2",
    "C25",
    "Figure 2",
    "on two lengths the bound of A_l lies below that of A_min up to alpha = 0.382 and above it "
    "from there on",
)
def figure_2(setting: Setting) -> Outcome:
    """Both bounds, where they meet, and what the policies attain."""
    pairs = QUICK_PAIRS if setting.quick else PAIRS
    scales = (1,) if setting.quick else (1, LONGER)
    rules: tuple[Rule, ...] = ("a-min", "a-min-reserve", "a-ell")
    tasks = [
        (rule, scale * lower, scale * upper)
        for rule in rules
        for scale in scales
        # Only A_min as written depends on the scale.
        if rule == "a-min" or scale == 1
        for lower, upper in pairs
        if scale * upper <= 20
    ]
    points = setting.map(worst_share, tasks)
    alphas = np.linspace(0, 1, 201)[1:]
    signs = np.sign([_difference(float(alpha)) for alpha in alphas])
    met = crossing()
    single = bool(((signs < 0) == (alphas < met)).all())
    top = max(min(_bounds(float(alpha))) for alpha in [*alphas, met])
    written = [point for point in points if point.rule == "a-min"]
    beyond = [point for point in written if not point.keeps_bound]
    worst = max(written, key=lambda point: point.ratio / point.bound)
    others = max(abs(point.ratio / point.bound - 1) for point in points if point.rule != "a-min")
    measured = (
        f"the bounds meet at {met:.5f}{'' if single else ' and elsewhere'}, where the smaller one "
        f"is at most {rounded_up(top)}; at the worst shares the fluid limits of A_l and of the "
        f"A_min that the proof describes are within {100 * others:.2f} % of their bounds, that of "
        f"A_min as written is above its bound in {len(beyond)} of {len(written)} cases, at lengths "
        f"{worst.lower} and {worst.upper} {worst.ratio:.3f} against {worst.bound:.3f}"
    )
    remark = (
        "as written, requests past their lower bound grow into whatever becomes free before "
        "newcomers start, which the proof does not allow them"
    )
    rows: list[list[Any]] = [
        ["bound", None, None, alpha, *reversed(_bounds(float(alpha))), None] for alpha in alphas
    ]
    for point in points:
        bounds = [point.bound, None] if point.rule != "a-ell" else [None, point.bound]
        alpha = point.lower / point.upper
        rows.append([LABELS[point.rule], point.lower, point.upper, alpha, *bounds, point.ratio])
    columns = ["what", "lower", "upper", "alpha", "a_min_bound", "a_ell_bound", "fluid_ratio"]
    figure = _draw(alphas, met, points)
    return Outcome(columns, rows, figure, measured, statements(met, single, points), remark)


def _bounds(alpha: float) -> tuple[float, float]:
    return float(a_ell_ratio_bound(alpha)), float(a_min_two_point_ratio_bound(alpha))


def _draw(alphas: Any, met: float, points: Sequence[WorstShare]) -> Any:
    ax = new_axes(6.4, 3.8)
    ell, least = zip(*(_bounds(float(alpha)) for alpha in alphas), strict=True)
    ax.plot(alphas, least, color=LINE_COLOURS[1], label="bound of A_min")
    ax.plot(alphas, ell, "--", color=LINE_COLOURS[0], label="bound of A_l")
    ax.plot([met, met], [1, 2.3], color=QUIET, linestyle=":", linewidth=1)
    ax.annotate(f"alpha* = {met:.4f}", (met, 2.22), (4, 0), textcoords="offset points", fontsize=8)
    looks: dict[tuple[Rule, bool], tuple[str, str, str]] = {
        ("a-min", False): ("s", LINE_COLOURS[1], LINE_COLOURS[1]),
        ("a-min", True): ("s", LINE_COLOURS[1], "white"),
        ("a-min-reserve", False): ("o", LINE_COLOURS[1], "white"),
        ("a-ell", False): ("^", LINE_COLOURS[0], "white"),
    }
    shortest = {*PAIRS, *QUICK_PAIRS}
    for (rule, longer), (marker, edge, face) in looks.items():
        group = [
            point
            for point in points
            if point.rule == rule and ((point.lower, point.upper) not in shortest) == longer
        ]
        label = LABELS[rule] + (f", lengths x {LONGER}" if longer else "")
        ax.plot(
            [point.lower / point.upper for point in group],
            [point.ratio for point in group],
            marker,
            markersize=5,
            color=edge,
            markerfacecolor=face,
            linestyle="none",
            label=label,
        )
    ax.set_xlim(0, 1)
    ax.axhline(1, color=QUIET, linewidth=0.6)
    ax.set_ylim(0.75, 3.05)
    dress(
        ax,
        "Outputs of two lengths, s = 0: bounds (lines), fluid limits at the worst shares (signs)",
        "alpha = shorter / longer length",
        "ratio to H-SF",
    )
    legend(ax, loc="upper center", ncols=2)
    return ax.figure
