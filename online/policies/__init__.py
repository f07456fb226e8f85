"""The policies; importing this package registers them all."""

from __future__ import annotations

from . import deadlines  # noqa: F401
from .a25 import greedy, nested_wait, wait  # noqa: F401
from .c25 import a_ell, a_max, a_min, h_sf  # noqa: F401
from .engines import sarathi, sglang, tensorrt_llm, vllm, vllm_v0  # noqa: F401
from .f26 import geometric  # noqa: F401
from .j25 import first_come_first_served, mc_sf, protection  # noqa: F401
from .w25 import relaxation_orders, sorted_f, volume_orders  # noqa: F401
