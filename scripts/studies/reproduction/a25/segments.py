"""[A25] Figures 16 to 18: the memory that Nested WAIT needs, by its number of segments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from instances import InvalidValueError
from instances.batch_time.models import IterationTime
from online.fluid.balance import PromptType
from online.fluid.nested_design import group, nested_thresholds
from online.pictures import new_axes
from studies.reproduction.figure import Outcome, Setting, Statement, figure
from studies.reproduction.pictures import lines

from .machine import CONVERSATION_SHARES, EQUATION_1

COUNTS = (*range(1, 21), 25, 30, 35, 40, 50, 60, 80, 100, 150, 200, 300, 400, 500)
QUICK_COUNTS = (1, 2, 5, 10, 20, 50)
"""Numbers of segments that are measured in the quick size."""

Panel = tuple[float, float, float]
"""Arrival rate, horizon T in seconds, and allowed probability delta of an overflow of memory."""

SEGMENT_TIME = IterationTime(1.0, 4e-9)
"""d0 and d1, which [A25] does not state: the load is 0.005 at rate 50 and 0.048 at rate 500."""
PREFILL_LENGTH = 62
ABOUT_TEN = range(5, 21)
"""Numbers of segments that count as about ten. [A25] says that ten segments need least memory."""
TERMS = ("term_1_batch", "term_2_boundary", "term_3_buffer", "total")


def conversation_types(rate: float) -> list[PromptType]:
    """Return prompt types with decode lengths 1 .. 500 and rates by `CONVERSATION_SHARES`.

    Rates are equal within a bin of 50 lengths, and their sum is ``rate``.
    """
    scale = rate / (50 * sum(CONVERSATION_SHARES))
    return [
        PromptType(scale * CONVERSATION_SHARES[(length - 1) // 50], PREFILL_LENGTH, length)
        for length in range(1, 501)
    ]


def terms(
    panel: Panel, counts: Sequence[int], time: IterationTime = SEGMENT_TIME
) -> dict[int, list[float]]:
    """Return the terms of the memory in [A25] Equation (17) and their sum, by number of segments.

    ``counts`` has the numbers of segments. Thresholds are the smallest that keep up with arrivals.
    A number of segments without such thresholds is left out.
    """
    rate, horizon, delta = panel
    found = {}
    for count in counts:
        try:
            plan = nested_thresholds(group(conversation_types(rate), count), time.d0, time.d1)
        except InvalidValueError:
            continue
        need = plan.memory_requirement(horizon, delta)
        found[count] = [need.batch, need.boundary, need.buffer, need.total]
    return found


def dominates_until(curve: dict[int, list[float]]) -> int:
    """Return the number of segments up to which term 1 is the largest, or 0 if it never is."""
    last = 0
    for count, (batch, boundary, buffer, _) in curve.items():
        if max(boundary, buffer) > batch:
            break
        last = count
    return last


def best_count(curve: dict[int, list[float]]) -> int:
    """Return the number of segments with the smallest total."""
    return min(curve, key=lambda count: curve[count][-1])


def is_u_shaped(curve: dict[int, list[float]]) -> bool:
    """Return whether the total has its minimum at `ABOUT_TEN` segments and rises at both ends.

    At both ends of the curve it must exceed the minimum by a factor of 1.05.
    """
    totals = [own[-1] for own in curve.values()]
    ends = min(totals[0], totals[-1])
    return best_count(curve) in ABOUT_TEN and ends > 1.05 * min(totals)


def grows(easy: dict[int, list[float]], hard: dict[int, list[float]]) -> bool:
    """Return whether term 3 is larger in the second panel at each number of segments above 1."""
    return all(hard[count][2] > easy[count][2] for count in easy if count > 1)


def measure(setting: Setting, panels: tuple[Panel, Panel]) -> Outcome:
    """Compute the memory for two panels of a figure, the second with the harder requirement."""
    counts = QUICK_COUNTS if setting.quick else COUNTS
    easy, hard = curves = setting.map(partial(terms, counts=counts), panels)
    on_machine = terms(panels[0], counts, EQUATION_1)
    best = best_count(on_machine) if on_machine else 0
    until = [dominates_until(curve) for curve in curves]
    minima = " and ".join(str(best_count(curve)) for curve in curves)
    checks = [
        Statement(
            f"term 1 the largest throughout (up to {until[0]} and {until[1]} segments)",
            all(count == counts[-1] for count in until),
        ),
        Statement(
            f"a U-shape with its minimum at {ABOUT_TEN[0]} to {ABOUT_TEN[-1]} segments "
            f"(at {minima})",
            all(map(is_u_shaped, curves)),
        ),
        Statement("growth of term 3", grows(easy, hard)),
        Statement(
            f"the minimum there with d0 and d1 of an A100 too ({best or 'none keep up'})",
            best in ABOUT_TEN,
        ),
    ]
    rows: list[list[Any]] = [
        [*panel, count, *own]
        for panel, curve in zip(panels, curves, strict=True)
        for count, own in curve.items()
    ]
    columns = ("arrival_rate", "horizon", "overflow_probability", "segments", *TERMS)
    axes = np.atleast_1d(new_axes(7.6, 3.5, columns=2, sharey=True))
    for ax, panel, curve in zip(axes, panels, curves, strict=True):
        # With one segment, terms 2 and 3 are 0. They are left out, since the axis is logarithmic.
        drawn = {
            name: {count: [own[i] / 1e6] for count, own in curve.items() if own[i] > 0}
            for i, name in enumerate(TERMS)
        }
        title = "rate {:g}, T = {:g} s, delta = {:g}".format(*panel)
        lines(drawn, "segments", "million tokens", ax=ax, title=title, log="xy")
    return Outcome(columns, rows, axes[0].figure, checks)


CLAIM = (
    "term 1, full batches, is the largest of the three at every number of segments; the total is "
    "U-shaped with its minimum near ten; term 3 grows with {}"
)
for _number, _panels, _harder in (
    (16, ((50, 200, 0.1), (50, 200, 1e-5)), "a smaller overflow probability"),
    (17, ((500, 200, 0.1), (500, 200, 1e-5)), "a smaller overflow probability"),
    (18, ((50, 20, 0.001), (50, 2000, 0.001)), "a longer horizon"),
):
    figure(f"a25-figure-{_number}", CLAIM.format(_harder), partial(measure, panels=_panels))
