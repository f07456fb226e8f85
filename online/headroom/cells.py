"""Figures as they are printed, and tables of them."""

from __future__ import annotations

from fractions import Fraction

from online.trials.intervals import Interval, rounded

DECIMALS = 3
"""Of seconds; shares in per cent have one."""

NOTHING = ""


def seconds(value: Fraction | float | Interval | None) -> str:
    """Write a figure in seconds; an interval is rounded outwards."""
    if value is None:
        return NOTHING
    return value.text(DECIMALS) if isinstance(value, Interval) else rounded(value, DECIMALS)


def per_cent(value: Fraction | float | Interval | None) -> str:
    """Write a share in per cent."""
    if value is None:
        return NOTHING
    if isinstance(value, Interval):
        return value.times(100).text(1)
    return rounded(100 * value, 1)


def told(error: float) -> str:
    """Say what a run was told of the output lengths."""
    return f"predicted, off by {100 * error:g} %" if error else "exact"
