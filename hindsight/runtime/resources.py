"""Processor cores and memory that this process may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath

# Files about this process (memory in pages, limits) and about the machine (memory in kilobytes).
STATUS, LIMITS, MACHINE = "/proc/self/statm", "/proc/self/limits", "/proc/meminfo"

# The cgroups of this process, and the folder of all cgroups.
MEMBERSHIP, GROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"

# Where cgroups keep their memory limits, by the name of the controller in `MEMBERSHIP`, which is
# empty in version 2. The values are a folder, the file of the limit, the file of the memory in use,
# and the row of the file memory.stat that counts the file pages the kernel may reclaim.
CONTROLLERS = {
    "": ("", "max", "current", "inactive_file"),
    "memory": ("/memory", "limit_in_bytes", "usage_in_bytes", "total_inactive_file"),
}

# Number of processes among which the available memory is divided.
_sharers = 1


def available_cores() -> int:
    """Return the number of cores this process may use, or of all cores if that is unknown."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


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
    found = [1024 * int(line[1]) for line in _table(MACHINE) if line[0] == "MemAvailable:"]
    found += _left_in_groups()
    if hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    free = [min(found, default=sys.maxsize) // _sharers]
    address_space = [line[3] for line in _table(LIMITS) if line[:3] == ["Max", "address", "space"]]
    free += [int(most) - _pages(0) for most in address_space if most != "unlimited"]
    return max(0, min(free))


def _left_in_groups() -> Iterator[int]:
    """Yield the bytes left below the memory limit of each cgroup of this process."""
    for line in _lines(MEMBERSHIP):
        _, controllers, path = line.split(":", 2)
        for own in CONTROLLERS.keys() & controllers.split(","):
            folder, limit, usage, reclaimable = CONTROLLERS[own]
            # In a container the path may be the host's, while the cgroup is at the mount point.
            for group in (PurePosixPath(path), *PurePosixPath(path).parents):
                files = f"{GROUPS}{folder}{group}/memory."
                most, used = _lines(files + limit), _lines(files + usage)
                if most and used and most[0] != "max":
                    counts = dict(_table(f"{files}stat"))
                    yield int(most[0]) - int(used[0]) + int(counts.get(reclaimable, 0))


def _pages(column: int) -> int:
    """Return a column of `STATUS`, in bytes: 0 is the address space, 1 the resident set."""
    return sum(int(line[column]) * os.sysconf("SC_PAGE_SIZE") for line in _table(STATUS))


def _table(path: str) -> list[list[str]]:
    return [line.split() for line in _lines(path)]


def _lines(path: str) -> list[str]:
    """Return the lines of a file, or none if the system does not have it."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []
