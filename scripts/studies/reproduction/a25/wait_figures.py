"""[A25] Figures 7 and 8: WAIT against serving engines over arrival rates."""

from __future__ import annotations

from collections.abc import Sequence

from online.fluid.balance import PromptType
from online.fluid.wait_design import WaitPlan, batch_cap_thresholds, printed_batch_cap_thresholds
from studies.reproduction.declaration import Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

from .drawing import sweep_figure
from .machine import CONSTANTS, D0, D1, LARGE_CAP, MACHINE_CAUSE, SMALL_CAP
from .serving import (
    AS_SHIPPED,
    COLUMNS,
    Scheduler,
    Served,
    Traffic,
    Trial,
    baselines,
    compare,
    rows,
    serve,
)
from .verdicts import TIE, ahead, batches, best_leads, latencies, leads

LOW_DEMAND = (PromptType(1000, 10, 10), PromptType(1000, 10, 20))
HIGH_DEMAND = (PromptType(6000, 20, 100), PromptType(4000, 20, 200), PromptType(2000, 20, 300))
"""[A25] Section 6.1: arrival rate, prefill and decode length of each type."""

LOW_RATES = (500.0, 1000.0, 1500.0, 2000.0, 2500.0, 3000.0)
HIGH_RATES = (40.0, 80.0, 120.0, 160.0, 240.0, 480.0, 12000.0)
"""Prompts a second; those of the paper, 2,000 and 12,000, and below."""

SEEDS, LOW_PROMPTS, HIGH_PROMPTS = 3, 10_000, 6_000

CLAIM = "WAIT completes more tokens a second than vLLM and Sarathi at every arrival rate tested"


def wait_schedulers(types: Sequence[PromptType], cap: int) -> tuple[Scheduler, ...]:
    """WAIT with thresholds proportional to the rates, with the printed rule, and the baselines."""
    kinds = tuple(types)
    rules = {
        "WAIT": batch_cap_thresholds(kinds, cap),
        "WAIT, printed rule": printed_batch_cap_thresholds(kinds, cap),
    }
    return (
        *(
            Scheduler(
                label, "wait", {"thresholds": WaitPlan(kinds, numbers, D0, D1).as_parameter()}
            )
            for label, numbers in rules.items()
        ),
        *baselines(cap),
    )


def sweep(
    setting: Setting,
    types: tuple[PromptType, ...],
    schedulers: Sequence[Scheduler],
    rates: Sequence[float],
    seeds: int,
    prompts: int,
) -> tuple[list[Served], list[Served]]:
    """Runs at every rate with Equation (1), and at the highest with the roofline, one seed."""
    if setting.quick:
        rates, seeds, prompts = (rates[0], rates[-1]), 1, 300
    trials = [
        Trial(Traffic(types, rate, prompts, seed, setting.conditions), scheduler)
        for rate in rates
        for seed in range(seeds)
        for scheduler in schedulers
    ]
    checks = [
        Trial(Traffic(types, rates[-1], prompts, 0, setting.conditions), scheduler, "roofline")
        for scheduler in schedulers
    ]
    found = setting.map(serve, [*trials, *checks])
    return found[: len(trials)], found[len(trials) :]


def measure_wait(
    setting: Setting,
    types: tuple[PromptType, ...],
    rates: Sequence[float],
    cap: int,
    prompts: int,
    title: str,
) -> Outcome:
    """The comparison on one workload."""
    schedulers = wait_schedulers(types, cap)
    runs, checks = sweep(setting, types, schedulers, rates, SEEDS, prompts)
    points = compare(runs, "WAIT")
    thresholds, other = (
        ":".join(str(n) for n in scheduler.parameters["thresholds"].values())
        for scheduler in schedulers[:2]
    )
    others = (
        ("against Sarathi with its own 512 tokens", compare(runs, "WAIT", AS_SHIPPED)),
        (f"with the printed rule ({other})", compare(runs, "WAIT, printed rule")),
        ("with arithmetic counted at the highest rate (roofline)", compare(checks, "WAIT")),
    )
    statements = [
        Statement(f"ahead of both by more than {TIE:.0%} at {point.rate:g} a second", ahead(point))
        for point in points
    ]
    good = sum(each.holds for each in statements)
    return Outcome(
        COLUMNS,
        rows([*runs, *checks]),
        sweep_figure(runs, title),
        f"throughput against theirs: {leads(points)}; mean latency {latencies(points)}; ahead of "
        f"both at {good} of {len(points)} rates.",
        statements,
        "where the others keep up, differences are edge effects of a run that ends; "
        f"{batches(runs, 'WAIT')}. {CONSTANTS}; {cap:,} prompts a batch, thresholds {thresholds}. "
        f"{best_leads(others)}.",
    )


@register_reproduction(
    "a25-figure-7",
    "A25",
    "Figure 7",
    CLAIM,
    varies=("batch-time", "memory"),
    cause=MACHINE_CAUSE,
)
def figure_7(setting: Setting) -> Outcome:
    """Low demand: prefill 10, decode 10 and 20."""
    return measure_wait(
        setting,
        LOW_DEMAND,
        LOW_RATES,
        SMALL_CAP,
        LOW_PROMPTS,
        "low demand: prefill 10, decode 10 and 20 tokens",
    )


@register_reproduction("a25-figure-8", "A25", "Figure 8", CLAIM, varies=("batch-time", "memory"))
def figure_8(setting: Setting) -> Outcome:
    """High demand: prefill 20, decode 100, 200 and 300."""
    return measure_wait(
        setting,
        HIGH_DEMAND,
        HIGH_RATES,
        LARGE_CAP,
        HIGH_PROMPTS,
        "high demand: prefill 20, decode 100, 200 and 300 tokens",
    )
