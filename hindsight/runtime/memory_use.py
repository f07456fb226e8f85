"""Memory that this process uses, and that there is."""

from __future__ import annotations

import os
import sys
from types import ModuleType

resource: ModuleType | None
try:
    import resource
except ImportError:  # not a POSIX system
    resource = None

STATUS = "/proc/self/statm"
MACHINE = "/proc/meminfo"
GROUP = "/sys/fs/cgroup/memory."

_sharers = 1


def share_memory(processes: int) -> None:
    """Count on only a part of the memory from now on: so many processes do the same."""
    global _sharers
    _sharers = max(1, processes)


def resident_bytes() -> int:
    """Resident set size now, or 0 where the system does not tell (no /proc)."""
    return _pages(1)


def available_bytes() -> int:
    """Memory that this process may still take without swapping: the least that anything says.

    The machine, its control group and the limit on the address space are asked; where none of them
    tells, it is the memory of the machine. Processes that share it (`share_memory`) have a part
    each.
    """
    found = []
    machine = _lines(MACHINE)
    for line in machine:
        if line.startswith("MemAvailable:"):
            found.append(1024 * int(line.split()[1]))
    limit, used = (_lines(GROUP + name) for name in ("max", "current"))
    if limit and used and limit[0] != "max":
        found.append(int(limit[0]) - int(used[0]))
    if resource is not None:
        address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
        if address_space != resource.RLIM_INFINITY:
            found.append(address_space - _pages(0))
    if not found and hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(found, default=sys.maxsize)) // _sharers


def _pages(column: int) -> int:
    status = _lines(STATUS)
    return int(status[0].split()[column]) * os.sysconf("SC_PAGE_SIZE") if status else 0


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().splitlines()
    except OSError:
        return []
