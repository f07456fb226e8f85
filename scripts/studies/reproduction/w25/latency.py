"""[W25] Figures 8 and EC.2, and Table EC.1: latency of its six policies.

Figures: the mixture has 2,000 requests in random order, four conversations for each summary. Its
first 200, 400, .. requests arrive all at once. M is 16,492, and seconds are those of
`llama-2-70b-2xa100`. A statement of the paper holds if it holds at the largest number of requests
and at more than half of the numbers of requests that are run.

Table: two statements are checked for each family. Each of the three averages is within 5 % of the
paper's, and the averages are within 3 % of one another (2.6 % at most in the paper). The paper
states no number of instances. The table also has two lower bounds: the bound of the relaxation, in
exact arithmetic, and that of [J25] Equation (9). If a number of the paper is below them, it cannot
belong to the family that the paper states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal

import numpy as np

import hindsight
from instances import Instance, Workload, generate
from online.pictures import new_axes
from online.policy_interface.policy import Policy
from online.policy_interface.specs import make_policy
from online.simulation.simulator import simulate
from online.theory.paper_bounds import volume_bound
from studies.reproduction.figure import SERVING, Outcome, Setting, Statement, figure
from studies.reproduction.lengths import MACHINE, Given, seconds_of
from studies.reproduction.pictures import bars, lines

from .lengths import LONG, SHORT, mixture

RELAXED = ("sorted-lp", "lp-swap")
LABELS = {
    "mc-sf": "MC-SF",
    "sorted-lp": "Sorted-LP",
    "lp-swap": "LP-Swap",
    "sorted-f-swap": "Sorted-F (swap)",
    "sorted-f-quantile": "Sorted-F (quantile)",
    "smallest-volume-first": "smallest volume first",
    "fcfs": "FCFS",
}
"""The six policies of the paper, and smallest volume first, which is not in the paper."""
SIZES = tuple(range(200, 2001, 200))
RELAXED_SIZES = (200, 1200, 1400, 1600, 1800, 2000)
"""Numbers of requests for the two policies that need the relaxation, which takes many minutes."""
QUICK_SIZES, QUICK_SCALE = (30, 60, 90), 32
MIXTURE_SEED = 0
"""Seed of the mixture. There is one mixture, as in the paper."""
ALIKE = 0.05
"""Two latencies are nearly identical if they differ by at most this share of the larger."""

TABLE = ("sorted-lp", "sorted-f-swap", "lp-swap")
PAPER: Mapping[str, tuple[int, tuple[float, float, float]]] = {
    "uniform": (100, (9763.0, 9748.3, 9771.4)),
    "normal": (100, (9397.3, 9416.9, 9385.3)),
    "binomial": (100, (10943.0, 10696.7, 10665.7)),
    "exponential": (100, (6015.7, 6016.9, 6016.0)),
    "mixed": (200, (22133.2, 22100.1, 22128.2)),
}
"""Numbers of [W25] Table EC.1: requests, and average total latency in the order of `TABLE`."""
REFERENCE = "smallest-volume-first"
LEVEL, SPREAD = 0.05, 0.03
LARGEST_MEMORY = 2000
"""Largest M that is tried to explain a number of the paper: twenty times the stated M."""

Means = Mapping[int, Mapping[str, float]]
"""Mean latency in seconds, by number of requests and policy."""


def relaxed(instance: Instance, scale: int, method: Literal["auto", "lp", "lagrangian"]) -> Any:
    """Return the relaxation of an instance, with one thread.

    Lengths and M are first divided by ``scale``. Lengths are rounded up and M is rounded down. This
    is far quicker, but the order of the requests is coarser.
    """
    coarse = Instance.from_arrays(
        -(-instance.prompt_lengths // scale),
        -(-instance.output_lengths // scale),
        memory_limit=instance.memory_limit // scale,
    )
    return hindsight.relax(coarse, method=method, threads=1)


def policy_of(name: str, relaxation: Any) -> Policy | str:
    """Return the policy ``name``. The two policies that need it share the same ``relaxation``.

    All requests arrive at once, so both would solve the same one.
    """
    return make_policy(name, relaxation=lambda _: relaxation) if name in RELAXED else name


def latencies(task: tuple[int, int | None], given: Given) -> dict[str, tuple[float, float]]:
    """Run policies on the same requests. Return mean latencies (seconds, rounds) by policy."""
    count, scale = task
    prompts, outputs = mixture(np.random.default_rng(MIXTURE_SEED), given)
    limit = given.get("memory", MACHINE.memory_limit)
    instance = Instance.from_arrays(prompts[:count], outputs[:count], memory_limit=limit)
    relaxation = None
    if scale is not None:
        # The method is not "auto", so that all sizes are solved in the same way.
        relaxation = relaxed(instance, scale, "lagrangian" if scale == 1 else "lp")
    timed = Workload.from_instance(instance, seconds_of(given))
    found = {}
    for name in LABELS:
        if name not in RELAXED or relaxation is not None:
            seconds, rounds = (
                simulate(one, policy_of(name, relaxation), seed=MIXTURE_SEED).mean_latency
                for one in (timed, instance)
            )
            found[name] = (seconds, rounds)
    return found


@cache
def _measured(quick: bool, given: tuple[tuple[str, Any], ...], jobs: int) -> list[tuple[int, Any]]:
    """Return the latencies at all sizes. Both figures use them, so the result is cached."""
    sizes, with_relaxation = (QUICK_SIZES, QUICK_SIZES) if quick else (SIZES, RELAXED_SIZES)
    scale = QUICK_SCALE if quick else 1
    # The largest size is first, so that no process works on it alone at the end.
    tasks = [(n, scale if n in with_relaxation else None) for n in sorted(sizes, reverse=True)]
    found = Setting(jobs=jobs).map(partial(latencies, given=dict(given)), tasks)
    return sorted(zip([n for n, _ in tasks], found, strict=True))


def known(means: Means, names: Sequence[str]) -> Means:
    """Return the latencies at sizes at which all of ``names`` were measured, in rising order."""
    return {size: own for size, own in sorted(means.items()) if set(names) <= set(own)}


def alike(one: float, other: float) -> bool:
    """Return whether two latencies differ by at most the share `ALIKE` of the larger one."""
    return abs(one - other) <= ALIKE * max(one, other)


def figure_8_checks(means: Means) -> list[Statement]:
    """Check the statements of the paper about Figure 8."""

    def check(
        text: str, names: Sequence[str], holds: Callable[[Mapping[str, float]], bool]
    ) -> Statement:
        at = [holds(own) for own in known(means, names).values()]
        text = f"{text} at {sum(at)} of {len(at)} sizes"
        return Statement(text, at[-1] and 2 * sum(at) > len(at))

    below = ("sorted-f-swap", "sorted-f-quantile", "sorted-lp")
    return [
        check(
            "MC-SF above Sorted-F and Sorted-LP",
            ("mc-sf", *below),
            lambda at: at["mc-sf"] > max(at[name] for name in below),
        ),
        check(
            "Sorted-F (swap) below Sorted-F (quantile)",
            below[:2],
            lambda at: at["sorted-f-swap"] < at["sorted-f-quantile"],
        ),
        check(
            f"LP-Swap more than {ALIKE:.0%} below Sorted-LP",
            RELAXED,
            lambda at: at["lp-swap"] < (1 - ALIKE) * at["sorted-lp"],
        ),
        check(
            f"LP-Swap within {ALIKE:.0%} of Sorted-F (swap)",
            ("lp-swap", "sorted-f-swap"),
            lambda at: alike(at["lp-swap"], at["sorted-f-swap"]),
        ),
    ]


def figure_ec2_checks(means: Means) -> list[Statement]:
    """Check that both curves of Figure EC.2 almost coincide at each number of requests."""
    return [
        Statement(
            f"within {ALIKE:.0%} at {size:,} requests "
            f"({at['lp-swap'] / at['sorted-f-swap'] - 1:+.1%})",
            alike(at["lp-swap"], at["sorted-f-swap"]),
        )
        for size, at in known(means, ("sorted-f-swap", "lp-swap")).items()
    ]


def mean_latency(
    setting: Setting, names: Sequence[str], check: Callable[[Means], list[Statement]]
) -> Outcome:
    """Measure the mean latency of policies over the number of requests."""
    found = _measured(setting.quick, tuple(sorted(setting.given.items())), setting.jobs)
    means = {size: {name: own[0] for name, own in at.items()} for size, at in found}
    rows = [[size, name, *at[name]] for size, at in found for name in names if name in at]
    curves = {
        LABELS[name]: {size: [at[name]] for size, at in means.items() if name in at}
        for name in names
    }
    picture = lines(curves, "requests", "mean latency (s)", ax=new_axes(6.4, 3.6))
    return Outcome(("requests", "policy", "seconds", "rounds"), rows, picture, check(means))


def totals(task: tuple[str, int, int]) -> dict[str, float]:
    """Return the total latency of each policy, and two lower bounds that hold for any schedule."""
    family, n, seed = task
    instance: Instance = generate(family, seed=seed, n=n)
    relaxation = relaxed(instance, 1, "auto")
    found: dict[str, float] = {
        name: simulate(instance, policy_of(name, relaxation)).schedule.total_latency
        for name in (*TABLE, REFERENCE)
    }
    return {**found, "relaxation": relaxation.certified_bound, "volumes": volume_bound(instance)}


def matching_memory(instances: Sequence[Instance], total: float) -> int | None:
    """Return the largest M with which the mean total latency is at least ``total``.

    M is at most `LARGEST_MEMORY`, and the policy is `sorted-f-swap`. The result is None if even the
    smallest M that fits every request gives a lower total. Latency falls with M, except for small
    irregularities, so the result is found by bisection.
    """

    def average(limit: int) -> float:
        changed = [Instance(one.requests, limit) for one in instances]
        costs = [simulate(one, "sorted-f-swap").schedule.total_latency for one in changed]
        return float(np.mean(costs))

    low, high = max(int(one.peak_memories.max()) for one in instances), LARGEST_MEMORY
    if average(low) < total:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if average(middle) >= total else (low, middle - 1)
    return low


def table_ec1(setting: Setting) -> Outcome:
    """Measure the policies on all families of instances with all seeds."""
    seeds = range(2 if setting.quick else 5)
    sizes = {family: 12 if setting.quick else n for family, (n, _) in PAPER.items()}
    tasks = [(family, n, seed) for family, n in sizes.items() for seed in seeds]
    found = setting.map(totals, tasks)
    rows: list[list[Any]] = []
    checks: list[Statement] = []
    groups: dict[str, list[float]] = {LABELS[name]: [] for name in TABLE}
    groups["the paper's Sorted-LP"], groups["lower bound"] = [], []
    for place, (family, n) in enumerate(sizes.items()):
        own = found[place * len(seeds) : (place + 1) * len(seeds)]
        mean = {name: float(np.mean([one[name] for one in own])) for name in own[0]}
        (full, paper), memory = PAPER[family], None
        ours = [mean[name] for name in TABLE]
        if n == full:
            drawn: list[Instance] = [generate(family, seed=seed, n=n) for seed in seeds]
            memory = matching_memory(drawn, paper[1])
            near = all(abs(a - b) <= LEVEL * b for a, b in zip(ours, paper, strict=True))
            checks.append(Statement(f"{family} within {LEVEL:.0%} of the paper", near))
        text = f"{family} within {SPREAD:.0%} of one another"
        checks.append(Statement(text, max(ours) / min(ours) - 1 <= SPREAD))
        bounds = [mean["relaxation"], mean["volumes"]]
        for name, published in zip((*TABLE, REFERENCE), (*paper, None), strict=True):
            match = memory if name == "sorted-f-swap" else None
            rows.append([family, n, name, mean[name], published, *bounds, match])
        for label, value in zip(groups, (*ours, paper[0], bounds[0]), strict=True):
            groups[label].append(value)
    columns = ("family", "requests", "algorithm", "average", "paper")
    return Outcome(
        (*columns, "bound_relaxation", "bound_volumes", "memory_to_match"),
        rows,
        bars(groups, [*sizes], "average total latency (rounds)", log=True),
        checks,
    )


figure(
    "w25-figure-8",
    "MC-SF is worse than Sorted-F and Sorted-LP; swapping beats quantiles; LP-Swap is far better "
    "than Sorted-LP and nearly equal to Sorted-F (swap).",
    partial(mean_latency, names=[*LABELS], check=figure_8_checks),
    {"lmsys": SHORT, "arxiv": LONG},
    SERVING,
)
figure(
    "w25-figure-ec2",
    "the curves of Sorted-F (swap) and LP-Swap almost coincide.",
    partial(mean_latency, names=["sorted-f-swap", "lp-swap"], check=figure_ec2_checks),
    {"lmsys": SHORT, "arxiv": LONG},
    SERVING,
)
figure(
    "w25-table-ec1",
    "total latency of Sorted-LP, Sorted-F (swap) and LP-Swap differs little: uniform 9,763 / 9,748 "
    "/ 9,771, normal 9,397 / 9,417 / 9,385, binomial 10,943 / 10,697 / 10,666, exponential 6,016 / "
    "6,017 / 6,016, mixed 22,133 / 22,100 / 22,128.",
    table_ec1,
)
