"""The policies; importing this package registers them all."""

from __future__ import annotations

from .a25 import greedy, nested_wait, wait
from .c25 import a_ell, a_max, a_min, h_sf
from .engines import sarathi, sglang, tensorrt_llm, vllm, vllm_v0
from .j25 import first_come_first_served, mc_sf, protection
from .w25 import relaxation_orders, sorted_f, volume_orders

__all__ = [
    "a_ell",
    "a_max",
    "a_min",
    "first_come_first_served",
    "greedy",
    "h_sf",
    "mc_sf",
    "nested_wait",
    "protection",
    "relaxation_orders",
    "sarathi",
    "sglang",
    "sorted_f",
    "tensorrt_llm",
    "vllm",
    "vllm_v0",
    "volume_orders",
    "wait",
]
