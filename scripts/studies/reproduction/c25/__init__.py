"""Measurements that repeat the figures of [C25]."""

from . import latency, lengths, ratios  # noqa: F401
