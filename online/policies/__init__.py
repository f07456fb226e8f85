"""The policies; importing this package registers them all."""

from __future__ import annotations

from . import (
    greedy,
    hindsight_orders,
    intervals,
    nested_wait,
    relaxation_orders,
    sarathi,
    sorted_f,
    vllm,
    volume_orders,
    wait,
)
from .j25 import first_come_first_served, mc_sf, protection

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
