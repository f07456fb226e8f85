"""[J25] Figures 6 and 9: memory of MC-SF over time, at high and low demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from online.pictures import new_axes, style
from online.pictures.memory import draw_limit
from online.simulation import metrics
from studies.reproduction.declaration import Cause, Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

from .serving import HIGH, LOW, REQUESTS, Case, Demand, run_case, unlike_the_paper, workload

QUICK_REQUESTS = 500
FULL_SEEDS, QUICK_SEEDS = 5, 1
BINS = 300
"""Intervals of time in the data and the picture; batches are far more."""

MOST, CONSISTENTLY, CLOSE = 0.5, 0.9, 0.9
"""Of memory, more than half is most; in nine batches of ten is consistently; a median batch above
nine tenths is close to full."""

HEADROOM = 1.15
"""Of the axes above M."""

COLUMNS = ("from_second", "to_second", "smallest", "mean", "largest")


@dataclass(frozen=True)
class MemoryUse:
    """Memory use of a run: tokens held over time, M, and requests sent back for lack of memory."""

    steps: metrics.Steps
    limit: int
    evictions: int


@register_reproduction(
    "j25-figure-6",
    "J25",
    "Figure 6",
    "50 arrivals a second: MC-SF never exceeds M = 16,492 and uses most of it in its batches",
    lengths={"lmsys": REQUESTS},
    varies=("lengths", "batch-time", "memory"),
)
def high_demand(setting: Setting) -> Outcome:
    """High demand."""
    return _measure(setting, HIGH)


@register_reproduction(
    "j25-figure-9",
    "J25",
    "Figure 9",
    "10 arrivals a second: MC-SF never exceeds M = 16,492 and uses close to all of it",
    lengths={"lmsys": REQUESTS},
    varies=("lengths", "batch-time", "memory"),
    cause=Cause(
        ("batch time", "lengths"),
        "How full memory is at ten arrivals a second hangs on how far the machine falls behind. "
        "With batch times of tensor parallel 1, {batch-time=llama-2-70b-a100-tp1} hold, with "
        "lengths of lighter tails, {lengths=three-moments}.",
    ),
)
def low_demand(setting: Setting) -> Outcome:
    """Low demand."""
    return _measure(setting, LOW)


def _measure(setting: Setting, demand: Demand) -> Outcome:
    n = QUICK_REQUESTS if setting.quick else REQUESTS
    seeds = range(QUICK_SEEDS if setting.quick else FULL_SEEDS)
    cases = [Case.of("mc-sf", {}, n, demand, seed, setting.conditions) for seed in seeds]
    found = setting.map(_memory, cases)
    steps, limit = found[0].steps, found[0].limit
    shares = np.concatenate([one.steps.values for one in found]) / limit
    checks = memory_checks(shares, sum(one.evictions for one in found), demand is LOW)
    rows = binned(steps, BINS)
    return Outcome(
        COLUMNS,
        rows,
        _draw(rows, limit, demand, _last_arrival(cases[0])),
        f"at most {shares.max():.1%} of M; median batch {np.median(shares):.0%}, "
        f"{np.mean(shares > MOST):.0%} of batches above half ({len(shares):,} batches, "
        f"{len(cases)} seeds)",
        checks,
        f"{n:,} requests; data and figure show seed 0. "
        f"{_before_and_after(found, [_last_arrival(case) for case in cases], demand)}. "
        f"{unlike_the_paper(setting.conditions)}",
    )


def _memory(case: Case) -> MemoryUse:
    run = run_case(case)
    return MemoryUse(metrics.memory_over_time(run), run.memory_limit, run.evictions)


def _last_arrival(case: Case) -> float:
    work = workload(case.requests, case.arrival_rate, case.seed, case.conditions)
    return float(work.arrival_times[-1])


def _before_and_after(found: Sequence[MemoryUse], last: Sequence[float], demand: Demand) -> str:
    shares: dict[bool, list[npt.NDArray[np.float64]]] = {True: [], False: []}
    for one, end in zip(found, last, strict=True):
        for arriving, part in shares.items():
            part.append(one.steps.values[(one.steps.starts <= end) == arriving] / one.limit)
    before, after = (float(np.median(np.concatenate(part))) for part in shares.values())
    text = f"The median batch holds {before:.0%} of M up to the last arrival and {after:.0%} after"
    if demand is LOW:
        return text
    return f"{text}, where requests of equal length start, grow and end together"


def memory_checks(
    shares: npt.NDArray[np.float64], evictions: int, close_to_full: bool
) -> list[Statement]:
    """Check batches as shares of M: mostly above half and, if asked, close to it.

    The machine evicts before a batch that would be above M, so what could fail is that it has to.
    """
    above = float(np.mean(shares > MOST))
    median = float(np.median(shares))
    checks = [
        Statement(f"never above M ({evictions} requests sent back)", evictions == 0),
        Statement(
            f"more than half of M in {CONSISTENTLY:.0%} of batches (in {above:.0%})",
            above >= CONSISTENTLY,
        ),
    ]
    if close_to_full:
        text = f"a median batch of {CLOSE:.0%} of M ({median:.0%})"
        checks.append(Statement(text, median >= CLOSE))
    return checks


def binned(steps: metrics.Steps, bins: int) -> list[list[float]]:
    """Equal intervals of time: ends, then smallest, time-weighted mean and largest value in each.

    The machine holds nothing between the rounds of ``steps``.
    """
    begin, end = float(steps.starts[0]), float(steps.ends[-1])
    edges = np.linspace(begin, end, bins + 1)
    idle = np.flatnonzero(steps.starts[1:] > steps.ends[:-1]) + 1
    starts = np.insert(steps.starts, idle, steps.ends[idle - 1])
    values = np.insert(steps.values, idle, 0).astype(np.float64)
    held = np.concatenate([[0.0], np.cumsum(values * np.diff([*starts, end]))])
    total = np.interp(edges, [*starts, end], held)
    rows = []
    for place in range(bins):
        low, high = float(edges[place]), float(edges[place + 1])
        first = max(int(np.searchsorted(starts, low, side="right")) - 1, 0)
        last = max(int(np.searchsorted(starts, high, side="left")), first + 1)
        inside = values[first:last]
        mean = float(total[place + 1] - total[place]) / (high - low)
        rows.append([low, high, float(inside.min()), mean, float(inside.max())])
    return rows


def _draw(rows: list[list[float]], limit: int, demand: Demand, last: float) -> Any:
    ax = new_axes(6.4, 2.6)
    table = np.array(rows)
    middle = table[:, :2].mean(axis=1)
    colour = style.LINE_COLOURS[0]
    draw_limit(ax, limit)
    ax.fill_between(
        middle,
        table[:, 2],
        table[:, 4],
        color=colour,
        alpha=0.25,
        lw=0,
        label="smallest to largest",
    )
    ax.plot(middle, table[:, 3], color=colour, linewidth=1.0, label="mean")
    line = {"color": style.QUIET, "linewidth": 0.8, "linestyle": ":", "label": "last arrival"}
    ax.axvline(last, ymax=1 / HEADROOM, **line)
    ax.set_xlim(0, table[-1, 1])
    ax.set_ylim(0, HEADROOM * limit)
    ax.yaxis.set_major_formatter("{x:,.0f}")
    title = f"MC-SF, {demand.name} demand"
    style.dress(ax, title, "time (s)", "KV cache (tokens)")
    style.legend(ax)
    return ax.figure
