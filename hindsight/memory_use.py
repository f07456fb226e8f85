"""Resident memory of this process."""

from __future__ import annotations

import os

STATUS = "/proc/self/statm"


def resident_bytes() -> int:
    """Resident set size now, or 0 where the system does not tell (no /proc)."""
    try:
        with open(STATUS, encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
