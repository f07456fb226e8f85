"""Measurements that repeat the tables and figures of [J25]."""

from . import latency, others  # noqa: F401
