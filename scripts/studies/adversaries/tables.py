"""The measurements on the papers' constructions as tables and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from online.tables import Table
from online.trials.intervals import Interval, rounded_down, rounded_up

from .cascade import Cascade
from .ratios import Growth, Measurement
from .reductions import ReductionCheck

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DECIMALS = 3
"""Digits of a ratio here: sizes differ more than policies do."""


def ratio_table(measured: Sequence[Measurement]) -> Table:
    """Make a row for each construction and size: ratio, its certified interval, the claim."""
    rows = tuple(
        (
            row.construction.theorem,
            row.construction.label,
            row.construction.policy_label,
            _arrivals(row),
            str(row.memory_limit),
            str(row.requests),
            f"{row.total_latency:.0f}",
            rounded_up(row.reference_upper, 0),
            _ratio(row),
            _claim(row),
            {True: "yes", False: "no", None: ""}[row.claim_holds],
        )
        for row in measured
    )
    columns = (
        *("theorem", "construction", "policy", "arrivals", "M", "n", "total_latency"),
        *("reference", "ratio", "claimed", "holds"),
    )
    text = frozenset({"theorem", "construction", "policy", "arrivals"})
    title = "total latency / hindsight optimum: [at least, at most]"
    main = ("construction", "policy", "M", "ratio", "claimed", "holds", "theorem")
    return Table(title, columns, rows, text, main)


def growth_table(growths: Sequence[Growth]) -> Table:
    """Make a row for each construction: the exponent of M in its ratios, claimed and fitted."""
    rows = tuple(
        (
            growth.construction.theorem,
            growth.construction.label,
            growth.construction.policy_label,
            _number(growth.construction.claimed_exponent),
            "" if growth.plain is None else str(growth.plain.points),
            "" if growth.plain is None else str(growth.plain),
            "" if growth.corrected is None else str(growth.corrected),
        )
        for growth in growths
    )
    columns = (
        *("theorem", "construction", "policy", "expected", "points", "exponent [95 %]"),
        "with M^-1/2 term [95 %]",
    )
    text = frozenset({"theorem", "construction", "policy"})
    main = ("construction", "policy", "expected", "exponent [95 %]", columns[-1], "theorem")
    return Table("exponent of M in the ratio's certified lower end", columns, rows, text, main)


def cascade_table(found: Sequence[Cascade]) -> Table:
    """Make a row for each setting, policy and number of iterations."""
    rows = tuple(
        (
            line.setting,
            line.policy,
            str(line.rounds),
            str(line.seeds),
            f"{line.arrived:.3f}",
            f"{line.completed:.3f}",
            f"{100 * line.lost:.1f} %",
            f"{line.evictions:.3f}",
        )
        for line in found
    )
    columns = ("arrivals", "policy", "T", "seeds", "arrived/T", "completed/T", "lost", "evicted/T")
    return Table("fcfs-cascade at M = M*", columns, rows, frozenset({"arrivals", "policy"}))


def reduction_table(found: Sequence[ReductionCheck]) -> Table:
    """Make a row for each problem, kind of draw and size."""
    rows = tuple(
        (
            line.problem,
            line.drawn,
            str(line.size),
            str(line.instances),
            str(line.proved),
            str(line.at_target),
            f"{line.seconds:.1f}",
        )
        for line in found
    )
    columns = ("problem", "numbers", "size", "instances", "proved", "at target", "seconds")
    return Table("reductions", columns, rows, frozenset({"problem", "numbers"}))


def plot_growth(ax: Axes, measured: Sequence[Measurement]) -> None:
    """Certified ratios over M on logarithmic scales; the claim, where there is one, dashed.

    Parameters
    ----------
    ax : Axes
        Matplotlib axes to draw on.
    measured : Sequence[Measurement]
        Of one construction or several; a line each.
    """
    groups: dict[str, list[Measurement]] = {}
    for row in measured:
        name = f"{row.construction.policy_label} on {row.construction.label}"
        groups.setdefault(name, []).append(row)
    for name, rows in groups.items():
        sizes = [row.memory_limit for row in rows]
        (line,) = ax.plot(sizes, [row.ratio_lower for row in rows], marker="o", label=name)
        claims = [row.claim for row in rows if row.claim is not None]
        if len(claims) == len(rows):
            ax.plot(sizes, claims, linestyle="--", color=line.get_color(), linewidth=1)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel("memory limit M")
    ax.set_ylabel("total latency / upper bound on the optimum")
    ax.legend(fontsize="small")


def _arrivals(row: Measurement) -> str:
    return "adaptive" if row.adaptive else "fixed"


def _ratio(row: Measurement) -> str:
    upper = None if row.ratio_upper is None else Fraction(row.ratio_upper)
    ratio = Interval(Fraction(row.ratio_lower), upper)
    error = f" ({row.standard_error:.3f})" if ratio.is_exact and row.seeds > 1 else ""
    return f"{ratio.text(DECIMALS)}{error}"


def _claim(row: Measurement) -> str:
    if row.claim is None:
        return ""
    if row.construction.is_upper_claim:
        return f"<= {rounded_up(row.claim, DECIMALS)}"
    return f">= {rounded_down(row.claim, DECIMALS)}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
