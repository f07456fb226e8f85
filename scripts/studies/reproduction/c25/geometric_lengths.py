"""[C25] Figure 3: A_min's ratio on geometric and on linearly weighted geometric lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from instances.arrays import FloatArray
from online.pictures import new_axes
from online.pictures.style import LINE_COLOURS, QUIET, dress, legend
from online.theory.fluid_limit import Rule
from online.theory.interval_ratios import a_min_linear_geometric_ratio, a_min_ratio
from studies.reproduction.declaration import Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

from .leading_ratio import leading_ratio

GEOMETRIC_BOUND = 1.7
WEIGHTED_LIMIT = 14 / 9
"""[C25] Sections 5.2 and 5.3; 14/9 is Theorem 5.3's."""

TAIL = 1e-14
"""Of the closed forms: beyond it the law is cut off."""
FLUID_TAIL = 1e-3
"""Of the fluid, whose cost grows like the fifth power of the longest length."""
GRID = tuple(round(0.01 * step, 2) for step in range(1, 100))
QUICK_GRID = GRID[4::10]
FLUID_GRID = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
QUICK_FLUID_GRID = (0.2, 0.4)
RESERVE_UP_TO = 0.6
"""q up to which the fluid of the proof's A_min is run as well: it meets the closed form."""
ABOVE_BOUND = 1.01


def shares(q: float, tail: float, *, weighted: bool) -> FloatArray:
    """P(o = k) for k = 1, 2, .. until less than ``tail`` is left, adding up to 1.

    (1-q) q^(k-1), or k (1-q)^2 q^(k-1), whose tails are q^u and q^u (1 + u (1-q)).
    """
    last = 1
    while q**last * (1 + last * (1 - q) if weighted else 1) > tail:
        last += 1
    k = np.arange(1, last + 1)
    law = np.asarray(q ** (k - 1.0) * (k if weighted else 1), dtype=np.float64)
    return np.asarray(law / law.sum())


def limit_ratio(*, weighted: bool) -> float:
    """The ratio as q -> 1, where o (1-q) tends to a law of density e^-k, or k e^-k.

    By integrals, from Lemma 4.6: twice the integral over k of E[o; o > k] E[1 - k/o; o > k] over
    that of k^2 f(k) P(o > k) times two.
    """
    from scipy.integrate import quad
    from scipy.special import exp1

    def numerator(k: float) -> float:
        if weighted:
            tokens = (k * k + 2 * k + 2) * math.exp(-k)
            left = math.exp(-k)
        else:
            tokens = (k + 1) * math.exp(-k)
            left = math.exp(-k) - k * float(exp1(k))
        return tokens * left

    def denominator(k: float) -> float:
        density, above = math.exp(-k), math.exp(-k)
        if weighted:
            density, above = k * density, (k + 1) * above
        return k * k * density * above

    return float(quad(numerator, 0, math.inf)[0] / quad(denominator, 0, math.inf)[0])


@dataclass(frozen=True)
class FluidPoint:
    """A_min's ratio in the limit of M and n / M, for one law.

    Attributes
    ----------
    longest : int
        Where the law is cut off.
    closed_form : float
        Lemma 4.6's, of the law cut off.
    """

    rule: Rule
    q: float
    longest: int
    ratio: float
    closed_form: float


def fluid_point(task: tuple[Rule, float, bool]) -> FluidPoint:
    """The fluid's ratio for A_min at q."""
    rule, q, weighted = task
    x = shares(q, FLUID_TAIL, weighted=weighted).tolist()
    return FluidPoint(rule, q, len(x), leading_ratio(x, 1, rule), float(a_min_ratio(x, 0, 1)))


def statements(curve: Sequence[float], written: Sequence[float], bound: float) -> list[Statement]:
    """Over growing q the closed form rises and keeps the bound; so does A_min as written."""
    return [
        Statement("the closed form rises with q", _rises(curve)),
        Statement(f"it stays below {bound:.4g}", max(curve) <= bound),
        Statement("the fluid limit of A_min as written rises with q", _rises(written)),
        Statement(
            f"it stays below {bound:.4g} up to {ABOVE_BOUND - 1:.0%}",
            max(written) <= ABOVE_BOUND * bound,
        ),
    ]


def _rises(ratios: Sequence[float]) -> bool:
    return all(later > earlier for earlier, later in pairwise(ratios))


@register_reproduction(
    "c25-figure-3-geometric",
    "C25",
    "Figure 3",
    "on geometric lengths the ratio of A_min increases with q and stays below 1.7",
)
def figure_3_geometric(setting: Setting) -> Outcome:
    """The left plot."""
    return _measure(setting, GEOMETRIC_BOUND, weighted=False)


@register_reproduction(
    "c25-figure-3-weighted",
    "C25",
    "Figure 3",
    "on linearly weighted geometric lengths the ratio of A_min increases with q and stays below "
    "1.6, indeed below 14/9",
)
def figure_3_weighted(setting: Setting) -> Outcome:
    """The right plot."""
    return _measure(setting, WEIGHTED_LIMIT, weighted=True)


def _measure(setting: Setting, bound: float, *, weighted: bool) -> Outcome:
    grid = QUICK_GRID if setting.quick else GRID
    curve = [float(a_min_ratio(shares(q, TAIL, weighted=weighted).tolist(), 0, 1)) for q in grid]
    fluid_grid = QUICK_FLUID_GRID if setting.quick else FLUID_GRID
    tasks: list[tuple[Rule, float, bool]] = [("a-min", q, weighted) for q in fluid_grid]
    tasks += [("a-min-reserve", q, weighted) for q in fluid_grid if q <= RESERVE_UP_TO]
    points = setting.map(fluid_point, tasks)
    written = [point for point in points if point.rule == "a-min"]
    proof = [point for point in points if point.rule == "a-min-reserve"]
    limit = limit_ratio(weighted=weighted)
    highest = max(written, key=lambda point: point.ratio)
    off = max(abs(point.ratio / point.closed_form - 1) for point in proof)
    rising = _rises(curve)
    formula = f"limit as q tends to 1: {limit:.4f}"
    if weighted:
        gap = max(
            abs(float(a_min_linear_geometric_ratio(q)) - ratio)
            for q, ratio in zip(grid, curve, strict=True)
        )
        formula += f"; the formula of Theorem 5.3 agrees to {gap:.0e}"
    measured = (
        f"closed form of Lemma 4.6 {'rising' if rising else 'not rising throughout'} from "
        f"{curve[0]:.4f} at q = {grid[0]:g} to {curve[-1]:.4f} at {grid[-1]:g} ({formula}); fluid "
        f"limit of A_min as written at most {highest.ratio:.3f}, at q = {highest.q:g}, and "
        f"{written[-1].ratio:.3f} at {written[-1].q:g}; of the A_min that the proof describes "
        f"within {100 * off:.2f} % of the closed form"
    )
    remark = (
        f"the grid of q is not stated, and the fluid goes to q = {fluid_grid[-1]:g} with lengths "
        f"cut off where {FLUID_TAIL:g} is left"
    )
    rows: list[list[Any]] = [
        ["closed form", q, None, ratio, None] for q, ratio in zip(grid, curve, strict=True)
    ]
    labels: dict[Rule, str] = {"a-min": "as written", "a-min-reserve": "overdue held back"}
    for point in points:
        name = f"fluid, A_min {labels[point.rule]}"
        rows.append([name, point.q, point.longest, point.closed_form, point.ratio])
    return Outcome(
        ["what", "q", "longest", "closed_form", "fluid_ratio"],
        rows,
        _draw(grid, curve, written, proof, bound, weighted),
        measured,
        statements(curve, [point.ratio for point in written], bound),
        remark,
    )


def _draw(
    grid: Sequence[float],
    curve: Sequence[float],
    written: Sequence[FluidPoint],
    proof: Sequence[FluidPoint],
    bound: float,
    weighted: bool,
) -> Any:
    ax = new_axes(6.4, 3.4)
    ax.plot(grid, curve, color=LINE_COLOURS[0], label="A_min, closed form")
    ax.plot(
        [point.q for point in proof],
        [point.ratio for point in proof],
        "o",
        color=LINE_COLOURS[0],
        markerfacecolor="white",
        markersize=5,
        label="A_min, overdue held back: fluid limit",
    )
    ax.plot(
        [point.q for point in written],
        [point.ratio for point in written],
        "s--",
        color=LINE_COLOURS[1],
        markersize=4.5,
        linewidth=1,
        label="A_min as written: fluid limit",
    )
    ax.axhline(bound, color=QUIET, linestyle=":", linewidth=1.2)
    text = "14/9" if weighted else f"{bound:g}"
    ax.annotate(text, (0.995, bound), (0, 3), textcoords="offset points", ha="right", fontsize=8)
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=1)
    law = "Linearly weighted geometric" if weighted else "Geometric"
    dress(ax, f"{law} lengths, s = 0", "q", "ratio to H-SF")
    legend(ax, loc="lower right")
    return ax.figure
