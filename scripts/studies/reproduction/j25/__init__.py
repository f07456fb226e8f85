"""[J25]: tables and figures measured again."""

from __future__ import annotations

from . import clearing_grids, latency_growth, lengths, memory_use, optimum_ratios, table_1

__all__ = [
    "clearing_grids",
    "latency_growth",
    "lengths",
    "memory_use",
    "optimum_ratios",
    "table_1",
]
