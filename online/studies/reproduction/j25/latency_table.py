"""[J25] Table 1: mean latency of its algorithms in continuous time, beside the paper's seconds.

The paper draws 1,000 conversations of LMSYS-Chat-1M, lets them arrive at rate 50 a second, and
takes batch times from Vidur for Llama-2-70B on two A100s, M = 16,492. Two things differ here,
and seconds are therefore not comparable, only the order of the algorithms:

- Lengths are synthetic: log-normal with the mean and median word counts that [J25] Section 5.2
  states (prompts 40.62 and 11, outputs 85.32 and 45), rounded up, drawn independently of each
  other. The data set is not part of this package; its prompts and outputs are correlated and its
  tails are another's.
- Batch times are the affine fit `LLAMA_2_70B_2XA100`, off by 5 to 12 % from the profiles that
  the paper's simulator interpolates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances import PoissonArrivals, Workload
from instances.arrays import IntArray
from instances.generators.length_laws import draw_lengths
from instances.generators.synthetic_traces import PublishedLengths
from instances.validation import as_integer
from online.batch_time import LLAMA_2_70B_2XA100, BatchTime
from online.policy_interface.policy import make_policy
from online.simulation.simulator import simulate

PROMPT_MEAN, PROMPT_MEDIAN = 40.62, 11.0
OUTPUT_MEAN, OUTPUT_MEDIAN = 85.32, 45.0
LONGEST = 2048
"""Longest prompt and longest output, tokens: a conversation beyond is cut, as a context is."""


@dataclass(frozen=True, slots=True)
class Line:
    """An algorithm of [J25] Table 1 and the paper's seconds: average, std. dev., max, min."""

    label: str
    policy: str
    parameters: Mapping[str, Any]
    paper: tuple[float, float, float, float]


PAPER_LINES = (
    Line("MC-SF", "mc-sf", {}, (32.112, 0.354, 33.097, 31.505)),
    Line("MC-Benchmark", "mc-benchmark", {}, (46.472, 0.310, 47.135, 45.838)),
    Line("alpha=0.3", "alpha-protection", {"alpha": 0.3}, (51.933, 0.324, 52.532, 51.204)),
    Line("alpha=0.25", "alpha-protection", {"alpha": 0.25}, (51.046, 0.351, 51.757, 50.279)),
    Line(
        "alpha=0.2, beta=0.2",
        "alpha-beta-clearing",
        {"alpha": 0.2, "beta": 0.2},
        (50.401, 0.343, 51.035, 49.700),
    ),
    Line(
        "alpha=0.2, beta=0.1",
        "alpha-beta-clearing",
        {"alpha": 0.2, "beta": 0.1},
        (50.395, 0.360, 51.083, 49.586),
    ),
    Line(
        "alpha=0.1, beta=0.2",
        "alpha-beta-clearing",
        {"alpha": 0.1, "beta": 0.2},
        (53.393, 1.457, 56.357, 49.488),
    ),
    Line(
        "alpha=0.1, beta=0.1",
        "alpha-beta-clearing",
        {"alpha": 0.1, "beta": 0.1},
        (50.862, 0.946, 53.978, 49.086),
    ),
)


@dataclass(frozen=True, slots=True)
class Simulated:
    """Mean latencies over the seeds, in seconds.

    Attributes
    ----------
    average, standard_deviation, largest, smallest : over the completed runs; NaN without any.
        The deviation is the sample's, and 0 for one run.
    failed : runs that never served every request, which enter no figure.
    evictions : per run, mean.
    """

    line: Line
    seeds: int
    average: float
    standard_deviation: float
    largest: float
    smallest: float
    failed: int
    evictions: float


def conversation_lengths(rng: np.random.Generator, count: int) -> tuple[IntArray, IntArray]:
    """Synthetic prompts and outputs with the means and medians of [J25] Section 5.2.

    Each is a lognormal rounded and cut at `LONGEST`, whose parameters are fitted to meet both.
    """
    prompts, outputs = (
        draw_lengths(rng, PublishedLengths(mean, median, LONGEST).law(), count)
        for mean, median in ((PROMPT_MEAN, PROMPT_MEDIAN), (OUTPUT_MEAN, OUTPUT_MEDIAN))
    )
    return prompts, outputs


def conversation_workload(count: int, arrival_rate: float, seed: int) -> Workload:
    """Synthetic conversations at Poisson arrivals, on the capacity of [J25]."""
    rng = np.random.default_rng(as_integer(seed, None, "seed", minimum=0))
    prompts, outputs = conversation_lengths(rng, count)
    times = PoissonArrivals(arrival_rate).draw(rng, count)
    limit = LLAMA_2_70B_2XA100.memory_limit
    return Workload(
        times,
        prompts,
        outputs,
        memory_limit=limit,
        name=f"synthetic-conversations[n={count},rate={arrival_rate:g},seed={seed}]",
    )


def latency_table(
    requests: int = 1000,
    arrival_rate: float = 50.0,
    seeds: int = 50,
    lines: Sequence[Line] = PAPER_LINES,
    batch_time: BatchTime = LLAMA_2_70B_2XA100.batch_time,
) -> Iterator[Simulated]:
    """Simulate each line on the same workloads, seeds 0, 1, ..; lines come as they are done."""
    workloads = [conversation_workload(requests, arrival_rate, seed) for seed in range(seeds)]
    for line in lines:
        means: list[float] = []
        evictions = 0
        for seed, workload in enumerate(workloads):
            policy = make_policy(line.policy, **line.parameters)
            run = simulate(workload, policy, seed=seed, batch_time=batch_time)
            evictions += run.evictions
            if run.status == "completed":
                means.append(run.mean_latency)
        nothing = float("nan")
        yield Simulated(
            line,
            seeds,
            float(np.mean(means)) if means else nothing,
            (float(np.std(means, ddof=1)) if len(means) > 1 else 0.0) if means else nothing,
            max(means, default=nothing),
            min(means, default=nothing),
            seeds - len(means),
            evictions / seeds,
        )
