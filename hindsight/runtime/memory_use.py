"""Memory that this process uses, and memory that is available."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath
from types import ModuleType

resource: ModuleType | None
try:
    import resource
except ImportError:  # not a POSIX system
    resource = None

STATUS = "/proc/self/statm"
MACHINE = "/proc/meminfo"
MEMBERSHIP = "/proc/self/cgroup"
GROUPS = "/sys/fs/cgroup"

_sharers = 1


def share_memory(processes: int) -> None:
    """Divide the available memory among ``processes`` processes from now on.

    A limit on the address space is not divided, because each process has its own.
    """
    global _sharers
    _sharers = max(1, processes)


def resident_bytes() -> int:
    """Return the present resident set size in bytes, or 0 if the system has no /proc."""
    return _pages(1)


def available_bytes() -> int:
    """Return the bytes that this process may still allocate without swapping.

    It is the least of all limits: of the machine, of this process's cgroup and its ancestors
    (version 1 or 2), and of the address space. File pages that the kernel may reclaim count as
    free. Each of the processes that share memory (`share_memory`) gets an equal part.
    """
    found = [
        1024 * int(line.split()[1]) for line in _lines(MACHINE) if line.startswith("MemAvailable:")
    ]
    found += _left_in_groups()
    if hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    free = min(found, default=sys.maxsize) // _sharers
    if resource is not None:
        address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
        if address_space != resource.RLIM_INFINITY:
            free = min(free, address_space - _pages(0))
    return max(0, free)


def _left_in_groups() -> Iterator[int]:
    """Yield the bytes left below the memory limit of each cgroup of this process."""
    for line in _lines(MEMBERSHIP):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount, limit, usage, reclaimable = GROUPS, "max", "current", "inactive_file"
        elif "memory" in controllers.split(","):
            mount, limit = f"{GROUPS}/memory", "limit_in_bytes"
            usage, reclaimable = "usage_in_bytes", "total_inactive_file"
        else:
            continue
        # In a container the path may be the host's, while the cgroup is at the mount point.
        for group in (PurePosixPath(path), *PurePosixPath(path).parents):
            files = f"{mount}{group}/memory."
            most, used = _lines(files + limit), _lines(files + usage)
            if most and used and most[0] != "max":
                pairs = dict(line.split() for line in _lines(f"{files}stat"))
                yield int(most[0]) - int(used[0]) + int(pairs.get(reclaimable, 0))


def _pages(column: int) -> int:
    status = _lines(STATUS)
    return int(status[0].split()[column]) * os.sysconf("SC_PAGE_SIZE") if status else 0


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []
