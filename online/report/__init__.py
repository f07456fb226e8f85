"""A run's report as one self-contained page: ratios, and schedules beside their optima."""

from __future__ import annotations

from .page import build_report

__all__ = ["build_report"]
