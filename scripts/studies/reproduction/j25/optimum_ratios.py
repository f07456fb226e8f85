"""[J25] Figure 2: MC-SF over the hindsight optimum, two arrival models, 200 trials each.

The paper has 40 to 60 requests. Here every optimum is proved at 20, some ten seconds each; at the
paper's own sizes a better schedule, found by local search, bounds each ratio from below, which is
enough to tell whether the paper's mean is possible there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import instances
import online
from online import Trial
from online.pictures import new_axes, ratio_histogram, style
from online.simulation.simulator import simulate
from online.trials.intervals import Interval, rounded_down
from studies.reproduction.declaration import Cause, Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import FACTOR, Statement, agrees

FULL_N, FULL_TRIALS, FULL_MOVES = 20, 200, 100_000
QUICK_N, QUICK_TRIALS, QUICK_MOVES = 6, 10, 20_000
"""Requests of the proved trials, trials of both sizes, and moves of each local search."""

TIME_LIMIT = 600.0
"""Seconds for each optimum: far more than any of them needs."""

LINE_SHARE = 0.62
"""Of the height of the axes, for bars and lines."""

COLUMNS = (
    *("requests_drawn", "seed", "requests", "memory_limit", "total_latency"),
    *("best_schedule", "lower_bound", "ratio_low", "ratio_high"),
)


@dataclass(frozen=True)
class Published:
    """Ratios over 200 trials; matches are trials in which MC-SF is optimal."""

    mean: float
    largest: float
    matches: int | None


PAPER = {1: Published(1.005, 1.074, 114), 2: Published(1.047, 1.227, None)}
PAPER_TRIALS = 200


@dataclass(frozen=True)
class Bounded:
    """A trial at the paper's size: a ratio of at least total_latency / best_schedule."""

    seed: int
    requests: int
    memory_limit: int
    total_latency: int
    best_schedule: int

    @property
    def ratio(self) -> Fraction:
        """The lower end."""
        return Fraction(self.total_latency, self.best_schedule)


@register_reproduction(
    "j25-figure-2-model-1",
    "J25",
    "Figure 2",
    "all requests at time 0: ratio 1.005 on average, at most 1.074, and 1 in 114 of 200 trials",
    cause=Cause(
        ("the claim itself", "rule not stated"),
        "At the paper's own sizes so low a mean is not possible: for every draw a better schedule "
        "than MC-SF's is known, which bounds its ratio from below whatever the optimum is. "
        "Neither lengths of conversations nor seconds enter, and M is drawn as the paper says. "
        "What is left is the claim, or an MC-SF or an arrival model other than the ones "
        "described.",
    ),
)
def model_1(setting: Setting) -> Outcome:
    """Left panel."""
    return _measure(setting, 1)


@register_reproduction(
    "j25-figure-2-model-2",
    "J25",
    "Figure 2",
    "Poisson arrivals: ratio 1.047 on average, at most 1.227, at least 1.000, over 200 trials",
)
def model_2(setting: Setting) -> Outcome:
    """Right panel."""
    return _measure(setting, 2)


def _measure(setting: Setting, model: int) -> Outcome:
    quick = setting.quick
    n, trials = (QUICK_N, QUICK_TRIALS) if quick else (FULL_N, FULL_TRIALS)
    moves = QUICK_MOVES if quick else FULL_MOVES
    records = proved_trials(setting, model, n, trials)
    bounded = setting.map(bound_ratio, [(model, seed, moves) for seed in range(trials)])
    summary = online.table(records).iloc[0]
    ratios = [record.ratio for record in records if record.ratio is not None]
    mean_bound = sum((one.ratio for one in bounded), Fraction(0)) / len(bounded)
    further = mean_bound > _low(summary["mean ratio"])
    sizes = sorted(one.requests for one in bounded)
    checks = ratio_checks(PAPER[model], summary, ratios, [float(one.ratio) for one in bounded], n)
    matches = exact_matches(ratios)
    smallest = Interval(
        min((ratio.lower for ratio in ratios if ratio.lower is not None), default=None),
        min((ratio.upper for ratio in ratios if ratio.upper is not None), default=None),
    )
    return Outcome(
        COLUMNS,
        [*_proved_rows(n, records), *map(_bounded_row, bounded)],
        _draw(ratios, bounded, PAPER[model], model, n),
        f"{n} requests: mean {summary['mean ratio']}, largest {summary['max ratio']}, smallest "
        f"{smallest}, optimal in {matches} of {len(ratios)}, {summary['proved']} optima "
        f"proved; at the paper's sizes: mean at least {rounded_down(mean_bound)}, "
        f"{sum(b.ratio > 1 for b in bounded)} of {len(bounded)} surely not optimal",
        checks,
        f"Optima are proved at {n} requests instead of {sizes[0]} to {sizes[-1]}; at the "
        f"paper's sizes ratios are bounded from below by a local search of {moves:,} moves"
        f"{', and lie further from 1' if further else ''}",
    )


def proved_trials(setting: Setting, model: int, n: int, trials: int) -> list[Trial]:
    """MC-SF and the optimum of every draw, kept in ``setting.results``."""
    draws = [instances.generate(f"arrival-model-{model}", seed, n=n) for seed in range(trials)]
    return online.sweep(
        draws,
        "mc-sf",
        setting.results,
        jobs=setting.jobs,
        time_limit=TIME_LIMIT,
        progress=setting.progress,
    )


def bound_ratio(task: tuple[int, int, int]) -> Bounded:
    """MC-SF against the schedule that local search finds: (model, seed, moves), n as published."""
    from hindsight.schedules.orders import OrderSearch

    model, seed, moves = task
    instance = instances.generate(f"arrival-model-{model}", seed)
    if not isinstance(instance, instances.Instance):
        raise TypeError(f"arrival-model-{model} is no instance")
    schedule = simulate(instance, "mc-sf").schedule
    # From the policy's own schedule, so that no bound falls below 1.
    search = OrderSearch(instance, schedule.start_times)
    search.run(moves)
    found = instances.Schedule(instance, search.best.starts)
    if not found.is_feasible:
        raise AssertionError(f"{instance.name}: local search left the memory limit")
    return Bounded(
        seed,
        len(instance),
        instance.memory_limit,
        schedule.total_latency,
        found.total_latency,
    )


def exact_matches(ratios: Sequence[Interval]) -> int:
    """Trials in which the policy is surely optimal."""
    return sum(ratio.is_exact and ratio.lower == 1 for ratio in ratios)


def ratio_checks(
    published: Published,
    summary: Any,
    ratios: Sequence[Interval],
    bounds: Sequence[float],
    n: int,
) -> list[Statement]:
    """Distances from 1 within `FACTOR`, optimal trials, and no contradiction at the paper's sizes.

    The paper's mean is contradicted where it lies below the mean of the lower ends by more than
    twice the standard error of a difference of two such means.
    """
    mean, largest = _low(summary["mean ratio"]), _low(summary["max ratio"])
    matches = exact_matches(ratios)
    checks = [
        Statement(
            f"mean - 1 within a factor {FACTOR:g} at {n} requests ({mean - 1:.3f} against "
            f"{published.mean - 1:.3f})",
            agrees(mean - 1, published.mean - 1),
        ),
        Statement(
            f"largest - 1 within a factor {FACTOR:g} ({largest - 1:.3f} against "
            f"{published.largest - 1:.3f})",
            agrees(largest - 1, published.largest - 1),
        ),
    ]
    if published.matches is None:
        checks.append(Statement(f"some trial optimal ({matches})", matches > 0))
    else:
        share = published.matches / PAPER_TRIALS
        text = f"share of optimal trials within a factor {FACTOR:g} ({matches / len(ratios):.1%} "
        found = agrees(matches / len(ratios), share)
        checks.append(Statement(f"{text}against {share:.1%})", found))
    least = float(np.mean(bounds))
    error = float(np.std(bounds, ddof=1)) / math.sqrt(len(bounds))
    possible = least - published.mean <= 2 * math.sqrt(2) * error
    text = (
        f"a mean of {published.mean:g} possible at the paper's sizes (it is at least "
        f"{rounded_down(least, 3)}, standard error {error:.4f})"
    )
    return [*checks, Statement(text, possible)]


def _low(interval: Interval) -> float:
    return math.nan if interval.lower is None else float(interval.lower)


def _proved_rows(n: int, records: Sequence[Trial]) -> list[list[Any]]:
    rows = []
    for seed, record in enumerate(records):
        ends = (record.ratio or Interval(None, None)).ends
        bounds = [record.upper, record.lower]
        known = [record.requests, record.memory_limit, record.cost]
        rows.append([str(n), seed, *known, *bounds, *ends])
    return rows


def _bounded_row(one: Bounded) -> list[Any]:
    known = [one.seed, one.requests, one.memory_limit, one.total_latency, one.best_schedule]
    return ["as published", *known, None, float(one.ratio), None]


def _draw(
    ratios: Sequence[Interval],
    bounded: Sequence[Bounded],
    published: Published,
    model: int,
    n: int,
) -> Any:
    lows = [float(one.ratio) for one in bounded]
    ends = [*lows, *(float(end) for one in ratios for end in (one.lower, one.upper) if end)]
    step = 0.01 if model == 1 else 0.02
    bins = max(1, math.ceil((max(*ends, published.largest) - 1) / step + 1e-9))
    edges = [1 + step * place for place in range(bins + 1)]
    axes = new_axes(6.4, 4.4, rows=2, sharex=True)
    above, below = axes
    ratio_histogram(ratios, bins=edges, ax=above, title=f"Model {model}, {n} requests", x_label="")
    below.hist(
        lows,
        edges,
        color=style.LINE_COLOURS[5],
        edgecolor="white",
        linewidth=0.6,
        label="at least this",
    )
    style.whole_numbers(below, "y")
    sizes = sorted(one.requests for one in bounded)
    title = f"Model {model}, sizes as published ({sizes[0]} to {sizes[-1]} requests)"
    style.dress(below, title, "total latency / hindsight optimum", "trials")
    for ax in axes:
        ax.axvline(
            published.mean,
            color=style.LINE_COLOURS[1],
            linewidth=1.2,
            ymax=LINE_SHARE,
            label=f"the paper's mean, {published.mean:g}",
        )
        ax.axvline(
            published.largest,
            color=style.LINE_COLOURS[1],
            linewidth=1.2,
            linestyle="--",
            ymax=LINE_SHARE,
            label=f"the paper's largest, {published.largest:g}",
        )
        ax.set_xlim(edges[0] - 0.3 * step, edges[-1])
        # Room for the legend above bars and lines.
        ax.set_ylim(0, max(bar.get_height() for bar in ax.patches) / LINE_SHARE)
        style.legend(ax, loc="upper right")
    return above.figure
