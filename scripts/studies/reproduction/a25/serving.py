"""[A25] Figures 7, 8 and 11 to 14: WAIT and Nested WAIT compared with serving engines.

At rates at which all schedulers keep up, their throughputs differ only by effects of the end of a
run. The paper states no arrival rates for Figure 14, so the rates here are our choice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from instances import Workload
from instances.arrays import FloatArray, IntArray
from instances.generators.typed_arrivals import poisson_arrivals
from instances.problem.workload import poisson_times
from online.fluid.balance import PromptType, token_load
from online.fluid.nested_design import Segments, group, nested_thresholds
from online.fluid.wait_design import WaitPlan, batch_cap_thresholds
from online.pictures import new_axes
from online.policy_interface.specs import make_policy
from online.simulation.simulator import simulate
from studies.reproduction.figure import SERVING, Outcome, Setting, Statement, figure
from studies.reproduction.lengths import Given, seconds_of
from studies.reproduction.pictures import lines

from .lengths import conversations
from .machine import (
    CONVERSATION_SHARES,
    D0,
    D1,
    LARGE_CAP,
    MEMORY_LIMIT,
    SARATHI_CHUNK,
    SMALL_CAP,
    TIMES,
    TOKEN_CAP,
)

LOW_DEMAND = (PromptType(1000, 10, 10), PromptType(1000, 10, 20))
HIGH_DEMAND = (PromptType(6000, 20, 100), PromptType(4000, 20, 200), PromptType(2000, 20, 300))
"""Arrival rate, prefill and decode length of each type in [A25] Section 6.1."""
FOUR_LENGTHS = tuple(PromptType(length, 10, length) for length in (20, 40, 80, 160))
FOUR_PRINTED = (15, 14, 12, 8)
"""Four decode lengths of [A25] Section 6.2, with its proportions of rates, and its thresholds."""
TEN_LENGTHS = tuple(
    PromptType(share, 60, 50 * place) for place, share in enumerate(CONVERSATION_SHARES, start=1)
)
TEN_PRINTED = (66, 43, 32, 24, 17, 11, 7, 4, 2, 1)
"""Thresholds that [A25] Section 6.2 prints for ten decode lengths, distributed as conversations."""

LOW_RATES = (500.0, 1000.0, 1500.0, 2000.0, 2500.0, 3000.0)
HIGH_RATES = (40.0, 80.0, 120.0, 160.0, 240.0, 480.0, 12000.0)
FOUR_RATES = (75.0, 150.0, 225.0, 300.0, 375.0, 450.0)
CONVERSATION_RATES = (55.0, 110.0, 165.0, 220.0, 330.0, 550.0)
"""Arrival rates in prompts per second. They include all rates that the paper states."""

CHECKED_PROMPTS, PAPER_PROMPTS, CONVERSATIONS = 10_000, 50_000, 20_000
"""Prompts of a run: with the roofline model, in [A25] Section 6.2, and in the runs of Figure 14."""

WINDOW = (0.2, 0.8)
"""Part of a run over which throughput is measured, as shares of its time.

Over a whole run, throughput would depend on the latency of the last prompts.
"""
TIE = 0.01
"""Relative difference of throughputs below which two schedulers count as equal."""
MODEST_LATENCY = 1.0
"""Seconds that a prompt may take longer. The paper states about half a second."""
COMPARED = ("vLLM", "Sarathi")
"""Labels of the schedulers with which the paper's claims compare WAIT and Nested WAIT."""
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

Schedulers = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Policy and its parameters, by label in figure and table."""


@dataclass(frozen=True)
class Traffic:
    """Poisson arrivals of prompts of given types, or of conversations if there are no types.

    Attributes
    ----------
    types : tuple[PromptType, ...]
        Types of prompts. Their rates are scaled so that the sum is ``rate``.
    rate, prompts, seed : float, int, int
        Prompts per second, expected number of prompts (exact for conversations), and seed.
    """

    types: tuple[PromptType, ...]
    rate: float
    prompts: int
    seed: int = 0


Task = tuple[Traffic, str, str]
"""Traffic, label of the scheduler, and name of the time model."""


@lru_cache(maxsize=2)
def workload(traffic: Traffic, overrides: tuple[tuple[str, Any], ...]) -> Workload:
    """Return the arriving requests, which are the same for every scheduler."""
    given = dict(overrides)
    rng, limit = np.random.default_rng([25, traffic.seed]), given.get("memory", MEMORY_LIMIT)
    if traffic.types:
        total = sum(kind.arrival_rate for kind in traffic.types)
        types = [
            (traffic.rate * kind.arrival_rate / total, kind.prefill_length, kind.decode_length)
            for kind in traffic.types
        ]
        return poisson_arrivals(types, traffic.prompts / traffic.rate, memory_limit=limit, rng=rng)
    prompts, outputs = conversations(traffic.prompts, traffic.seed, given)
    times = poisson_times(rng, len(prompts), traffic.rate)
    return Workload(times, prompts, outputs, memory_limit=limit)


def serve(task: Task, schedulers: Schedulers, given: Given) -> list[Any]:
    """Run a scheduler on a workload, and return the row of the table (`COLUMNS`)."""
    traffic, label, model = task
    source = workload(traffic, tuple(sorted(given.items())))
    policy, parameters = schedulers[label]
    # A changed batch time replaces that of the paper's model, but not the roofline model.
    time = TIMES[model] if model == "roofline" else seconds_of(given, TIMES[model])
    run = simulate(
        source.replaced(batch_time=time), make_policy(policy, **parameters), prefill_rounds=1
    )
    span = float(source.arrival_times[-1] - source.arrival_times[0])
    return [
        model,
        traffic.rate,
        traffic.seed,
        label,
        float(source.output_lengths.sum()) / span,
        window_throughput(source.arrival_times, run.completion_times, source.output_lengths),
        float(run.mean_latency),
        float(np.quantile(run.latencies, 0.99)),
        run.evictions,
        float(run.rounds.batch_size.mean()),
    ]


def window_throughput(arrivals: FloatArray, completions: FloatArray, tokens: IntArray) -> float:
    """Return the decode tokens per second of prompts that complete in the `WINDOW` of a run."""
    begin = float(arrivals.min())
    span = float(completions.max()) - begin
    low, high = (begin + share * span for share in WINDOW)
    inside = (completions > low) & (completions <= high)
    return float(tokens[inside].sum()) / (high - low)


def baselines(cap: int) -> Schedulers:
    """Return the schedulers that WAIT is compared with, with at most ``cap`` prompts per batch.

    vLLM and Sarathi are those of [A25], with equal caps for all. Sarathi's own limit of 512 tokens
    per iteration is below a cap of 1,024 prompts, so Sarathi also runs with this limit. First come,
    first served has no cap.
    """
    sarathi = {
        label: ("sarathi", {"max_num_seqs": cap, "chunk_size": chunk})
        for label, chunk in (("Sarathi", TOKEN_CAP), ("Sarathi, 512", SARATHI_CHUNK))
    }
    vllm = {"max_num_seqs": cap, "max_num_batched_tokens": TOKEN_CAP}
    return {"vLLM": ("vllm-v0", vllm), **sarathi, "FCFS, no cap": ("fcfs-greedy", {})}


def wait_schedulers(types: Sequence[PromptType], cap: int) -> Schedulers:
    """Return WAIT with thresholds by several rules, and the schedulers to compare with.

    One rule has thresholds proportional to the rates. Another is the rule that [A25] prints.
    """
    kinds = tuple(types)
    rules = {
        "WAIT": batch_cap_thresholds(kinds, cap),
        "WAIT, printed rule": batch_cap_thresholds(kinds, cap, as_printed=True),
    }
    ours = {
        label: ("wait", {"thresholds": WaitPlan(kinds, numbers, D0, D1).as_parameter()})
        for label, numbers in rules.items()
    }
    return {**ours, **baselines(cap)}


def scaled(printed: Sequence[int], stages: Sequence[int], cap: int) -> tuple[int, ...]:
    """Return thresholds in proportion to ``printed``, each at least 1.

    A batch with its threshold of prompts at every stage (number of decoded tokens) has at most
    ``cap`` prompts. ``stages`` has the number of stages to which each threshold applies.
    """
    total = sum(n * length for n, length in zip(printed, stages, strict=True))
    return tuple(max(1, n * cap // total) for n in printed)


def filling(segments: Segments, types: Sequence[PromptType]) -> tuple[int, ...]:
    """Return thresholds of Nested WAIT whose batches fill the memory on average.

    The first is C / (mean footprint), rounded down. `nested_thresholds` gives the others. The cap
    on prompts is ignored.
    """
    rate = sum(kind.arrival_rate for kind in types)
    first = max(1, int(MEMORY_LIMIT * rate / token_load(types)))
    caps = range(1, first * sum(segments.stages) + 1)
    place = bisect_left(caps, first, key=lambda cap: capped(segments, cap)[0])
    return capped(segments, caps[place])


def capped(segments: Segments, cap: int) -> tuple[int, ...]:
    """Return thresholds of Nested WAIT by `nested_thresholds` with a cap on prompts in a batch."""
    return nested_thresholds(segments, D0, D1, batch_cap=cap).thresholds


def nested_schedulers(
    types: Sequence[PromptType], printed: Sequence[int], cap: int = LARGE_CAP
) -> Schedulers:
    """Return Nested WAIT with thresholds by three rules, and the `baselines` that have a cap.

    First come, first served has no cap and is left out: under overload it evicts requests in every
    iteration. With a queue of tens of thousands, distinguishing this from a livelock takes minutes.
    """
    segments = group(types)
    rules = {
        "Nested WAIT": capped(segments, cap),
        "Nested WAIT, printed ratio": scaled(printed, segments.stages, cap),
        "Nested WAIT, memory full": filling(segments, types),
    }
    ours = {
        label: ("nested-wait", {"thresholds": numbers, "segment_ends": segments.ends})
        for label, numbers in rules.items()
    }
    return {**ours, **{label: baselines(cap)[label] for label in [*baselines(cap)][:-1]}}


@dataclass(frozen=True)
class Point:
    """A scheduler compared with vLLM and Sarathi (baselines) at one arrival rate.

    Numbers are means over the seeds.

    Attributes
    ----------
    rate, lead : float
        Prompts per second, and throughput / (throughput of the better baseline) - 1.
    latency, baseline_latency : float
        Mean latency of the scheduler, and of the faster baseline, in seconds.
    """

    rate: float
    lead: float
    latency: float
    baseline_latency: float

    @property
    def is_ahead(self) -> bool:
        """Return whether the throughput exceeds that of both baselines by more than `TIE`."""
        return self.lead > TIE

    @property
    def is_faster(self) -> bool:
        """Return whether the mean latency is below that of both baselines."""
        return self.latency < self.baseline_latency

    @property
    def is_modestly_slower(self) -> bool:
        """Return whether the latency is at most `MODEST_LATENCY` above the better baseline's."""
        return self.latency - self.baseline_latency <= MODEST_LATENCY

    def __str__(self) -> str:
        return (
            f"{100 * self.lead:+.1f} %, {self.latency:.2f} s against {self.baseline_latency:.2f} s"
        )


def compare(rows: Sequence[Sequence[Any]], label: str) -> list[Point]:
    """Compare the scheduler ``label`` with the baselines at each arrival rate, in rising order."""
    points = []
    for rate in sorted({row[1] for row in rows}):

        def mean(name: str, column: int, rate: float = rate) -> float:
            own = [row[column] for row in rows if (row[1], row[3]) == (rate, name)]
            return float(np.mean(own))

        lead = min(mean(label, 5) / mean(name, 5) - 1 for name in COMPARED)
        points.append(Point(rate, lead, mean(label, 6), min(mean(name, 6) for name in COMPARED)))
    return points


Check = Callable[[Point], list[Statement]]


def ahead(point: Point) -> list[Statement]:
    """Return the statement that the throughput is ahead of both baselines."""
    text = f"ahead of both by more than {TIE:.0%} at {point.rate:g} a second ({point})"
    return [Statement(text, point.is_ahead)]


def ahead_and_faster(point: Point) -> list[Statement]:
    """Return one statement: throughput is ahead of both baselines and latency is lower."""
    text = f"ahead of both by more than {TIE:.0%} with lower latency at {point.rate:g} a second"
    return [Statement(f"{text} ({point})", point.is_ahead and point.is_faster)]


def each_apart(point: Point) -> list[Statement]:
    """Return two statements: throughput is ahead of both baselines, and latency is lower."""
    return [
        Statement(f"throughput ahead of both by more than {TIE:.0%} ({point})", point.is_ahead),
        Statement("mean latency below both", point.is_faster),
    ]


def ahead_at_modest_latency(point: Point) -> list[Statement]:
    """Return the statement that throughput is ahead of both baselines at little more latency."""
    text = (
        f"ahead of both by more than {TIE:.0%} with at most {MODEST_LATENCY:g} s more latency "
        f"at {point.rate:g} a second ({point})"
    )
    return [Statement(text, point.is_ahead and point.is_modestly_slower)]


def measure(
    setting: Setting,
    types: tuple[PromptType, ...],
    schedulers: Schedulers,
    rates: Sequence[float],
    seeds: int,
    prompts: int,
    check: Check,
) -> Outcome:
    """Measure all schedulers at every rate with the iteration time of [A25] Equation (1).

    At the highest rate also measure with the roofline model, with one seed.
    """
    if setting.quick:
        rates, seeds, prompts = sorted({rates[0], rates[-1]}), 1, 300
    few = min(prompts, CHECKED_PROMPTS) if len(rates) == 1 else prompts
    tasks: list[Task] = [
        (Traffic(types, rate, prompts, seed), label, "equation 1")
        for rate in rates
        for seed in range(seeds)
        for label in schedulers
    ]
    count = len(tasks)
    tasks += [(Traffic(types, rates[-1], few), label, "roofline") for label in schedulers]
    run = partial(serve, schedulers=schedulers, given=setting.given)
    rows = setting.map(run, tasks)
    axes = new_axes(7.6, 3.6, columns=2)
    for ax, column, y in zip(axes, (5, 6), ("tokens per second", "mean latency (s)"), strict=True):
        curves: dict[str, dict[float, list[float]]] = {label: {} for label in schedulers}
        for row in rows[:count]:
            curves[row[3]].setdefault(row[1], []).append(row[column])
        lines(curves, "prompts per second", y, ax=ax, log="xy")
    axes[0].get_legend().remove()
    points = compare(rows[:count], next(iter(schedulers)))
    checks = [one for point in points for one in check(point)]
    return Outcome(COLUMNS, rows, axes[0].figure, checks)


WAIT_CLAIM = (
    "WAIT completes more tokens a second than vLLM and Sarathi at every arrival rate tested"
)
NESTED_CLAIM = "Nested WAIT has higher throughput and lower latency than vLLM and Sarathi on"
CONVERSATION_CLAIM = (
    "on conversations Nested WAIT has higher throughput than vLLM and Sarathi, at about 0.5 s "
    "more latency a prompt"
)
for _number, _claim, _types, _schedulers, _rates, _seeds, _prompts, _check in (
    (
        7,
        WAIT_CLAIM,
        LOW_DEMAND,
        partial(wait_schedulers, LOW_DEMAND, SMALL_CAP),
        LOW_RATES,
        3,
        10_000,
        ahead,
    ),
    (
        8,
        WAIT_CLAIM,
        HIGH_DEMAND,
        partial(wait_schedulers, HIGH_DEMAND, LARGE_CAP),
        HIGH_RATES,
        3,
        6_000,
        ahead,
    ),
    (
        11,
        f"{NESTED_CLAIM} four decode lengths",
        FOUR_LENGTHS,
        partial(nested_schedulers, FOUR_LENGTHS, FOUR_PRINTED),
        FOUR_RATES,
        3,
        6_000,
        ahead_and_faster,
    ),
    *(
        (
            number,
            f"{NESTED_CLAIM} ten decode lengths, {rate:g} queries a second",
            TEN_LENGTHS,
            partial(nested_schedulers, TEN_LENGTHS, TEN_PRINTED),
            (rate,),
            1,
            PAPER_PROMPTS,
            each_apart,
        )
        for number, rate in ((12, 55.0), (13, 550.0))
    ),
    (
        14,
        CONVERSATION_CLAIM,
        (),
        partial(nested_schedulers, TEN_LENGTHS, TEN_PRINTED),
        CONVERSATION_RATES,
        1,
        CONVERSATIONS,
        ahead_at_modest_latency,
    ),
):

    def _figure(
        setting: Setting,
        make: Callable[[], Schedulers] = _schedulers,
        rest: tuple[Any, ...] = (_types, _rates, _seeds, _prompts, _check),
    ) -> Outcome:
        types, rates, seeds, prompts, check = rest
        return measure(setting, types, make(), rates, seeds, prompts, check)

    figure(
        f"a25-figure-{_number}",
        _claim,
        _figure,
        {} if _types else {"lmsys": CONVERSATIONS},
        SERVING if not _types else SERVING[1:],
    )
