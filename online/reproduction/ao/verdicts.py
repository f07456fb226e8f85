"""Rules that turn measurements of [A25] Section 6 into verdicts; none looks at a single figure."""

from __future__ import annotations

from collections.abc import Sequence

from online.reproduction.declaration import Verdict

from .serving import Point

TIE = 0.01
"""Relative difference of throughputs below which two schedulers count as equal."""

MODEST_LATENCY = 1.0
"""Seconds a prompt may take longer where the paper speaks of about half a second."""


def by_share(good: Sequence[bool]) -> Verdict:
    """Reproduced where it holds everywhere, in part where it holds somewhere."""
    if all(good):
        return "reproduced"
    return "in part" if any(good) else "not reproduced"


def ahead(point: Point) -> bool:
    """Whether the throughput is more than `TIE` above that of both baselines."""
    return point.lead > TIE


def faster(point: Point) -> bool:
    """Whether the mean latency is below that of both baselines."""
    return point.latency < point.baseline_latency


def modestly_slower(point: Point) -> bool:
    """Whether the mean latency is at most `MODEST_LATENCY` above the better baseline's."""
    return point.latency - point.baseline_latency <= MODEST_LATENCY


def leads(points: Sequence[Point]) -> str:
    """Leads over the better baseline, apart for rates it keeps up with and rates beyond."""
    parts = []
    for keeps_up, name in ((True, "baselines keep up with"), (False, "beyond their capacity")):
        found = [point for point in points if point.keeps_up == keeps_up]
        if found:
            values = f"{_range([100 * point.lead for point in found], '{:+.1f}')} %"
            rates = _range([point.rate for point in found], "{:g}")
            parts.append(f"{values} at rates {name} ({rates} a second)")
    return ", ".join(parts)


def latencies(points: Sequence[Point]) -> str:
    """Mean latency against that of the better baseline at the lowest and the highest rate."""
    ends = points if len(points) == 1 else (points[0], points[-1])
    return ", ".join(
        f"{point.latency:.2f} s against {point.baseline_latency:.2f} s at {point.rate:g}"
        for point in ends
    )


def _range(values: Sequence[float], pattern: str) -> str:
    low, high = pattern.format(min(values)), pattern.format(max(values))
    return low if low == high else f"{low} to {high}"
