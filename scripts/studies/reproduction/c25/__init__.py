"""[C25]: figures measured again."""

from __future__ import annotations

from . import geometric_lengths, lengths, predicted_intervals, rayleigh_growth, two_lengths

__all__ = [
    "geometric_lengths",
    "lengths",
    "predicted_intervals",
    "rayleigh_growth",
    "two_lengths",
]
