"""[C25] Figure 1: A_min's worst ratio over the upper bound u, and its logarithmic fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances.arrays import FloatArray
from online.pictures import new_axes
from online.pictures.style import LINE_COLOURS, QUIET, dress, legend
from online.theory.rayleigh import rayleigh_maximum
from studies.reproduction.declaration import Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

PUBLISHED = (0.2555, 0.2793, 1.1587)
"""a, b and c of a log(u + b) + c: caption of [C25] Figure 1."""
PUBLISHED_R_SQUARED = 0.9999
"""The fit is said to exceed it ([C25] Section 4.1)."""

LARGEST = 1000
RANGE_STARTS = (1, 2, 10)
RANGE_ENDS = (50, 100, 200, 500, 1000)
"""The range of u is not stated: fits from each of the starts to each of the ends are compared."""

SLOPE_WITHIN, REST_WITHIN = 0.02, 0.05
"""Relative departures from the published a, and from b and c, that count as the same."""


@dataclass(frozen=True)
class LogarithmicFit:
    """Least squares of a log(u + b) + c over u = first .. last.

    Attributes
    ----------
    a, b, c : float
        The fit.
    r_squared : float
        Of the fit.
    published_r_squared : float
        Of `PUBLISHED` on the same points.
    """

    first: int
    last: int
    a: float
    b: float
    c: float
    r_squared: float
    published_r_squared: float

    @property
    def formula(self) -> str:
        """Return the formula as the paper writes it."""
        sign = "-" if self.b < 0 else "+"
        return f"{self.a:.4f} log(u {sign} {abs(self.b):.4f}) + {self.c:.4f}"

    @property
    def has_slope(self) -> bool:
        """Tell whether the slope is the published one."""
        return abs(self.a / PUBLISHED[0] - 1) <= SLOPE_WITHIN

    @property
    def has_all(self) -> bool:
        """Tell whether all three coefficients are the published ones."""
        rest = zip((self.b, self.c), PUBLISHED[1:], strict=True)
        return self.has_slope and all(abs(one / other - 1) <= REST_WITHIN for one, other in rest)


def logarithm(u: Any, a: float, b: float, c: float) -> Any:
    """a log(u + b) + c."""
    return a * np.log(u + b) + c


def r_squared(values: FloatArray, fitted: FloatArray) -> float:
    """1 - sum of squared residuals / sum of squares about the mean."""
    about_mean = float(((values - values.mean()) ** 2).sum())
    return 1 - float(((values - fitted) ** 2).sum()) / about_mean


def fit_logarithm(u: FloatArray, values: FloatArray) -> LogarithmicFit:
    """The fit of [C25] Figure 1 to ``values`` at ``u``, shape (k,) each, k at least 4."""
    from scipy.optimize import curve_fit

    (a, b, c), _ = curve_fit(
        logarithm, u, values, p0=(0.25, 0.5, 1.2), bounds=((0, -u[0], -10), (10, 100, 10))
    )
    return LogarithmicFit(
        int(u[0]),
        int(u[-1]),
        float(a),
        float(b),
        float(c),
        r_squared(values, logarithm(u, a, b, c)),
        r_squared(values, logarithm(u, *PUBLISHED)),
    )


def rank_one_part(u: int) -> float:
    """H = sum_{i <= u} 1 / (2 (2i - 1)), for which H <= `rayleigh_maximum` <= H + 1.

    With z_i = i x_i and r = min(i, j) / max(i, j) the quotient is z'(11'/2 + R - R o R / 2) z over
    z'Rz, o being the entrywise product. The first part alone has maximum 1'R^-1 1 / 2 = H, R being
    the covariance of a Markov chain; the others add at least 0 and at most 1, as R o R and
    R - R o R / 2 are positive definite ([C25] Lemma 4.9). H = log(u) / 4 + O(1), so 1/4 is the
    slope in the limit.
    """
    return float((0.5 / (2 * np.arange(1, u + 1) - 1)).sum())


def statements(fits: Sequence[LogarithmicFit]) -> list[Statement]:
    """The form of the curve, the published slope, all coefficients, and the published curve."""
    return [
        Statement(
            f"a logarithm fits with R^2 above {PUBLISHED_R_SQUARED} in every range of u",
            all(fit.r_squared > PUBLISHED_R_SQUARED for fit in fits),
        ),
        Statement(
            f"its slope is within {SLOPE_WITHIN:.0%} of the published one in some range",
            any(fit.has_slope for fit in fits),
        ),
        Statement(
            f"so are, within {REST_WITHIN:.0%}, offset and constant",
            any(fit.has_all for fit in fits),
        ),
        Statement(
            f"the published curve itself has R^2 above {PUBLISHED_R_SQUARED} in some range",
            any(fit.published_r_squared > PUBLISHED_R_SQUARED for fit in fits),
        ),
    ]


def growth(setting: Setting) -> FloatArray:
    """`rayleigh_maximum` of u = 1, 2, .., shape (LARGEST,), or 100 in the quick size."""
    last = 100 if setting.quick else LARGEST
    return np.array(setting.map(rayleigh_maximum, range(1, last + 1)))


@register_reproduction(
    "c25-figure-1",
    "C25",
    "Figure 1",
    "the worst ratio of A_min for lengths 1 to u and s = 0 follows 0.2555 log(u + 0.2793) + "
    "1.1587, R^2 above 0.9999",
)
def figure_1(setting: Setting) -> Outcome:
    """The maximum of the Rayleigh quotient, refitted over several ranges of u."""
    values = growth(setting)
    u = np.arange(1, len(values) + 1, dtype=np.float64)
    fits = [
        fit_logarithm(u[first - 1 : last], values[first - 1 : last])
        for last in RANGE_ENDS
        if last <= len(u)
        for first in RANGE_STARTS
    ]
    nearest = max(fits, key=lambda fit: fit.published_r_squared)
    last = len(u)
    late = (values[-1] - values[last // 2 - 1]) / np.log(last / (last // 2))
    errors = logarithm(u, *PUBLISHED) - values
    shown = [f"{errors[at - 1]:+.4f} at u = {at}" for at in sorted({2, 10, 100, last})]
    measured = (
        f"refits over {len(fits)} ranges of u: slope {_span([fit.a for fit in fits])}, offset "
        f"{_span([fit.b for fit in fits])}, constant {_span([fit.c for fit in fits])}, R^2 from "
        f"{min(fit.r_squared for fit in fits):.6f}; where the published curve fits best, u = "
        f"{nearest.first} to {nearest.last}, its R^2 is {nearest.published_r_squared:.6f} and the "
        f"refit is {nearest.formula}; the published curve "
        f"is off by {', '.join(shown)}"
    )
    remark = (
        f"the paper does not state its range; between u = {last // 2} and {last} the slope is "
        f"{late:.4f}, and its limit is 1/4: the maximum lies between H and H + 1, H = sum of "
        "1/(2(2i - 1)) to u"
    )
    rows: list[list[Any]] = [
        [int(at), value, *(float(logarithm(at, *one)) for one in _curves(nearest))]
        for at, value in zip(u, values, strict=True)
    ]
    rows = [[*row, rank_one_part(row[0])] for row in rows]
    return Outcome(
        ["u", "ratio", "published_fit", "nearest_refit", "lower_bound_H"],
        rows,
        _draw(u, values, nearest),
        measured,
        statements(fits),
        remark,
    )


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.4f} to {max(values):.4f}"


def _curves(nearest: LogarithmicFit) -> tuple[tuple[float, float, float], ...]:
    return PUBLISHED, (nearest.a, nearest.b, nearest.c)


def _draw(u: FloatArray, values: FloatArray, nearest: LogarithmicFit) -> Any:
    above, below = new_axes(6.4, 4.4, rows=2, sharex=True, height_ratios=(3, 2))
    shown = np.unique(np.geomspace(1, len(u), 40).round().astype(int)) - 1
    above.plot(
        u[shown],
        values[shown],
        "o",
        color=LINE_COLOURS[0],
        markersize=3.5,
        label="maximum, computed",
    )
    fine = np.geomspace(1, len(u), 300)
    labels = ("published fit", f"refit, u = {nearest.first} to {nearest.last}")
    for index, (curve, label) in enumerate(zip(_curves(nearest), labels, strict=True), start=1):
        style = "--" if index == 1 else "-."
        colour = LINE_COLOURS[index]
        # Below its range the refit's logarithm falls without end.
        start = 1 if index == 1 else nearest.first
        line, at = fine[fine >= start], shown[shown >= start - 1]
        above.plot(line, logarithm(line, *curve), style, color=colour, linewidth=1.2, label=label)
        errors = logarithm(u[at], *curve) - values[at]
        below.plot(u[at], errors, style, color=colour, linewidth=1.2, label=label)
    bound = [rank_one_part(int(at)) for at in u[shown]]
    above.plot(u[shown], bound, ":", color=QUIET, linewidth=1.2, label="H, slope 1/4 in the limit")
    below.axhline(0, color=QUIET, linewidth=0.6)
    below.set_xscale("log")
    dress(above, "Worst ratio of A_min to H-SF, lengths 1 to u, s = 0", "", "ratio")
    dress(below, "", "upper bound u (logarithmic)", "fit - maximum")
    legend(above, loc="upper left")
    above.set_ylim(bottom=0)
    return above.figure
