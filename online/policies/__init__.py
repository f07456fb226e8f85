"""The policies; importing this package registers them all."""

from __future__ import annotations

from . import (
    first_come_first_served,
    greedy,
    hindsight_orders,
    intervals,
    mc_sf,
    nested_wait,
    protection,
    relaxation_orders,
    sarathi,
    sorted_f,
    vllm,
    volume_orders,
    wait,
)

__all__ = [
    "first_come_first_served",
    "greedy",
    "hindsight_orders",
    "intervals",
    "mc_sf",
    "nested_wait",
    "protection",
    "relaxation_orders",
    "sarathi",
    "sorted_f",
    "vllm",
    "volume_orders",
    "wait",
]
