"""Number of cores that a computation may use."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Return the cores this process may use, or all cores if the system does not report it."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
