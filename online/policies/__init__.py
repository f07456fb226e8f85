"""The policies; importing this package registers them all."""

from __future__ import annotations

from . import (
    first_come_first_served,
    greedy,
    hindsight_orders,
    intervals,
    mc_sf,
    protection,
    relaxation_orders,
    sorted_f,
    volume_orders,
)

__all__ = [
    "first_come_first_served",
    "greedy",
    "hindsight_orders",
    "intervals",
    "mc_sf",
    "protection",
    "relaxation_orders",
    "sorted_f",
    "volume_orders",
]
