"""[W25] Figures 8 and EC.2: mean latency over the number of requests, mixed lengths.

2,000 requests, four conversations to a summary, shuffled; the first 200, 400, .. of them all at
once, M = 16,492, in continuous time with `llama-2-70b-2xa100`. A statement of the paper counts as
borne out where it holds at the largest number of requests and at more than half of all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from instances import Instance, Workload
from instances.batch_time import parse_batch_time, preset
from online.pictures import Curve, latency_curves, style
from online.policy_interface.policy import Policy
from online.simulation.simulator import simulate
from studies.reproduction.conditions import OWN, Conditions
from studies.reproduction.declaration import Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

from .length_figures import mixed
from .lengths import LONG, SHORT, mixture
from .relaxed_orders import NAMES, KnownRelaxation, Method

LABELS = {
    "mc-sf": "MC-SF",
    "sorted-lp": "Sorted-LP",
    "lp-swap": "LP-Swap",
    "sorted-f-swap": "Sorted-F (swap)",
    "sorted-f-quantile": "Sorted-F (quantile)",
    "smallest-volume-first": "smallest volume first",
    "fcfs": "FCFS",
}
"""The paper's six algorithms, and the simplest rule that looks at both lengths, not in it."""

REQUESTS = SHORT + LONG
SIZES = tuple(range(200, 2001, 200))
RELAXED_SIZES = (200, 1200, 1400, 1600, 1800, 2000)
"""Sizes for the two algorithms that need the relaxation; between them it takes many minutes."""
QUICK_SIZES = (30, 60, 90)
QUICK_SCALE = 32
OWN_BATCH_TIME, ROUNDS = "llama-2-70b-2xa100", "rounds"
BATCH_TIMES = ("llama-2-70b-a100-tp1", "llama-2-70b-a100-tp2")
"""Those that an experiment is likely to ask for."""
MIXTURE_SEED = 0
"""One mixture, as in the paper."""
PAIR = ("sorted-f-swap", "lp-swap")
"""Figure EC.2."""
ALIKE = 0.05
"""Two latencies are nearly identical where they differ by at most this share of the larger."""


@dataclass(frozen=True)
class Task:
    """Number of requests of the mixture; ``scale`` is the relaxation's, None without one."""

    requests: int
    scale: int | None
    given: Conditions = OWN


@dataclass(frozen=True)
class Latencies:
    """Mean latency by policy, in seconds by batch time and, in the round model, in rounds."""

    task: Task
    seconds: Mapping[str, Mapping[str, float]]
    rounds: Mapping[str, float]


def latencies(task: Task) -> Latencies:
    """The policies on the same requests; one relaxation serves both orders."""
    lengths = mixture(np.random.default_rng(MIXTURE_SEED), REQUESTS, task.given)
    name = f"conversations-and-summaries[n={task.requests}]"
    limit = task.given.memory_limit(preset("llama-2-70b-2xa100").memory_limit)
    instance = lengths.instance(task.requests, name, limit)
    relaxed = None
    if task.scale is not None:
        # Not "auto": with lengths as they are all sizes are to be solved the same way.
        method: Method = "lagrangian" if task.scale == 1 else "lp"
        relaxed = KnownRelaxation(instance, task.scale, method)
    # The relaxation takes far longer than all runs: one serves every batch time.
    times = dict.fromkeys([*BATCH_TIMES, task.given.batch_time or OWN_BATCH_TIME])
    found: dict[str, dict[str, float]] = {}
    for time in (*times, ROUNDS):
        problem: Instance | Workload = instance
        if time != ROUNDS:
            problem = Workload.from_instance(instance, parse_batch_time(time)[0])
        found[time] = {}
        for each in LABELS:
            policy: Policy | str = each
            if each in NAMES:
                if relaxed is None:
                    continue
                policy = relaxed.policy(each)
            run = simulate(problem, policy, seed=MIXTURE_SEED)
            found[time][each] = run.mean_latency
    rounds = found.pop(ROUNDS)
    return Latencies(task, found, rounds)


Means = Mapping[int, Mapping[str, float]]
"""Mean latency in seconds, by number of requests and policy."""


def known(means: Means, names: Collection[str]) -> Means:
    """The sizes at which all of ``names`` were measured, ascending."""
    return {size: means[size] for size in sorted(means) if set(names) <= set(means[size])}


def borne_out(
    text: str, means: Means, names: Collection[str], holds: Callable[[Mapping[str, float]], bool]
) -> Statement:
    """A statement on ``names`` that holds at the largest and at more than half of their sizes."""
    at = [holds(each) for each in known(means, names).values()]
    return Statement(f"{text} at {sum(at)} of {len(at)} sizes", at[-1] and 2 * sum(at) > len(at))


def alike(one: float, other: float) -> bool:
    """Tell whether they differ by at most `ALIKE` of the larger."""
    return abs(one - other) <= ALIKE * max(one, other)


def figure_8_statements(means: Means) -> list[Statement]:
    """State what the paper reads off Figure 8."""
    return [
        borne_out(
            "MC-SF above Sorted-F and Sorted-LP",
            means,
            ("mc-sf", "sorted-f-swap", "sorted-f-quantile", "sorted-lp"),
            lambda at: (
                at["mc-sf"] > max(at["sorted-f-swap"], at["sorted-f-quantile"], at["sorted-lp"])
            ),
        ),
        borne_out(
            "Sorted-F (swap) below Sorted-F (quantile)",
            means,
            ("sorted-f-swap", "sorted-f-quantile"),
            lambda at: at["sorted-f-swap"] < at["sorted-f-quantile"],
        ),
        borne_out(
            f"LP-Swap more than {ALIKE:.0%} below Sorted-LP",
            means,
            NAMES,
            lambda at: at["lp-swap"] < (1 - ALIKE) * at["sorted-lp"],
        ),
        borne_out(
            f"LP-Swap within {ALIKE:.0%} of Sorted-F (swap)",
            means,
            ("lp-swap", "sorted-f-swap"),
            lambda at: alike(at["lp-swap"], at["sorted-f-swap"]),
        ),
    ]


_KNOWN: dict[tuple[bool, Conditions], list[Latencies]] = {}


def _latencies(setting: Setting) -> list[Latencies]:
    """Both figures are of the same runs: simulated once in a process."""
    given = setting.conditions
    if given.batch_time in BATCH_TIMES:
        given = replace(given, batch_time=None)
    key = (setting.quick, given)
    if key not in _KNOWN:
        sizes = QUICK_SIZES if setting.quick else SIZES
        relaxed = QUICK_SIZES if setting.quick else RELAXED_SIZES
        scale = QUICK_SCALE if setting.quick else 1
        # Largest first: no process is left alone with it at the end.
        tasks = [
            Task(size, scale if size in relaxed else None, given)
            for size in sorted(sizes, reverse=True)
        ]
        _KNOWN[key] = setting.map(latencies, tasks)
    return _KNOWN[key]


def _picture(means: Means, panels: Mapping[str, tuple[str, ...]]) -> Any:
    axes = style.new_axes(3.6 * len(panels), 3.4, 1, len(panels), squeeze=False)[0]
    for place, (title, names) in enumerate(panels.items()):
        curves = {
            LABELS[name]: Curve.from_samples(
                {size: [at[name]] for size, at in known(means, [name]).items()}
            )
            for name in names
        }
        ax = axes[place]
        latency_curves(curves, ax=ax, title=title, y_label="mean latency (s)" if not place else "")
        ax.get_legend().remove()
    figure = axes[0].figure
    handles, labels = axes[0].get_legend_handles_labels()
    form = {"frameon": False, "fontsize": style.TEXT_POINTS, "handlelength": 2.6}
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), **form)
    return figure


def _outcome(
    setting: Setting,
    panels: Mapping[str, tuple[str, ...]],
    statements: Callable[[Means], list[Statement]],
    sentence: Callable[[Means], str],
) -> Outcome:
    found = sorted(_latencies(setting), key=lambda each: each.task.requests)
    time = setting.conditions.batch_time or OWN_BATCH_TIME
    means = {each.task.requests: each.seconds[time] for each in found}
    policies = max(panels.values(), key=len)
    rows: list[list[Any]] = [
        [each.task.requests, name, each.seconds[time][name], each.rounds[name]]
        for each in found
        for name in policies
        if name in each.seconds[time]
    ]
    sizes = ", ".join(f"{size:,}" for size in known(means, NAMES))
    coarse = f", of lengths divided by {QUICK_SCALE}" if setting.quick else ""
    return Outcome(
        columns=("requests", "policy", "seconds", "rounds"),
        rows=rows,
        figure=_picture(means, panels),
        measured=sentence(means),
        statements=statements(means),
        remark=f"one mixture, {mixed(setting.conditions)}, batch times are "
        f"{setting.conditions.batch_time or 'an affine fit'}, the relaxation is solved at {sizes} "
        f"requests{coarse}.",
    )


@register_reproduction(
    "w25-figure-8",
    "W25",
    "Figure 8",
    "MC-SF is worse than Sorted-F and Sorted-LP; swapping beats quantiles; LP-Swap is far better "
    "than Sorted-LP and nearly equal to Sorted-F (swap).",
    lengths={"lmsys": SHORT, "arxiv": LONG},
    varies=("lengths", "batch-time", "memory"),
)
def mean_latency(setting: Setting) -> Outcome:
    """Measure the mean latency of all algorithms."""

    def sentence(means: Means) -> str:
        size = max(means)
        listed = ", ".join(
            f"{label} {means[size][name]:.1f}"
            for name, label in sorted(LABELS.items(), key=lambda pair: means[size][pair[0]])
        )
        return f"mean latency at {size:,} requests, in seconds: {listed}."

    panels = {"all": tuple(LABELS), "without FCFS": tuple(LABELS)[:-1]}
    return _outcome(setting, panels, figure_8_statements, sentence)


@register_reproduction(
    "w25-figure-ec2",
    "W25",
    "Figure EC.2",
    "the curves of Sorted-F (swap) and LP-Swap almost coincide.",
    lengths={"lmsys": SHORT, "arxiv": LONG},
    varies=("lengths", "batch-time", "memory"),
)
def swap_against_relaxation(setting: Setting) -> Outcome:
    """The two alone."""

    def differences(means: Means) -> dict[int, float]:
        both = known(means, PAIR).items()
        return {size: at["lp-swap"] / at["sorted-f-swap"] - 1 for size, at in both}

    def statements(means: Means) -> list[Statement]:
        return [
            Statement(
                f"within {ALIKE:.0%} at {size:,} requests",
                alike(at["lp-swap"], at["sorted-f-swap"]),
            )
            for size, at in known(means, PAIR).items()
        ]

    def sentence(means: Means) -> str:
        found = differences(means)
        size = max(found)
        at = means[size]
        return (
            f"LP-Swap differs by {min(found.values()):+.1%} to {max(found.values()):+.1%}; at "
            f"{size:,} requests it has {at['lp-swap']:.1f} s, Sorted-F (swap) "
            f"{at['sorted-f-swap']:.1f} s."
        )

    return _outcome(setting, {"": PAIR}, statements, sentence)
