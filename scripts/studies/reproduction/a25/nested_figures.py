"""[A25] Figures 11 to 14: Nested WAIT against serving engines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from online.fluid.balance import PromptType, token_load
from online.fluid.nested_design import Segments, group, nested_thresholds
from studies.reproduction.declaration import Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

from .drawing import load_figure, sweep_figure
from .machine import CONSTANTS, D0, D1, LARGE_CAP, MACHINE_CAUSE, MEMORY_LIMIT
from .serving import (
    AS_SHIPPED,
    COLUMNS,
    CONVERSATION_SHARES,
    Scheduler,
    Served,
    Traffic,
    Trial,
    baselines,
    compare,
    rows,
    serve,
)
from .verdicts import (
    MODEST_LATENCY,
    TIE,
    ahead,
    batches,
    best_leads,
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

OURS, PRINTED = "Nested WAIT", "Nested WAIT, printed ratio"
FILLED = "Nested WAIT, memory full"
SEEDS, PROMPTS, CHECKED_PROMPTS = 3, 6_000, 10_000
PAPER_PROMPTS, CONVERSATIONS = 50_000, 20_000
"""[A25] Section 6.2; and what is run where there are six rates, to stay below ten minutes."""


def scaled(printed: Sequence[int], stages: Sequence[int], cap: int) -> tuple[int, ...]:
    """The printed ratio with at most ``cap`` prompts over all stages, rounded down, at least 1."""
    total = sum(n * length for n, length in zip(printed, stages, strict=True))
    return tuple(max(1, n * cap // total) for n in printed)


def filling(segments: Segments, types: Sequence[PromptType]) -> tuple[int, ...]:
    """Thresholds whose batches, in the mean, fill the memory: n_1 = C / mean footprint, down.

    The others follow by `nested_thresholds`; the cap on prompts is not looked at.
    """
    rate = sum(kind.arrival_rate for kind in types)
    first = max(1, int(MEMORY_LIMIT * rate / token_load(types)))
    caps = range(1, first * sum(segments.stages) + 1)
    place = bisect_left(caps, first, key=lambda cap: _thresholds(segments, cap)[0])
    return _thresholds(segments, caps[place])


def _thresholds(segments: Segments, cap: int) -> tuple[int, ...]:
    return nested_thresholds(segments, D0, D1, batch_cap=cap).thresholds


def nested_schedulers(
    types: Sequence[PromptType], printed: Sequence[int], cap: int
) -> tuple[Scheduler, ...]:
    """Nested WAIT with thresholds by three rules, and the baselines that have a cap.

    Without one, first come first served evicts in every iteration of an overload, and to tell that
    from a livelock takes minutes with a queue of ten thousands.
    """
    segments = group(types)
    rules = {
        OURS: _thresholds(segments, cap),
        PRINTED: scaled(printed, segments.stages, cap),
        FILLED: filling(segments, types),
    }
    return (
        *(
            Scheduler(label, "nested-wait", {"thresholds": numbers, "segment_ends": segments.ends})
            for label, numbers in rules.items()
        ),
        *baselines(cap)[:-1],
    )


def background(
    schedulers: Sequence[Scheduler], runs: Sequence[Served], checks: Sequence[Served]
) -> str:
    """On what the runs rest, and what other thresholds and another iteration time give."""
    ours, printed, filled = (
        ":".join(str(n) for n in scheduler.parameters["thresholds"]) for scheduler in schedulers[:3]
    )
    others = (
        ("against Sarathi with its own 512 tokens", compare(runs, OURS, AS_SHIPPED)),
        (f"in the printed ratio ({printed})", compare(runs, PRINTED)),
        (f"with memory filled ({filled})", compare(runs, FILLED)),
        ("with arithmetic counted at the highest rate (roofline)", compare(checks, OURS)),
    )
    return (
        f"Where the others keep up, differences of throughput are edge effects of a run that ends; "
        f"{batches(runs, OURS)}; {CONSTANTS}; {LARGE_CAP:,} prompts a batch, thresholds {ours}. "
        f"{best_leads(others)}"
    )


@register_reproduction(
    "a25-figure-11",
    "A25",
    "Figure 11",
    "Nested WAIT has higher throughput and lower latency than vLLM and Sarathi "
    "on four decode lengths",
    varies=("batch-time", "memory"),
    cause=MACHINE_CAUSE,
)
def figure_11(setting: Setting) -> Outcome:
    """Prefill 10, decode 20, 40, 80 and 160."""
    schedulers = nested_schedulers(FOUR_LENGTHS, FOUR_PRINTED, LARGE_CAP)
    runs, checks = sweep(setting, FOUR_LENGTHS, schedulers, FOUR_RATES, SEEDS, PROMPTS)
    points = compare(runs, OURS)
    statements = [
        Statement(
            f"ahead of both by more than {TIE:.0%} with lower latency at {point.rate:g} a second",
            ahead(point) and faster(point),
        )
        for point in points
    ]
    good = sum(each.holds for each in statements)
    return Outcome(
        COLUMNS,
        rows([*runs, *checks]),
        sweep_figure(runs, "prefill 10, decode 20, 40, 80 and 160 tokens in shares 1:2:4:8"),
        f"throughput against theirs: {leads(points)}; mean latency {latencies(points)}; better in "
        f"both at {good} of {len(points)} rates.",
        statements,
        f"{background(schedulers, runs, checks)}.",
    )


def measure_ten_lengths(setting: Setting, rate: float) -> Outcome:
    """Ten decode lengths at one rate."""
    schedulers = nested_schedulers(TEN_LENGTHS, TEN_PRINTED, LARGE_CAP)
    prompts = 300 if setting.quick else PAPER_PROMPTS
    traffic = Traffic(TEN_LENGTHS, rate, prompts, 0, setting.conditions)
    checked = replace(traffic, prompts=min(prompts, CHECKED_PROMPTS))
    trials = [Trial(traffic, scheduler) for scheduler in schedulers]
    checks = [Trial(checked, scheduler, "roofline") for scheduler in schedulers]
    found = setting.map(serve, [*trials, *checks])
    runs, others = found[: len(trials)], found[len(trials) :]
    point = compare(runs, OURS)[0]
    statements = [
        Statement(f"throughput ahead of both by more than {TIE:.0%}", ahead(point)),
        Statement("mean latency below both", faster(point)),
    ]
    return Outcome(
        COLUMNS,
        rows(found),
        load_figure(runs, f"prefill 60, decode 50 to 500 tokens, {rate:g} prompts a second"),
        f"throughput against theirs: {leads([point])}; mean latency {latencies([point])}.",
        statements,
        f"{background(schedulers, runs, others)}.",
    )


TEN_CLAIM = (
    "Nested WAIT has higher throughput and lower latency than vLLM and Sarathi on ten decode "
    "lengths, {rate} queries a second"
)


@register_reproduction(
    "a25-figure-12",
    "A25",
    "Figure 12",
    TEN_CLAIM.format(rate=55),
    varies=("batch-time", "memory"),
    cause=MACHINE_CAUSE,
)
def figure_12(setting: Setting) -> Outcome:
    """55 queries a second."""
    return measure_ten_lengths(setting, 55.0)


@register_reproduction(
    "a25-figure-13",
    "A25",
    "Figure 13",
    TEN_CLAIM.format(rate=550),
    varies=("batch-time", "memory"),
    cause=MACHINE_CAUSE,
)
def figure_13(setting: Setting) -> Outcome:
    """550 queries a second."""
    return measure_ten_lengths(setting, 550.0)


@register_reproduction(
    "a25-figure-14",
    "A25",
    "Figure 14",
    "on conversations Nested WAIT has higher throughput than vLLM and Sarathi, at about 0.5 s "
    "more latency a prompt",
    lengths={"lmsys": CONVERSATIONS},
    varies=("lengths", "batch-time", "memory"),
    cause=MACHINE_CAUSE,
)
def figure_14(setting: Setting) -> Outcome:
    """Conversations with the thresholds of the ten lengths."""
    schedulers = nested_schedulers(TEN_LENGTHS, TEN_PRINTED, LARGE_CAP)
    runs, checks = sweep(setting, (), schedulers, CONVERSATION_RATES, 1, CONVERSATIONS)
    points = compare(runs, OURS)
    told = setting.conditions.conversations_told("synthetic lengths")
    extra = [point.latency - point.baseline_latency for point in points]
    statements = [
        Statement(
            f"ahead of both by more than {TIE:.0%} with at most {MODEST_LATENCY:g} s more latency "
            f"at {point.rate:g} a second",
            ahead(point) and modestly_slower(point),
        )
        for point in points
    ]
    good = sum(each.holds for each in statements)
    return Outcome(
        COLUMNS,
        rows([*runs, *checks]),
        sweep_figure(runs, f"conversations, {told}"),
        f"throughput against theirs: {leads(points)}; mean latency {min(extra):+.2f} to "
        f"{max(extra):+.2f} s to the faster of the two; both as said at {good} of "
        f"{len(points)} rates.",
        statements,
        f"{told}; rates ours, as the paper names none; {CONVERSATIONS:,} prompts a rate, "
        f"where the paper has {PAPER_PROMPTS:,}; thresholds of the ten lengths; "
        f"{background(schedulers, runs, checks)}.",
    )
