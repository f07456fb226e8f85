"""Schedulers on the machine of [A25] Section 6: throughput and latency over arrival rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from instances import Workload, generate
from instances.arrays import FloatArray, IntArray
from instances.generators.typed_arrivals import poisson_arrivals
from online.fluid.balance import PromptType
from online.policy_interface.specs import make_policy
from online.simulation.simulator import simulate
from studies.reproduction.conditions import OWN, Conditions
from studies.reproduction.lengths import drawn_lengths

from .machine import MEMORY_LIMIT, SARATHI_CHUNK, TIMES, TOKEN_CAP

CONVERSATION_SHARES = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1)
"""Relative arrival rates of ten bins of 50 output tokens ([A25] Section 6.2)."""

LONGEST_PROMPT, LONGEST_OUTPUT = 4095, 500
"""Tokens; a context holds 4,096, and [A25] Section 6.2 bins outputs of 1 to 500."""

WINDOW = (0.2, 0.8)
"""Share of a run, from first arrival to last completion, over which throughput is taken.

A whole run would charge a scheduler with the latency of its last prompts.
"""


@dataclass(frozen=True)
class Scheduler:
    """A policy with its parameters, under the label of figure and table."""

    label: str
    policy: str
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Traffic:
    """Poisson arrivals of typed prompts, or of synthetic conversations where no types are given.

    Attributes
    ----------
    types : tuple[PromptType, ...]
        Their rates in proportion; scaled to ``rate``.
    rate : float
        Prompts a second.
    prompts : int
        Expected number (exact for conversations).
    """

    types: tuple[PromptType, ...]
    rate: float
    prompts: int
    seed: int
    given: Conditions = OWN


@dataclass(frozen=True)
class Trial:
    """A run to be made."""

    traffic: Traffic
    scheduler: Scheduler
    time: str = "equation 1"


@dataclass(frozen=True)
class Served:
    """Result of a run.

    Attributes
    ----------
    offered, throughput : float
        Decode tokens a second, arrived and completed (`window_throughput`).
    mean_latency, p99_latency : float
        Seconds from arrival to completion.
    evictions : int
        In all.
    mean_batch : float
        Prompts that advance in an iteration.
    latency_quantiles : tuple[float, ...]
        Of 0, 1/200, .., 1, seconds.
    """

    trial: Trial
    offered: float
    throughput: float
    mean_latency: float
    p99_latency: float
    evictions: int
    mean_batch: float
    latency_quantiles: tuple[float, ...]


def baselines(cap: int) -> tuple[Scheduler, ...]:
    """Return [A25]'s baselines, with ``cap`` prompts a batch, and uncapped first come first served.

    The first two are the paper's: equal caps for all. Sarathi's own 512 tokens an iteration are
    below 1,024 prompts, so it is run with both.
    """
    return (
        Scheduler("vLLM", "vllm-v0", {"max_num_seqs": cap, "max_num_batched_tokens": TOKEN_CAP}),
        Scheduler("Sarathi", "sarathi", {"max_num_seqs": cap, "chunk_size": TOKEN_CAP}),
        Scheduler("Sarathi, 512", "sarathi", {"max_num_seqs": cap, "chunk_size": SARATHI_CHUNK}),
        Scheduler(UNCAPPED, "fcfs-greedy"),
    )


COMPARED = ("vLLM", "Sarathi")
"""Labels of the baselines on which a verdict rests."""

UNCAPPED = "FCFS, no cap"
"""Label of the scheduler without a cap on prompts, drawn for comparison only."""

AS_SHIPPED = ("vLLM", "Sarathi, 512")
"""The same with Sarathi's own budget of tokens an iteration."""

KEEPS_UP = 0.98
"""Share of what arrives that a scheduler completes that is not overloaded."""


def conversations(count: int, seed: int, given: Conditions = OWN) -> tuple[IntArray, IntArray]:
    """Prompts and outputs of ``count`` conversations with outputs of at most 500.

    Raises
    ------
    FileFormatError
        A reader's file holds fewer of them.
    """
    source = given.conversations("lmsys-like")
    if not isinstance(source, str):
        rng = np.random.default_rng([25, seed, 1])
        return drawn_lengths(source, rng, count, (LONGEST_PROMPT, LONGEST_OUTPUT))
    # One in fifty outputs is longer.
    prompts, outputs = any_conversations(count + count // 10 + 50, seed, given)
    kept = np.flatnonzero(outputs <= LONGEST_OUTPUT)[:count]
    return prompts[kept], outputs[kept]


def any_conversations(count: int, seed: int, given: Conditions = OWN) -> tuple[IntArray, IntArray]:
    """Prompts and outputs of ``count`` conversations of any length."""
    source = given.conversations("lmsys-like")
    if source == "lmsys-like":
        drawn = generate("lmsys-like", seed=seed, n=count)
        return drawn.prompt_lengths, drawn.output_lengths
    rng = np.random.default_rng([25, seed, 1])
    return drawn_lengths(source, rng, count, (LONGEST_PROMPT, LONGEST_PROMPT))


@lru_cache(maxsize=2)
def workload(traffic: Traffic) -> Workload:
    """The arrivals, the same for every scheduler."""
    rate = traffic.rate
    limit = traffic.given.memory_limit(MEMORY_LIMIT)
    if traffic.types:
        total = sum(kind.arrival_rate for kind in traffic.types)
        types = [
            (rate * kind.arrival_rate / total, kind.prefill_length, kind.decode_length)
            for kind in traffic.types
        ]
        rng = np.random.default_rng([25, traffic.seed])
        return poisson_arrivals(types, traffic.prompts / rate, memory_limit=limit, rng=rng)
    prompts, outputs = conversations(traffic.prompts, traffic.seed, traffic.given)
    rng = np.random.default_rng([25, traffic.seed])
    times = np.cumsum(rng.exponential(1.0, len(prompts))) / rate
    return Workload(times, prompts, outputs, memory_limit=limit)


def serve(trial: Trial) -> Served:
    """Make the run.

    Raises
    ------
    IncompleteRunError
        Some prompt was never served.
    """
    source = workload(trial.traffic)
    policy = make_policy(trial.scheduler.policy, **trial.scheduler.parameters)
    # The second opinion stays what it is.
    own = TIMES[trial.time]
    time = own if trial.time == "roofline" else trial.traffic.given.seconds(own)
    run = simulate(source.with_batch_time(time), policy, prefill_rounds=1)
    mean = run.mean_latency
    grid = np.linspace(0, 1, 201)
    span = float(source.arrival_times[-1] - source.arrival_times[0])
    stretches = run.stretches
    return Served(
        trial,
        offered=float(source.output_lengths.sum()) / span,
        throughput=window_throughput(run.arrival_times, run.completion_times, run.output_lengths),
        mean_latency=float(mean),
        p99_latency=float(np.quantile(run.latencies, 0.99)),
        evictions=run.evictions,
        mean_batch=float((stretches.batch_size * stretches.rounds).sum() / run.rounds_run),
        latency_quantiles=tuple(np.quantile(run.latencies, grid).tolist()),
    )


def window_throughput(arrivals: FloatArray, completions: FloatArray, tokens: IntArray) -> float:
    """Decode tokens of prompts completed in the `WINDOW` of a run, a second of it.

    Parameters
    ----------
    arrivals, completions : float64 array
        Seconds, shape (n,).
    tokens : int64 array
        Decode lengths, shape (n,).
    """
    begin = float(arrivals.min())
    span = float(completions.max()) - begin
    low, high = (begin + share * span for share in WINDOW)
    inside = (completions > low) & (completions <= high)
    return float(tokens[inside].sum()) / (high - low)


@dataclass(frozen=True)
class Point:
    """Means over the seeds at one arrival rate, of a scheduler against the compared baselines.

    Attributes
    ----------
    leads : tuple[float, ...]
        Throughput over that of each baseline, less 1.
    latency : float
        Mean latency, seconds.
    baseline_latencies : tuple[float, ...]
        Of each baseline.
    keeps_up : bool
        The better baseline completes at least 98 % of what arrives.
    """

    rate: float
    leads: tuple[float, ...]
    latency: float
    baseline_latencies: tuple[float, ...]
    keeps_up: bool

    @property
    def lead(self) -> float:
        """Over the better baseline."""
        return min(self.leads)

    @property
    def baseline_latency(self) -> float:
        """Return the mean latency of the faster baseline."""
        return min(self.baseline_latencies)


def compare(runs: Sequence[Served], label: str, baselines: Sequence[str] = COMPARED) -> list[Point]:
    """Return a `Point` for each arrival rate, rising: ``label`` against the baselines."""
    points = []
    for rate in sorted({run.trial.traffic.rate for run in runs}):
        here = [run for run in runs if run.trial.traffic.rate == rate]
        throughput, latency = _means(here, "throughput"), _means(here, "mean_latency")
        best = max(throughput[name] for name in baselines)
        points.append(
            Point(
                rate,
                tuple(throughput[label] / throughput[name] - 1 for name in baselines),
                latency[label],
                tuple(latency[name] for name in baselines),
                best >= KEEPS_UP * float(np.mean([run.offered for run in here])),
            )
        )
    return points


def _means(runs: Sequence[Served], figure: str) -> dict[str, float]:
    labels = {run.trial.scheduler.label for run in runs}
    return {
        label: float(
            np.mean([getattr(run, figure) for run in runs if run.trial.scheduler.label == label])
        )
        for label in labels
    }


COLUMNS = (
    "time_model",
    "arrival_rate",
    "seed",
    "scheduler",
    "offered_tokens_per_second",
    "tokens_per_second",
    "mean_latency",
    "p99_latency",
    "evictions",
    "mean_batch",
)


def rows(runs: Sequence[Served]) -> list[tuple[Any, ...]]:
    """The runs under `COLUMNS`."""
    return [
        (
            run.trial.time,
            run.trial.traffic.rate,
            run.trial.traffic.seed,
            run.trial.scheduler.label,
            run.offered,
            run.throughput,
            run.mean_latency,
            run.p99_latency,
            run.evictions,
            run.mean_batch,
        )
        for run in runs
    ]
