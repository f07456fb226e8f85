"""[W25]: tables and figures measured again."""

from __future__ import annotations

from . import five_families, latency_over_requests, length_figures, mixed_prompts

__all__ = ["five_families", "latency_over_requests", "length_figures", "mixed_prompts"]
