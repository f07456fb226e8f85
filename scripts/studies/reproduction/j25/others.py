"""[J25] Figures 2, 5, 6 and 9: ratios of MC-SF, lengths of conversations, memory over time.

Figure 2 has 40 to 60 requests in the paper. Here optima are proved for 20 requests, in some ten
seconds each. For the sizes of the paper, local search finds a schedule that is at least as good as
that of MC-SF. It gives a lower bound on each ratio. This is enough to decide whether the mean of
the paper is possible.

The conversations of Figure 5 are not freely available, so only their moments can be checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import instances
import online
from hindsight.schedules.orders import OrderSearch
from instances.generators.synthetic_traces import SERVED_OUTPUTS, SERVED_PROMPTS
from online.pictures import new_axes, style
from online.pictures.memory import draw_limit
from online.simulation.run import Rounds
from online.simulation.simulator import simulate
from online.trials.intervals import Interval, rounded_down
from studies.reproduction.figure import (
    FACTOR,
    MARGIN,
    SERVING,
    Outcome,
    Setting,
    Statement,
    agrees,
    figure,
)
from studies.reproduction.lengths import Given, conversations_of, drawn_lengths
from studies.reproduction.pictures import histograms

from .workloads import HIGH, LONGEST, LOW, REQUESTS, play

PUBLISHED = {1: (1.005, 1.074, 114), 2: (1.047, 1.227, None)}
"""Published mean and largest ratio over 200 trials, and trials with ratio 1, by arrival model."""
TRIALS = 200
TIME_LIMIT = 600.0
"""Time limit in seconds for each optimum, far more than any of them needs."""

BINS = 300
"""Number of time intervals in the table and the picture. There are far more batches."""
MOST, CONSISTENTLY, CLOSE = 0.5, 0.9, 0.9
"""Meaning of the paper's words: MOST is above half of the memory, CONSISTENTLY in nine batches of
ten, and CLOSE (to full) a median batch above nine tenths."""
BIN_WIDTH = 16
"""Width of a bin in tokens. There are 128 bins up to the longest length."""


def ratios(setting: Setting, model: int) -> Outcome:
    """Measure the ratios of MC-SF to the optimum on small instances.

    On large instances measure ratios to a better schedule, which are lower bounds.
    """
    n, trials, moves = (6, 10, 20_000) if setting.quick else (20, TRIALS, 100_000)
    draws = [instances.generate(f"arrival-model-{model}", seed, n=n) for seed in range(trials)]
    options: Any = {"jobs": setting.jobs, "progress": setting.progress}
    proved = online.sweep(draws, "mc-sf", setting.results, time_limit=TIME_LIMIT, **options)
    bounded = setting.map(partial(bounded_row, model=model, moves=moves), range(trials))
    rows: list[Sequence[Any]] = []
    for seed, one in enumerate(proved):
        ends = (one.ratio or Interval(None, None)).ends
        known = (one.requests, one.memory_limit, one.cost, one.upper, one.lower)
        rows.append([str(n), seed, *known, *ends])
    known_ratios = [one.ratio for one in proved if one.ratio is not None]
    lows = [float(row[7]) for row in bounded]
    step = 0.01 if model == 1 else 0.02
    edges = 1 + step * np.arange(math.ceil((max(lows) - 1) / step) + 2)
    mean, largest, _ = PUBLISHED[model]
    marks = {f"the paper's mean, {mean:g}": mean, f"the paper's largest, {largest:g}": largest}
    upper = [float(one.upper) for one in known_ratios if one.upper is not None]
    panels = {
        title: (np.histogram(values, edges)[0].tolist(), edges.tolist())
        for title, values in ((f"{n} requests", upper), ("sizes as published: at least", lows))
    }
    columns = ("requests_drawn", "seed", "requests", "memory_limit", "total_latency")
    return Outcome(
        (*columns, "best_schedule", "lower_bound", "ratio_low", "ratio_high"),
        [*rows, *bounded],
        histograms(panels, "total latency / optimum", "trials", dict.fromkeys(panels, marks)),
        ratio_checks(PUBLISHED[model], known_ratios, lows, n),
    )


def bounded_row(seed: int, model: int, moves: int) -> Sequence[Any]:
    """Return a row: MC-SF and a schedule of local search on an instance of the paper's size."""
    instance = instances.generate(f"arrival-model-{model}", seed)
    assert isinstance(instance, instances.Instance)
    schedule = simulate(instance, "mc-sf").schedule
    # Local search begins with the policy's own schedule, so that no bound is below 1.
    search = OrderSearch(instance, schedule.start_times)
    search.run(moves)
    found = instances.Schedule(instance, search.best.starts)
    if not found.is_feasible:
        raise AssertionError(f"{instance.name}: local search left the memory limit")
    costs = schedule.total_latency, found.total_latency
    size = (len(instance), instance.memory_limit)
    return ["as published", seed, *size, *costs, None, costs[0] / costs[1], None]


def ratio_checks(
    published: tuple[float, float, int | None],
    ratios: Sequence[Interval],
    bounds: Sequence[float],
    n: int,
) -> list[Statement]:
    """Check distances from 1, optimal trials, and the paper's mean at the paper's sizes.

    The paper's mean is not possible if it is below the mean of the lower bounds by more than twice
    the standard error of a difference of two such means.
    """
    lows = [float(one.lower) for one in ratios if one.lower is not None]
    mean, largest = float(np.mean(lows)), max(lows)
    matches = sum(one.is_exact and one.lower == 1 for one in ratios)
    checks = [
        Statement(
            f"{name} - 1 within a factor {FACTOR:g}{at} ({found - 1:.3f} against {paper - 1:.3f})",
            agrees(found - 1, paper - 1),
        )
        for name, at, found, paper in (
            ("mean", f" at {n} requests", mean, published[0]),
            ("largest", "", largest, published[1]),
        )
    ]
    if published[2] is None:
        checks.append(Statement(f"some trial optimal ({matches})", matches > 0))
    else:
        share, paper = matches / len(ratios), published[2] / TRIALS
        text = (
            f"share of optimal trials within a factor {FACTOR:g} ({share:.1%} against {paper:.1%})"
        )
        checks.append(Statement(text, agrees(share, paper)))
    least = float(np.mean(bounds))
    error = float(np.std(bounds, ddof=1)) / math.sqrt(len(bounds))
    text = (
        f"a mean of {published[0]:g} possible at the paper's sizes (it is at least "
        f"{rounded_down(least, 3)}, standard error {error:.4f})"
    )
    return [*checks, Statement(text, least - published[0] <= 2 * math.sqrt(2) * error)]


def conversations(setting: Setting) -> Outcome:
    """Measure the moments of the lengths of conversations."""
    n = 2000 if setting.quick else REQUESTS
    source = conversations_of(setting.given, "conversations")
    sides = drawn_lengths(source, np.random.default_rng(0), n, LONGEST)
    # Lengths are whole numbers, and the edges of bins are between them.
    edges = np.arange(0, LONGEST[0] + 1, BIN_WIDTH) + 0.5
    rows: list[Sequence[Any]] = []
    checks, panels, marks = [], {}, {}
    for kind, lengths, law in zip(
        ("prompt", "output"), sides, (SERVED_PROMPTS, SERVED_OUTPUTS), strict=True
    ):
        counts = np.histogram(lengths, edges)[0]
        rows += [
            [kind, math.ceil(low), math.floor(high), int(count)]
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        ]
        panels[f"{kind} lengths"] = (counts.tolist(), edges.tolist())
        marks[f"{kind} lengths"] = own = dict[str, float]()
        for name, found, paper in (
            ("mean", float(lengths.mean()), law.mean),
            ("median", float(np.median(lengths)), law.median),
        ):
            own |= {f"{name} {found:.4g}": found, f"the paper's {name} {paper:g}": paper}
            text = f"{kind} {name} within {MARGIN:.0%} ({found / paper - 1:+.1%})"
            near = abs(found / paper - 1) <= MARGIN
            checks.append(Statement(text, near, by_construction=isinstance(source, str)))
    picture = histograms(panels, "tokens", "conversations", marks, log=True)
    return Outcome(("kind", "from_tokens", "to_tokens", "conversations"), rows, picture, checks)


def memory_use(setting: Setting, rate: float) -> Outcome:
    """Measure the memory of MC-SF over time."""
    n, seeds = (500, 1) if setting.quick else (REQUESTS, 5)
    found = setting.map(partial(memory_of, n=n, rate=rate, given=setting.given), range(seeds))
    limit = found[0][1]
    shares = np.concatenate([rounds.memory for rounds, _, _ in found]) / limit
    rows = binned(found[0][0])
    ax = new_axes(6.4, 2.6)
    table = np.array(rows)
    middle, colour = table[:, :2].mean(axis=1), style.LINE_COLOURS[0]
    draw_limit(ax, limit)
    ax.fill_between(middle, table[:, 2], table[:, 4], color=colour, alpha=0.25, lw=0)
    ax.plot(middle, table[:, 3], color=colour, linewidth=1.0, label="mean, smallest to largest")
    ax.set_ylim(0, 1.15 * limit)
    style.dress(ax, f"MC-SF, {rate:g} requests per second", "time (s)", "KV cache (tokens)")
    style.legend(ax)
    checks = memory_checks(shares, sum(one[2] for one in found), close_to_full=rate == LOW)
    return Outcome(("from_second", "to_second", "smallest", "mean", "largest"), rows, ax, checks)


def memory_of(seed: int, n: int, rate: float, given: Given) -> tuple[Rounds, int, int]:
    """Run MC-SF. Return its memory over time, the memory limit, and the number of evictions."""
    run = play("mc-sf", n, rate, seed, given)
    return run.rounds, run.problem.memory_limit, run.evictions


def memory_checks(
    shares: npt.NDArray[np.float64], evictions: int, *, close_to_full: bool
) -> list[Statement]:
    """Check the memory of batches as shares of M: mostly above half.

    If ``close_to_full``, also check that it is close to M. The policy evicts requests before a
    batch would exceed M. So the first statement is that there are no evictions.
    """
    above, median = float(np.mean(shares > MOST)), float(np.median(shares))
    text = f"more than half of M in {CONSISTENTLY:.0%} of batches (in {above:.0%})"
    checks = [
        Statement(f"never above M ({evictions} requests sent back)", evictions == 0),
        Statement(text, above >= CONSISTENTLY),
    ]
    if close_to_full:
        text = f"a median batch of {CLOSE:.0%} of M ({median:.0%})"
        checks.append(Statement(text, median >= CLOSE))
    return checks


def binned(rounds: Rounds, bins: int = BINS) -> list[list[float]]:
    """Divide time into ``bins`` equal intervals, and return a row for each.

    A row has the ends of the interval, and the smallest, the time-weighted mean and the largest
    memory in it. Between rounds the machine holds nothing.
    """
    end = float(rounds.ends[-1])
    edges = np.linspace(float(rounds.starts[0]), end, bins + 1)
    idle = np.flatnonzero(rounds.starts[1:] > rounds.ends[:-1]) + 1
    starts = np.insert(rounds.starts, idle, rounds.ends[idle - 1])
    values = np.insert(rounds.memory, idle, 0).astype(np.float64)
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


LMSYS = {"lmsys": REQUESTS}
figure(
    "j25-figure-2-model-1",
    "all requests at time 0: ratio 1.005 on average, at most 1.074, and 1 in 114 of 200 trials",
    partial(ratios, model=1),
)
figure(
    "j25-figure-2-model-2",
    "Poisson arrivals: ratio 1.047 on average, at most 1.227, at least 1.000, over 200 trials",
    partial(ratios, model=2),
)
figure(
    "j25-figure-5",
    "10,000 conversations: prompts of mean 40.62 and median 11 words, outputs of mean 85.32 and "
    "median 45",
    conversations,
    LMSYS,
    ("lengths",),
)
figure(
    "j25-figure-6",
    "50 arrivals a second: MC-SF never exceeds M = 16,492 and uses most of it in its batches",
    partial(memory_use, rate=HIGH),
    LMSYS,
    SERVING,
)
figure(
    "j25-figure-9",
    "10 arrivals a second: MC-SF never exceeds M = 16,492 and uses close to all of it",
    partial(memory_use, rate=LOW),
    LMSYS,
    SERVING,
)
