"""Measurements that repeat the tables and figures of [W25]."""

from . import latency, lengths  # noqa: F401
