"""Rules that turn measurements of [A25] Section 6 into verdicts; none looks at a single figure."""

from __future__ import annotations

from collections.abc import Sequence

from .serving import COMPARED, Point, Served

TIE = 0.01
"""Relative difference of throughputs below which two schedulers count as equal."""

MODEST_LATENCY = 1.0
"""Seconds a prompt may take longer where the paper speaks of about half a second."""


def ahead(point: Point) -> bool:
    """Tell whether the throughput exceeds that of both baselines by more than `TIE`."""
    return point.lead > TIE


def faster(point: Point) -> bool:
    """Tell whether the mean latency is below that of both baselines."""
    return point.latency < point.baseline_latency


def modestly_slower(point: Point) -> bool:
    """Tell whether the mean latency is at most `MODEST_LATENCY` above the better baseline's."""
    return point.latency - point.baseline_latency <= MODEST_LATENCY


def leads(points: Sequence[Point]) -> str:
    """Throughput against each baseline, apart for rates they keep up with and rates beyond."""
    parts = []
    for keeps_up, name in ((True, "where they keep up"), (False, "beyond their capacity")):
        found = [point for point in points if point.keeps_up == keeps_up]
        if found:
            rates = _range([point.rate for point in found], "{:g}")
            against = " and ".join(
                f"{_range([100 * point.leads[place] for point in found], '{:+.1f}')} % to {label}"
                for place, label in enumerate(COMPARED)
            )
            parts.append(f"{name} ({rates} a second) {against}")
    return ", ".join(parts)


def best_leads(cases: Sequence[tuple[str, Sequence[Point]]]) -> str:
    """The largest lead over both baselines, and with what latency, in each case.

    Of the rates beyond the baselines' capacity, where there are any: below, all complete what
    arrives, and a lead is an edge effect of a run that ends.
    """
    parts = []
    for case, points in cases:
        beyond = [point for point in points if not point.keeps_up]
        best = max(beyond or points, key=lambda point: point.lead)
        parts.append(
            f"{case} {100 * best.lead:+.1f} % at {best.rate:g} a second, {best.latency:.2f} s "
            f"against {best.baseline_latency:.2f} s"
        )
    return f"Largest lead over both: {'; '.join(parts)}"


def latencies(points: Sequence[Point]) -> str:
    """Mean latency beside that of each baseline, at the lowest and the highest rate."""
    ends = points if len(points) == 1 else (points[0], points[-1])
    return ", ".join(
        f"{point.latency:.2f} s at {point.rate:g} a second ("
        + ", ".join(
            f"{label} {seconds:.2f}"
            for label, seconds in zip(COMPARED, point.baseline_latencies, strict=True)
        )
        + ")"
        for point in ends
    )


def batches(runs: Sequence[Served], label: str) -> str:
    """Mean batch of the scheduler and of each baseline at the highest rate."""
    top = max(run.trial.traffic.rate for run in runs)
    parts = []
    for name in (label, *COMPARED):
        found = [
            run.mean_batch
            for run in runs
            if (run.trial.scheduler.label, run.trial.traffic.rate) == (name, top)
        ]
        parts.append(f"{name} {sum(found) / len(found):.0f}")
    return f"mean batch at {top:g} a second: {', '.join(parts)}"


def _range(values: Sequence[float], pattern: str) -> str:
    low, high = pattern.format(min(values)), pattern.format(max(values))
    return low if low == high else f"{low} to {high}"
