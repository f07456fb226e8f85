"""Measurements that repeat the tables and figures of [A25]."""

from . import lengths, segments, serving  # noqa: F401
