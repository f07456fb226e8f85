"""Cores that a computation may use."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Cores this process may use; all of them where the system does not say."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
