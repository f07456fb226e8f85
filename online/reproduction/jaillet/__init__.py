"""[J25]: tables and figures measured again."""

from __future__ import annotations

from . import (
    clearing_grids,
    latency_growth,
    latency_statistics,
    lengths,
    memory_use,
    optimum_ratios,
)

__all__ = [
    "clearing_grids",
    "latency_growth",
    "latency_statistics",
    "lengths",
    "memory_use",
    "optimum_ratios",
]
