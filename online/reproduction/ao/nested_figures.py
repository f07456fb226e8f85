"""[A25] Figures 11 to 14: Nested WAIT against serving engines."""

from __future__ import annotations

from collections.abc import Sequence

from online.fluid import PromptType, group, nested_thresholds
from online.fluid_experiments import CONVERSATION_SHARES
from online.reproduction.declaration import Outcome, Setting, register_reproduction

from .drawing import load_figure, sweep_figure
from .machine import CONSTANTS, D0, D1, LARGE_CAP
from .serving import COLUMNS, Scheduler, Traffic, Trial, baselines, compare, rows, serve
from .verdicts import (
    MODEST_LATENCY,
    TIE,
    ahead,
    by_share,
    faster,
    latencies,
    leads,
    modestly_slower,
)
from .wait_figures import sweep

FOUR_LENGTHS = tuple(PromptType(length, 10, length) for length in (20, 40, 80, 160))
FOUR_PRINTED = (15, 14, 12, 8)
"""[A25] Section 6.2: rates in proportion to the decode lengths, and the printed thresholds."""

TEN_LENGTHS = tuple(
    PromptType(share, 60, 50 * place) for place, share in enumerate(CONVERSATION_SHARES, start=1)
)
TEN_PRINTED = (66, 43, 32, 24, 17, 11, 7, 4, 2, 1)
"""[A25] Section 6.2: ten decode lengths in the shares of the conversations; printed thresholds."""

FOUR_RATES = (75.0, 150.0, 225.0, 300.0, 375.0, 450.0)
CONVERSATION_RATES = (55.0, 110.0, 165.0, 220.0, 330.0, 550.0)
"""Prompts a second; the paper's, where it has one, are among them."""

PRINTED = "Nested WAIT, printed ratio"
SEEDS, PROMPTS = 3, 10_000
PAPER_PROMPTS = 50_000
"""[A25] Section 6.2."""


def scaled(printed: Sequence[int], stages: Sequence[int], cap: int) -> tuple[int, ...]:
    """The printed ratio with at most ``cap`` prompts over all stages, rounded down, at least 1."""
    total = sum(n * length for n, length in zip(printed, stages, strict=True))
    return tuple(max(1, n * cap // total) for n in printed)


def nested_schedulers(
    types: Sequence[PromptType], printed: Sequence[int], cap: int
) -> tuple[Scheduler, ...]:
    """Nested WAIT with a margin, in the printed ratio, and the baselines."""
    segments = group(types)
    rules = {
        "Nested WAIT": nested_thresholds(segments, D0, D1, batch_cap=cap).thresholds,
        PRINTED: scaled(printed, segments.stages, cap),
    }
    return (
        *(
            Scheduler(label, "nested-wait", {"thresholds": numbers, "segment_ends": segments.ends})
            for label, numbers in rules.items()
        ),
        *baselines(cap),
    )


def thresholds_of(schedulers: Sequence[Scheduler]) -> tuple[str, str]:
    """The two rules' thresholds, as text."""
    first, second = (
        ":".join(str(n) for n in scheduler.parameters["thresholds"]) for scheduler in schedulers[:2]
    )
    return first, second


@register_reproduction(
    "a25-figure-11",
    "A25",
    "Figure 11",
    "Nested WAIT has higher throughput and lower latency than vLLM and Sarathi "
    "on four decode lengths",
)
def figure_11(setting: Setting) -> Outcome:
    """Prefill 10, decode 20, 40, 80 and 160."""
    schedulers = nested_schedulers(FOUR_LENGTHS, FOUR_PRINTED, LARGE_CAP)
    runs, checks = sweep(setting, FOUR_LENGTHS, schedulers, FOUR_RATES, SEEDS, PROMPTS)
    points = compare(runs, "Nested WAIT")
    check = compare(checks, "Nested WAIT")[0]
    ours, printed = thresholds_of(schedulers)
    good = [ahead(point) and faster(point) for point in points]
    return Outcome(
        COLUMNS,
        rows([*runs, *checks]),
        sweep_figure(runs, "prefill 10, decode 20, 40, 80 and 160 tokens in shares 1:2:4:8"),
        f"throughput against theirs: {leads(points)}; mean latency {latencies(points)}; better in "
        f"both at {sum(good)} of {len(good)} rates.",
        by_share(good),
        f"the rule: throughput ahead of both by more than {TIE:.0%} and lower mean latency at "
        f"every rate, in part at some. {CONSTANTS}; {LARGE_CAP:,} prompts a batch, thresholds "
        f"{ours}; in the printed ratio, {printed}, {leads(compare(runs, PRINTED))}; with "
        f"arithmetic counted (roofline) {leads([check])}.",
    )


def measure_ten_lengths(setting: Setting, rate: float) -> Outcome:
    """Ten decode lengths at one rate."""
    schedulers = nested_schedulers(TEN_LENGTHS, TEN_PRINTED, LARGE_CAP)
    prompts = 300 if setting.quick else PAPER_PROMPTS
    traffic = Traffic(TEN_LENGTHS, rate, prompts, 0)
    checked = Traffic(TEN_LENGTHS, rate, min(prompts, PROMPTS), 0)
    trials = [Trial(traffic, scheduler) for scheduler in schedulers]
    checks = [Trial(checked, scheduler, "roofline") for scheduler in schedulers]
    found = setting.map(serve, [*trials, *checks])
    runs, others = found[: len(trials)], found[len(trials) :]
    point = compare(runs, "Nested WAIT")[0]
    check = compare(others, "Nested WAIT")[0]
    second = compare(runs, PRINTED)[0]
    ours, printed = thresholds_of(schedulers)
    good = [ahead(point), faster(point)]
    return Outcome(
        COLUMNS,
        rows(found),
        load_figure(runs, f"prefill 60, decode 50 to 500 tokens, {rate:g} prompts a second"),
        f"throughput against the better of the two {leads([point])}; mean latency "
        f"{latencies([point])}.",
        by_share(good),
        f"the rule: throughput ahead by more than {TIE:.0%} and mean latency lower, in part one of "
        f"them. {CONSTANTS}; {LARGE_CAP:,} prompts a batch, thresholds {ours} (in printed "
        f"ratio, {printed}: {second.lead:+.1%}, {second.latency:.2f} s). With arithmetic counted "
        f"(roofline, {checked.prompts:,} prompts): {check.lead:+.1%}, {check.latency:.2f} s "
        f"against {check.baseline_latency:.2f} s.",
    )


TEN_CLAIM = (
    "Nested WAIT has higher throughput and lower latency than vLLM and Sarathi on ten decode "
    "lengths, {rate} queries a second"
)


@register_reproduction("a25-figure-12", "A25", "Figure 12", TEN_CLAIM.format(rate=55))
def figure_12(setting: Setting) -> Outcome:
    """55 queries a second."""
    return measure_ten_lengths(setting, 55.0)


@register_reproduction("a25-figure-13", "A25", "Figure 13", TEN_CLAIM.format(rate=550))
def figure_13(setting: Setting) -> Outcome:
    """550 queries a second."""
    return measure_ten_lengths(setting, 550.0)


@register_reproduction(
    "a25-figure-14",
    "A25",
    "Figure 14",
    "on conversations Nested WAIT has higher throughput than vLLM and Sarathi, at about 0.5 s "
    "more latency a prompt",
)
def figure_14(setting: Setting) -> Outcome:
    """Conversations with the thresholds of the ten lengths."""
    schedulers = nested_schedulers(TEN_LENGTHS, TEN_PRINTED, LARGE_CAP)
    runs, checks = sweep(setting, (), schedulers, CONVERSATION_RATES, 1, PAPER_PROMPTS)
    points = compare(runs, "Nested WAIT")
    check = compare(checks, "Nested WAIT")[0]
    extra = [point.latency - point.baseline_latency for point in points]
    ours, printed = thresholds_of(schedulers)
    good = [ahead(point) and modestly_slower(point) for point in points]
    return Outcome(
        COLUMNS,
        rows([*runs, *checks]),
        sweep_figure(runs, "conversations, synthetic lengths"),
        f"throughput against theirs: {leads(points)}; mean latency {min(extra):+.2f} to "
        f"{max(extra):+.2f} s to the faster of the two; both as said at {sum(good)} of {len(good)} "
        f"rates.",
        by_share(good),
        f"the rule: throughput ahead of both by more than {TIE:.0%} and at most "
        f"{MODEST_LATENCY:g} s more latency at every rate, in part at some. Synthetic lengths; "
        f"rates ours, as the paper names none; {CONSTANTS}; {LARGE_CAP:,} prompts a batch, "
        f"thresholds of the ten lengths, {ours}; in the printed ratio, {printed}, "
        f"{leads(compare(runs, PRINTED))}; with arithmetic counted (roofline) {leads([check])}.",
    )
