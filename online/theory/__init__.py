"""Closed forms: ratios of [C25] and [F26], bounds and dual prices of [J25], [A25]'s queue."""

from __future__ import annotations

from online.fluid.queueing import BatchServiceQueue, batch_service_queue, wait_mean_latency
from online.theory.paper_bounds import (
    EqualRequestsDual,
    equal_requests_dual,
    mc_sf_upper_bound,
    optimum_lower_bound,
    volume_bound,
)

from .fluid_limit import Rule, fluid_latency
from .geometric_ratios import geometric_batching_ratio, geometric_slicing_ratio
from .interval_ratios import (
    a_ell_ratio_bound,
    a_ell_two_point_ratio,
    a_max_ratio_lower_bound,
    a_max_ratio_upper_bound,
    a_max_two_point_maximum,
    a_max_two_point_ratio,
    a_min_linear_geometric_ratio,
    a_min_ratio,
    a_min_two_point_ratio_bound,
    a_random_ratio_bound,
    h_sf_latency,
)
from .packing import is_delayed, is_optimally_packed, preserves_order
from .rayleigh import rayleigh_fit, rayleigh_matrices, rayleigh_maximiser, rayleigh_maximum

__all__ = [
    "BatchServiceQueue",
    "EqualRequestsDual",
    "Rule",
    "a_ell_ratio_bound",
    "a_ell_two_point_ratio",
    "a_max_ratio_lower_bound",
    "a_max_ratio_upper_bound",
    "a_max_two_point_maximum",
    "a_max_two_point_ratio",
    "a_min_linear_geometric_ratio",
    "a_min_ratio",
    "a_min_two_point_ratio_bound",
    "a_random_ratio_bound",
    "batch_service_queue",
    "equal_requests_dual",
    "fluid_latency",
    "geometric_batching_ratio",
    "geometric_slicing_ratio",
    "h_sf_latency",
    "is_delayed",
    "is_optimally_packed",
    "mc_sf_upper_bound",
    "optimum_lower_bound",
    "preserves_order",
    "rayleigh_fit",
    "rayleigh_matrices",
    "rayleigh_maximiser",
    "rayleigh_maximum",
    "volume_bound",
    "wait_mean_latency",
]
