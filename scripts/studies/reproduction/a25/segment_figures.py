"""[A25] Figures 16 to 18: the memory Nested WAIT needs over its number of segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from instances import InvalidValueError
from instances.batch_time.models import IterationTime
from online.fluid.balance import PromptType
from online.fluid.nested_design import group, nested_thresholds
from online.pictures import new_axes, style
from studies.reproduction.declaration import Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

from .drawing import shared_legend
from .machine import EQUATION_1
from .serving import CONVERSATION_SHARES

COUNTS = (*range(1, 21), 25, 30, 35, 40, 50, 60, 80, 100, 150, 200, 300, 400, 500)
QUICK_COUNTS = (1, 2, 5, 10, 20, 50)
"""Numbers of segments."""

FIGURES_16_TO_18 = (
    (50, 200, 0.1),
    (50, 200, 1e-5),
    (500, 200, 0.1),
    (500, 200, 1e-5),
    (50, 20, 0.001),
    (50, 2000, 0.001),
)
"""Arrival rate, T and delta of the panels of [A25] Figures 16 to 18."""

SEGMENT_TIME = IterationTime(1.0, 4e-9)
"""Ours, as [A25] gives none: d1 W is 0.005 at rate 50 and 0.048 at rate 500."""

PREFILL_LENGTH = 62

ABOUT_TEN = range(5, 21)
"""Where the minimum has to be: [A25] takes ten bins and says that the minimum agrees."""

CLAIM = (
    "term 1, full batches, is the largest of the three at every number of segments; the total is "
    "U-shaped with its minimum near ten; term 3 grows with {}"
)


@dataclass(frozen=True)
class SegmentPanel:
    """The terms of [A25] Equation (17) for one number of segments ([A25] Figures 16 to 18)."""

    arrival_rate: float
    horizon: float
    overflow_probability: float
    segments: int
    batch: float
    boundary: float
    buffer: float
    total: float


def conversation_types(arrival_rate: float) -> list[PromptType]:
    """Decode lengths 1 .. 500, evenly within bins of 50 with `CONVERSATION_SHARES`.

    [A25] Figure 15 shows the distribution of a data set that is not part of this package.
    """
    total = 50 * sum(CONVERSATION_SHARES)
    return [
        PromptType(
            arrival_rate * CONVERSATION_SHARES[(length - 1) // 50] / total, PREFILL_LENGTH, length
        )
        for length in range(1, 501)
    ]


@cache
def panel(
    rate: float, horizon: float, delta: float, counts: tuple[int, ...]
) -> tuple[SegmentPanel, ...]:
    """The memory requirement for each number of segments, each with its smallest thresholds.

    [A25] does not say which iteration time its figures have.
    """
    types, time, rows = conversation_types(rate), SEGMENT_TIME, []
    for count in counts:
        plan = nested_thresholds(group(types, count), time.d0, time.d1)
        need = plan.memory_requirement(horizon, delta)
        terms = (need.batch, need.boundary, need.buffer, need.total)
        rows.append(SegmentPanel(rate, horizon, delta, count, *terms))
    return tuple(rows)


def dominates_until(curve: Sequence[SegmentPanel]) -> int:
    """The number of segments up to which term 1 is the largest; 0 where it never is."""
    last = 0
    for each in curve:
        if max(each.boundary, each.buffer) > each.batch:
            break
        last = each.segments
    return last


def best_count(curve: Sequence[SegmentPanel]) -> int:
    """The number of segments with the smallest total."""
    return min(curve, key=lambda each: each.total).segments


def is_u_shaped(curve: Sequence[SegmentPanel]) -> bool:
    """Tell whether the minimum is `ABOUT_TEN`, and both ends exceed it by a factor of 1.05."""
    low = min(each.total for each in curve)
    ends = min(curve[0].total, curve[-1].total)
    return best_count(curve) in ABOUT_TEN and ends > 1.05 * low


def grows(easy: Sequence[SegmentPanel], hard: Sequence[SegmentPanel]) -> bool:
    """Tell whether term 3 is larger in the second panel at every number of segments above 1."""
    return all(
        after.buffer > before.buffer
        for before, after in zip(easy, hard, strict=True)
        if before.segments > 1
    )


def totals_on_machine(
    rate: float, horizon: float, delta: float, counts: Sequence[int]
) -> dict[int, float]:
    """The total by number of segments with the iteration time of the machine of Section 6.

    Numbers of segments for which no thresholds keep up are left out.
    """
    time: IterationTime = EQUATION_1
    totals: dict[int, float] = {}
    for count in counts:
        try:
            plan = nested_thresholds(group(conversation_types(rate), count), time.d0, time.d1)
        except InvalidValueError:
            continue
        totals[count] = plan.memory_requirement(horizon, delta).total
    return totals


def best_on_machine(totals: Mapping[int, float], counts: Sequence[int]) -> tuple[str, bool]:
    """Return where the total of `totals_on_machine` is least, in words, and if `ABOUT_TEN`."""
    if not totals:
        return "no thresholds keep up with that rate", False
    best = min(totals, key=totals.__getitem__)
    exist = f"thresholds exist for {len(totals)} of {len(counts)} numbers of segments"
    return f"{exist} and the minimum is at {best}", best in ABOUT_TEN


def measure(setting: Setting, panels: Sequence[tuple[float, float, float]]) -> Outcome:
    """Two panels, the second with the harder requirement."""
    counts = QUICK_COUNTS if setting.quick else COUNTS
    curves = setting.map(_panel, [(*each, counts) for each in panels])
    easy, hard = curves
    on_machine, agrees = best_on_machine(totals_on_machine(*panels[0], counts), counts)
    statements = [
        Statement(
            "term 1 the largest throughout",
            all(dominates_until(curve) == counts[-1] for curve in curves),
        ),
        Statement(
            f"a U-shape with its minimum at {ABOUT_TEN[0]} to {ABOUT_TEN[-1]} segments",
            all(is_u_shaped(curve) for curve in curves),
        ),
        Statement("growth of term 3", grows(easy, hard)),
        Statement("the minimum there with d0 and d1 of an A100 too", agrees),
    ]
    until = " and ".join(str(dominates_until(curve)) for curve in curves)
    best = " and ".join(str(best_count(curve)) for curve in curves)
    totals = " and ".join(f"{min(each.total for each in curve) / 1e6:.2f}" for curve in curves)
    ratios = [
        after.buffer / before.buffer
        for before, after in zip(easy, hard, strict=True)
        if before.segments > 1
    ]
    return Outcome(
        (
            "arrival_rate",
            "horizon",
            "overflow_probability",
            "segments",
            "term_1_batch",
            "term_2_boundary",
            "term_3_buffer",
            "total",
        ),
        [
            (
                each.arrival_rate,
                each.horizon,
                each.overflow_probability,
                each.segments,
                each.batch,
                each.boundary,
                each.buffer,
                each.total,
            )
            for curve in curves
            for each in curve
        ],
        segments_figure(curves),
        f"term 1 is the largest up to {until} of {counts[-1]} segments in the two panels; the "
        f"total is smallest at {best} segments ({totals} million tokens); term 3 is "
        f"{min(ratios):.2f} to {max(ratios):.2f} times as large in the second panel.",
        statements,
        f"thresholds are the smallest that keep up with a margin of 0.05, rounded up, which for "
        f"hundreds of segments leaves hardly any drift; shares of lengths are the printed ones, "
        f"even within a bin. d0 = {SEGMENT_TIME.d0:g} s and d1 = {SEGMENT_TIME.d1:g} s are ours: "
        f"the paper names none. With those of an A100 {on_machine}.",
    )


def _panel(task: tuple[float, float, float, tuple[int, ...]]) -> tuple[SegmentPanel, ...]:
    return panel(*task)


def segments_figure(curves: Sequence[Sequence[SegmentPanel]]) -> Any:
    """Three terms and their sum, a panel each, both axes logarithmic."""
    axes = new_axes(7.6, 3.5, 1, len(curves), sharey=True)
    lines = (
        ("term 1: full batches", "batch", 0),
        ("term 2: one batch at each boundary", "boundary", 2),
        ("term 3: buffer", "buffer", 1),
        ("total", "total", 6),
    )
    floor = min(
        value
        for curve in curves
        for each in curve
        for value in (each.batch, each.boundary, each.buffer)
        if value > 0
    )
    for ax, curve in zip(axes, curves, strict=True):
        for index, (label, name, colour) in enumerate(lines):
            shown = [(each.segments, getattr(each, name)) for each in curve]
            # Terms 2 and 3 are 0 without a boundary, which has no logarithm.
            x, y = zip(*(pair for pair in shown if pair[1] > 0), strict=True)
            ax.plot(
                x,
                [value / 1e6 for value in y],
                label=label,
                color=style.LINE_COLOURS[colour],
                marker=style.LINE_MARKERS[index],
                markersize=3,
                linewidth=1.1,
            )
        best = min(curve, key=lambda each: each.total)
        ax.annotate(
            f"{best.segments} segments",
            (best.segments, best.total / 1e6),
            xytext=(0, 16),
            textcoords="offset points",
            ha="center",
            fontsize=7.5,
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": style.INK},
        )
        first = curve[0]
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks([1, 2, 5, 10, 20, 50, 100, 200, 500][: 9 if curve[-1].segments > 50 else 6])
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.minorticks_off()
        style.dress(
            ax,
            f"rate {first.arrival_rate:g}, T = {first.horizon:g} s, "
            f"\N{GREEK SMALL LETTER DELTA} = {first.overflow_probability:g}",
            "segments",
            "" if ax is axes[1] else "million tokens",
        )
        ax.grid(axis="y", color="#e6e6e6", linewidth=0.6)
    axes[0].set_ylim(bottom=0.5 * floor / 1e6)
    return shared_legend(axes, "")


@register_reproduction(
    "a25-figure-16", "A25", "Figure 16", CLAIM.format("a smaller overflow probability")
)
def figure_16(setting: Setting) -> Outcome:
    """Rate 50, T = 200, delta = 0.1 and 1e-5."""
    return measure(setting, FIGURES_16_TO_18[:2])


@register_reproduction(
    "a25-figure-17", "A25", "Figure 17", CLAIM.format("a smaller overflow probability")
)
def figure_17(setting: Setting) -> Outcome:
    """Rate 500, T = 200, delta = 0.1 and 1e-5."""
    return measure(setting, FIGURES_16_TO_18[2:4])


@register_reproduction("a25-figure-18", "A25", "Figure 18", CLAIM.format("a longer horizon"))
def figure_18(setting: Setting) -> Outcome:
    """Rate 50, delta = 0.001, T = 20 and 2000."""
    return measure(setting, FIGURES_16_TO_18[4:])
