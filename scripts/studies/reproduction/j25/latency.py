"""[J25] Figures 3, 7, 8, 10, 11 and Table 1: mean latency of its algorithms.

The paper states neither the grids nor the seeds of the figures, nor how it fits slopes. Here slopes
are fitted to means over seeds by least squares. In Figure 3 the requests of a smaller size are the
first ones of the largest size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from instances import InvalidValueError
from online.pictures.curves import student_interval
from online.policy_interface.specs import make_policy
from online.simulation.simulator import simulate
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
from studies.reproduction.lengths import Given
from studies.reproduction.pictures import bars, lines

from .workloads import ALGORITHMS, HIGH, LOW, REQUESTS, play, workload

SLOPES = {HIGH: (1 / 6, 1 / 2), LOW: (1 / 800, 1 / 100)}
"""Slopes of mean latency, seconds per request, of MC-SF and of the best other ([J25] Figure 3)."""
LINEAR = 0.98
"""Least R^2 with which growth counts as linear."""

HELD = (0.1, 0.2)
"""Values of the parameter (alpha or beta) that is constant in a curve."""
ALPHAS = (0.0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
BETAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 0.75, 1.0)
QUICK = {"alpha": (0.025, 0.05, 0.1, 0.2, 0.25, 0.4), "beta": (0.01, 0.05, 0.2, 0.5, 1.0)}
SMALL_ALPHA = 0.1
"""Value of alpha below which the paper finds latency much worse."""

Case = tuple[str, int, float, int]
"""Policy, requests, arrivals per second and seed."""
Means = Mapping[float, Mapping[float, float]]
"""Mean latency by value of the constant and the varied parameter. Infinite if a run did not end."""


def serve(case: Case, given: Given) -> tuple[float, int]:
    """Run a policy. Return its mean latency (infinite if the run did not end) and evictions."""
    run = play(*case, given)
    done = run.status == "completed"
    return float(run.mean_latency) if done else math.inf, run.evictions


def point(found: Sequence[tuple[float, int]]) -> tuple[list[float | None], float]:
    """Return the mean latency over runs with its interval, and the mean number of evictions.

    The latency is None if a run did not end.
    """
    latencies = [latency for latency, _ in found]
    evictions = float(np.mean([count for _, count in found]))
    if math.inf in latencies:
        return [None] * 3, evictions
    mean, half = student_interval(latencies)
    return [mean, mean - half, mean + half], evictions


def slope_and_fit(points: Mapping[float, float]) -> tuple[float, float]:
    """Fit a line by least squares. Return its slope and R^2, which is 1 for constant values."""
    xs, ys = (np.array(list(side), dtype=np.float64) for side in (points, points.values()))
    slope, intercept = np.polyfit(xs, ys, 1)
    rest = float(((ys - slope * xs - intercept) ** 2).sum())
    spread = float(((ys - ys.mean()) ** 2).sum())
    return float(slope), 1.0 - rest / spread if spread > 0 else 1.0


def growth(setting: Setting, rate: float) -> Outcome:
    """Measure the mean latency of every policy over the number of requests."""
    sizes = (200, 400, 600) if setting.quick else range(1000, 10_001, 1000)
    seeds = range(2 if setting.quick else 3)
    cases = [(spec, n, rate, s) for spec, _ in ALGORITHMS.values() for n in sizes for s in seeds]
    found = dict(zip(cases, setting.map(partial(serve, given=setting.given), cases), strict=True))
    rows: list[list[Any]] = []
    curves: dict[str, dict[float, list[float]]] = {}
    for label, (spec, _) in ALGORITHMS.items():
        samples = {n: [found[spec, n, rate, seed] for seed in seeds] for n in sizes}
        ended = {n: own for n, own in samples.items() if all(t < math.inf for t, _ in own)}
        if len(ended) > 1:
            curves[label] = {n: [latency for latency, _ in own] for n, own in ended.items()}
        for n, own in samples.items():
            numbers, evictions = point(own)
            rows.append([label, n, len(seeds), *numbers, evictions])
    means = {label: {n: float(np.mean(v)) for n, v in one.items()} for label, one in curves.items()}
    if "MC-SF" not in means or len(means) < 2:
        reason = "leave MC-SF, or all others, without two sizes at which every run ends"
        raise InvalidValueError(None, "lengths", dict(setting.given), reason)
    fits = {label: slope_and_fit(one) for label, one in means.items()}
    checks = slope_checks(means, fits, SLOPES[rate])
    if rate == HIGH:
        worst = min(fit for _, fit in fits.values())
        checks.append(Statement(f"straight lines (R^2 at least {worst:.3f})", worst >= LINEAR))
    picture = lines(
        {f"{label} ({per_request(fits[label][0])})": one for label, one in curves.items()},
        "requests",
        "mean latency (s)",
        title=f"{rate:g} requests per second (slope per request)",
    )
    names = ("algorithm", "requests", "seeds", "mean_latency", "low", "high", "evictions")
    return Outcome(names, rows, picture, checks)


def per_request(slope: float) -> str:
    """Return seconds per request, as the fraction that the paper writes."""
    if not 0 < slope < 1:
        return f"{slope:.3g} s"
    return f"1/{1 / slope:,.0f} s" if slope < 0.1 else f"1/{1 / slope:.3g} s"


def slope_checks(
    means: Mapping[str, Mapping[float, float]],
    fits: Mapping[str, tuple[float, float]],
    published: tuple[float, float],
) -> list[Statement]:
    """Check that MC-SF is the lowest, and that slopes and their quotient agree within `FACTOR`."""
    first, *others = means.values()
    lowest = all(one[n] > first[n] for one in others for n in one if n in first)
    mine = fits["MC-SF"][0]
    best = min(slope for label, (slope, _) in fits.items() if label != "MC-SF")
    quotient, wanted = best / mine if mine > 0 else math.inf, published[1] / published[0]
    within = f"within a factor {FACTOR:g} of the paper's"
    return [
        Statement("MC-SF the lowest at every size", lowest),
        *(
            Statement(
                f"{name} {within} ({per_request(slope)} against {per_request(paper)})",
                agrees(slope, paper),
            )
            for name, slope, paper in zip(
                ("MC-SF's slope", "the best other's slope"), (mine, best), published, strict=True
            )
        ),
        Statement(
            f"their quotient {within} ({quotient:.2g} against {wanted:.2g})",
            agrees(quotient, wanted),
        ),
    ]


def grid(setting: Setting, varied: str, rate: float, good: tuple[float, float]) -> Outcome:
    """Measure alpha-protection with beta-clearing over one parameter, ``varied``.

    ``good`` is the range of values that the paper recommends.
    """
    n, seeds = (1000, range(1)) if setting.quick else (REQUESTS, range(3))
    full = {"alpha": ALPHAS, "beta": BETAS}
    values = (QUICK if setting.quick else full)[varied]
    pairs = [
        (value, held) if varied == "alpha" else (held, value)
        for held, value in product(HELD, values)
    ]
    cases: list[Case] = [
        (f"alpha-beta-clearing(alpha={alpha}, beta={beta})", n, rate, seed)
        for alpha, beta in pairs
        for seed in seeds
    ]
    served = setting.map(partial(serve, given=setting.given), cases)
    rows: list[list[Any]] = []
    means: dict[float, dict[float, float]] = {held: {} for held in HELD}
    curves: dict[str, dict[float, list[float]]] = {}
    for place, (pair, (held, value)) in enumerate(zip(pairs, product(HELD, values), strict=True)):
        own = served[place * len(seeds) : (place + 1) * len(seeds)]
        numbers, evictions = point(own)
        failed = sum(latency == math.inf for latency, _ in own)
        means[held][value] = math.inf if numbers[0] is None else numbers[0]
        rows.append([*pair, len(seeds), failed, *numbers, evictions])
        if not failed:
            other = "beta" if varied == "alpha" else "alpha"
            label = f"{other} = {held:g}"
            curves.setdefault(label, {})[value] = [latency for latency, _ in own]
    if any(min(one.values()) == math.inf for one in means.values()):
        reason = f"leave no {varied} at which every run ends"
        raise InvalidValueError(None, "lengths", dict(setting.given), reason)
    picture = lines(curves, varied, "mean latency (s)", title=f"{rate:g} requests per second")
    picture.axvspan(*good, color="#eeeeee", linewidth=0, label="the paper's range", zorder=0)
    names = ("alpha", "beta", "seeds", "failed", "mean_latency", "low", "high", "evictions")
    checks = (alpha_checks if varied == "alpha" else beta_checks)(means, good)
    return Outcome(names, rows, picture, checks)


def excesses(means: Means, values: Iterable[float]) -> list[float]:
    """Return by which share each latency at these values exceeds the least latency of its curve."""
    return [one[value] / min(one.values()) - 1 for one in means.values() for value in values]


def alpha_checks(means: Means, good: tuple[float, float]) -> list[Statement]:
    """Check that the best alpha is in the range ``good``, and that values below 0.1 are worse."""
    best = [min(one, key=one.__getitem__) for one in means.values()]
    least = min(excesses(means, [one for one in next(iter(means.values())) if one < SMALL_ALPHA]))
    places = " and ".join(f"{alpha:g}" for alpha in best)
    return [
        Statement(
            f"best alpha in [{good[0]:g}, {good[1]:g}] (at {places})",
            all(good[0] <= alpha <= good[1] for alpha in best),
        ),
        Statement(
            f"every alpha below {SMALL_ALPHA:g} worse than the best by {MARGIN:.0%} "
            f"(by at least {least:.1%})",
            least > MARGIN,
        ),
    ]


def beta_checks(means: Means, good: tuple[float, float]) -> list[Statement]:
    """Check that every beta in the range ``good`` is within `MARGIN` of the best.

    Also check that the smallest and the largest beta are not.
    """
    betas = [*next(iter(means.values()))]
    inside = max(excesses(means, [beta for beta in betas if good[0] <= beta <= good[1]]))
    text = f"every beta in [{good[0]:g}, {good[1]:g}] within {MARGIN:.0%} of the best"
    checks = [Statement(f"{text} (within {inside:.1%})", inside <= MARGIN)]
    for end in (min(betas), max(betas)):
        least = min(excesses(means, [end]))
        text = f"beta = {end:g} worse than the best by {MARGIN:.0%} (by at least {least:.1%})"
        checks.append(Statement(text, least > MARGIN))
    return checks


def mean_of(task: tuple[str, int, int], given: Given) -> tuple[float | None, int]:
    """Return the mean latency of a run of Table 1, and its evictions."""
    policy, n, seed = task
    problem = workload(n, HIGH, seed, given, of=n)
    run = simulate(problem, make_policy(policy), seed=seed)
    return run.mean_latency if run.status == "completed" else None, run.evictions


def table_1(setting: Setting) -> Outcome:
    """Measure every policy of the table on the same workloads."""
    n, seeds = (200, 3) if setting.quick else (1000, 50)
    tasks = [(spec, n, seed) for spec, _ in ALGORITHMS.values() for seed in range(seeds)]
    found = setting.map(partial(mean_of, given=setting.given), tasks)
    rows: list[list[Any]] = []
    for place, (label, (_, paper)) in enumerate(ALGORITHMS.items()):
        own = found[place * seeds : (place + 1) * seeds]
        means = [mean for mean, _ in own if mean is not None]
        spread = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
        numbers = (
            [float(np.mean(means)), spread, max(means), min(means)] if means else [math.nan] * 4
        )
        rows.append(
            [label, *numbers, *paper, seeds, seeds - len(means), sum(e for _, e in own) / seeds]
        )
    groups = {"measured": [row[1] for row in rows], "the paper": [row[5] for row in rows]}
    names = ("average", "standard_deviation", "largest", "smallest")
    columns = ("algorithm", *names, *(f"paper_{name}" for name in names))
    picture = bars(groups, [*ALGORITHMS], "mean latency (s)")
    checks = table_checks(*groups.values())
    return Outcome((*columns, "runs", "failed", "evictions"), rows, picture, checks)


def table_checks(averages: Sequence[float], published: Sequence[float]) -> list[Statement]:
    """Check the two best policies, the order of the rest, ratios to the best, and seconds.

    Averages that differ by less than 0.5 % in the paper are not compared: the deviations that the
    paper states are larger.
    """
    first, second, *rest = averages
    pairs = [
        (rest[i] < rest[j]) == (one < other)
        for (i, one), (j, other) in combinations(enumerate(published[2:]), 2)
        if abs(other / one - 1) >= 0.005
    ]
    seconds = [abs(one / other - 1) for one, other in zip(averages, published, strict=True)]
    apart = [
        abs(one / first / (other / published[0]) - 1)
        for one, other in zip(averages, published, strict=True)
    ]
    within = f"within {MARGIN:.0%} (off by up to"
    return [
        Statement("MC-SF first, MC-Benchmark second", first < second < min(rest)),
        Statement(
            f"the order of the other six ({sum(pairs)} of {len(pairs)} pairs that the paper tells "
            "apart)",
            all(pairs),
        ),
        Statement(
            f"each average as a multiple of MC-SF's {within} {max(apart):.0%})",
            max(apart) <= MARGIN,
        ),
        Statement(f"each average in seconds {within} {max(seconds):.0%})", max(seconds) <= MARGIN),
    ]


LMSYS = {"lmsys": REQUESTS}
figure(
    "j25-figure-3-high-demand",
    "50 arrivals a second: mean latency grows linearly for all; by about 1/6 s a request for "
    "MC-SF, 1/2 s for the best of the seven others",
    partial(growth, rate=HIGH),
    LMSYS,
    SERVING,
)
figure(
    "j25-figure-3-low-demand",
    "10 arrivals a second: mean latency grows by about 1/800 s a request for MC-SF, 1/100 s for "
    "the best of the seven others",
    partial(growth, rate=LOW),
    LMSYS,
    SERVING,
)
for _number, _varied, _rate, _good, _claim in (
    (7, "alpha", HIGH, (0.15, 0.25), "lowest latency for alpha in [0.15, 0.25], much worse"),
    (8, "beta", HIGH, (0.05, 0.25), "low latency for beta in [0.05, 0.25], worse for very"),
    (10, "alpha", LOW, (0.10, 0.25), "lowest latency for alpha in [0.10, 0.25], much worse"),
    (11, "beta", LOW, (0.05, 0.20), "steady latency for beta in [0.05, 0.20], worse for very"),
):
    _other, _end = ("beta", "below 0.1") if _varied == "alpha" else ("alpha", "small and for large")
    figure(
        f"j25-figure-{_number}",
        f"{_rate:g} arrivals a second, {_other} 0.1 and 0.2: {_claim} {_end}",
        partial(grid, varied=_varied, rate=_rate, good=_good),
        LMSYS,
        SERVING,
    )
figure(
    "j25-table-1",
    "averages from 32.112 s (MC-SF) and 46.472 s (MC-Benchmark) to 53.393 s; deviations of 0.31 s "
    "to 1.46 s",
    table_1,
    {"lmsys": 1000},
    SERVING,
)
