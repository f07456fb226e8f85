"""Number of cores that a computation may use."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Return the number of cores this process may use, or of all cores if that is unknown."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
