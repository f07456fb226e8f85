"""Simulations that [A25] makes claims about, each as rows for a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances import Workload
from instances.arrays import FloatArray
from instances.batch_time.models import IterationTime
from instances.generators.typed_arrivals import poisson_arrivals
from online.fluid.balance import PromptType, equilibrium
from online.fluid.nested_design import NestedPlan, group
from online.fluid.wait_design import WaitPlan
from online.policies.a25.greedy import GreedyFirstComeFirstServed
from online.policy_interface.policy import Policy
from online.policy_interface.specs import make_policy
from online.simulation.run import Run
from online.simulation.simulator import simulate

EXAMPLE_2 = (PromptType(4, 1, 1),)
"""[A25] Example 2: M* = 12, DT* = 1 with d0 + 12 d1 = 1."""

EXAMPLE_2_TIME = IterationTime(0.4, 0.05)

THREE_LENGTHS = (PromptType(3, 10, 4), PromptType(2, 10, 8), PromptType(1, 10, 16))
"""Three output lengths for Nested WAIT; with `THREE_LENGTHS_PLAN`, (12) holds strictly."""

THREE_LENGTHS_PLAN = NestedPlan(group(THREE_LENGTHS), (12, 7, 3), 1.0, 0.0005)

CONVERSATION_SHARES = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1)
"""Relative arrival rates of ten bins of 50 output tokens ([A25] Section 6.2)."""


def draw(types: Sequence[PromptType], horizon: float, memory_limit: int, seed: int) -> Workload:
    """Poisson arrivals of a workload, from the seed alone."""
    return poisson_arrivals(
        [(kind.arrival_rate, kind.prefill_length, kind.decode_length) for kind in types],
        horizon,
        memory_limit=memory_limit,
        rng=np.random.default_rng([25, seed]),
    )


def serve(source: Workload, policy: Policy | str, time: IterationTime) -> Run:
    """Simulate in [A25]'s count of iterations."""
    return simulate(source.with_batch_time(time), policy, prefill_rounds=1)


def throughput_gaps(
    types: Sequence[PromptType],
    policy: Policy,
    time: IterationTime,
    memory_limit: int,
    horizons: Sequence[float],
    seeds: Sequence[int],
) -> FloatArray:
    """Decode tokens a second short of what arrived, shape (seeds, horizons).

    At each horizon T: (decode tokens of prompts that arrived by T, less those of prompts completed
    by T) / T. Its expectation is Thr* less the throughput of [A25] Section 4.3, with less noise
    than that of a simulated throughput. All horizons come from one run; what is served once
    arrivals have ended and the policy no longer waits for company does not count.
    """
    ends = np.asarray(horizons, dtype=np.float64)
    gaps = np.empty((len(seeds), len(ends)))
    for row, seed in enumerate(seeds):
        source = draw(types, float(ends.max()), memory_limit, seed)
        run = serve(source, policy, time)
        tokens = source.output_lengths
        done = run.completion_times.copy()
        if run.drain_round is not None:
            done[run.completion_rounds > run.drain_round] = np.inf
        for column, end in enumerate(ends):
            arrived = tokens[run.arrival_times <= end].sum()
            gaps[row, column] = (arrived - tokens[done <= end].sum()) / end
    return gaps


@dataclass(frozen=True)
class Exponent:
    """Slope of log(mean gap) over log(T), with a 95 % bootstrap interval over the seeds."""

    value: float
    low: float
    high: float


def fit_exponent(
    horizons: Sequence[float], gaps: FloatArray, *, resamples: int = 2000, seed: int = 0
) -> Exponent:
    """Least squares on the means; whole seeds are resampled, as one run gives all horizons."""
    x = np.log(np.asarray(horizons, dtype=np.float64))
    x -= x.mean()

    def slope(sample: FloatArray) -> float:
        return float(x @ np.log(sample.mean(axis=0)) / (x @ x))

    rng = np.random.default_rng(seed)
    rows = len(gaps)
    slopes = [slope(gaps[rng.integers(0, rows, rows)]) for _ in range(resamples)]
    low, high = np.quantile(slopes, [0.025, 0.975])
    return Exponent(slope(gaps), float(low), float(high))


@dataclass(frozen=True)
class Gap:
    """Mean gap to the fluid throughput at one horizon."""

    case: str
    horizon: float
    mean_gap: float
    standard_error: float
    fluid_throughput: float


def measure_gaps(
    case: GapCase, horizons: Sequence[float], seeds: Sequence[int]
) -> tuple[list[Gap], Exponent | None]:
    """The gaps of one case, and the exponent where there are two horizons or more."""
    gaps = throughput_gaps(case.types, case.policy, case.time, case.memory_limit, horizons, seeds)
    throughput = equilibrium(case.types, case.time.d0, case.time.d1).throughput
    errors = gaps.std(axis=0, ddof=1) / len(seeds) ** 0.5
    rows = [
        Gap(case.label, horizon, float(mean), float(error), throughput)
        for horizon, mean, error in zip(horizons, gaps.mean(axis=0), errors, strict=True)
    ]
    return rows, fit_exponent(horizons, gaps) if len(horizons) > 1 else None


@dataclass(frozen=True)
class GapCase:
    """A policy on a workload, and the exponent of T that [A25] gives for the gap."""

    label: str
    types: tuple[PromptType, ...]
    policy: Policy
    time: IterationTime
    memory_limit: int
    order: float


def gap_cases() -> list[GapCase]:
    """WAIT at C = M* and with drift, Nested WAIT with drift, greedy FCFS at C = M*."""
    critical = WaitPlan(EXAMPLE_2, (4,), EXAMPLE_2_TIME.d0, EXAMPLE_2_TIME.d1)
    strict = WaitPlan(EXAMPLE_2, (5,), EXAMPLE_2_TIME.d0, EXAMPLE_2_TIME.d1)
    nested = THREE_LENGTHS_PLAN
    nested_memory = int(np.ceil(nested.memory_requirement(16_000, 0.01).total))
    return [
        GapCase(
            "wait, C = M*",
            EXAMPLE_2,
            make_policy("wait", thresholds=critical.as_parameter()),
            EXAMPLE_2_TIME,
            critical.batch_memory,
            -0.5,
        ),
        GapCase(
            "wait, strict",
            EXAMPLE_2,
            make_policy("wait", thresholds=strict.as_parameter()),
            EXAMPLE_2_TIME,
            strict.batch_memory,
            -1.0,
        ),
        GapCase(
            "nested-wait, strict",
            THREE_LENGTHS,
            nested_policy(nested),
            IterationTime(nested.d0, nested.d1),
            nested_memory,
            -1.0,
        ),
        GapCase(
            "fcfs-greedy, C = M*",
            EXAMPLE_2,
            GreedyFirstComeFirstServed(),
            EXAMPLE_2_TIME,
            critical.batch_memory,
            0.0,
        ),
    ]


def nested_policy(plan: NestedPlan) -> Policy:
    """The policy with the thresholds of a plan."""
    return make_policy("nested-wait", thresholds=plan.thresholds, segment_ends=plan.segments.ends)


@dataclass(frozen=True)
class Load:
    """Mean latency of the prompts that arrive in [0, T]."""

    policy: str
    load: float
    memory_load: float
    horizon: float
    mean_latency: float
    standard_error: float


def latency_under_load(
    load: float, horizons: Sequence[float], seeds: Sequence[int], memory_limit: int = 48
) -> list[Load]:
    """Mean latency over the horizon on both sides of [A25] Proposition 1, for WAIT and greedy FCFS.

    Lengths of Example 2 with arrival rate load / (d1 S); ``memory_load`` is lambda S (d1 + d0 / C).
    """
    time = EXAMPLE_2_TIME
    footprint = EXAMPLE_2[0].footprint
    rate = load / (time.d1 * footprint)
    types = (PromptType(rate, 1, 1),)
    policies: list[Policy] = [
        make_policy("wait", thresholds=memory_limit // footprint),
        GreedyFirstComeFirstServed(),
    ]
    rows = []
    for policy in policies:
        for horizon in horizons:
            means = []
            for seed in seeds:
                run = serve(draw(types, horizon, memory_limit, seed), policy, time)
                means.append(run.mean_latency)
            rows.append(
                Load(
                    policy.name,
                    load,
                    rate * footprint * (time.d1 + time.d0 / memory_limit),
                    horizon,
                    float(np.mean(means)),
                    float(np.std(means, ddof=1) / len(means) ** 0.5),
                )
            )
    return rows


@dataclass(frozen=True)
class MemoryUse:
    """Memory use of a run of Nested WAIT."""

    memory_limit: int
    seed: int
    peak_memory: int
    evictions: int


def nested_memory_use(
    types: Sequence[PromptType],
    plan: NestedPlan,
    memory_limit: int,
    horizon: float,
    seeds: Sequence[int],
) -> list[MemoryUse]:
    """Peak memory and evictions of Nested WAIT; an overflow shows as an eviction."""
    policy = nested_policy(plan)
    rows = []
    for seed in seeds:
        source = draw(types, horizon, memory_limit, seed)
        run = serve(source, policy, IterationTime(plan.d0, plan.d1))
        peak = int(run.memory_profile().max(initial=0))
        rows.append(MemoryUse(memory_limit, seed, peak, run.evictions))
    return rows
