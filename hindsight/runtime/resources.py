"""Processor cores and memory that this process may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath

# Three Linux files, in this order: the memory sizes of this process (in pages), the resource limits
# of this process (for its address space in bytes), and the memory of the machine (in kilobytes).
STATUS, LIMITS, MACHINE = "/proc/self/statm", "/proc/self/limits", "/proc/meminfo"

# Linux file that lists the cgroups (control groups, which may limit memory) of this process, and
# the folder that has all cgroups.
MEMBERSHIP, GROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"

# Files in which Linux cgroups show their memory limits. The key is the name of the controller in
# the file `MEMBERSHIP`: empty in version 2 of cgroups, "memory" in version 1. Each value has four
# parts: the folder below `GROUPS`, the file with the limit in bytes, the file with the memory in
# use in bytes, and the name of the row of the file memory.stat with the bytes of file pages that
# the kernel may reclaim. The names of the two files follow the prefix "memory.".
CONTROLLERS = {
    "": ("", "max", "current", "inactive_file"),
    "memory": ("/memory", "limit_in_bytes", "usage_in_bytes", "total_inactive_file"),
}

# Number of processes among which `available_bytes` divides the free memory of the machine equally.
# `share_memory` sets it.
_sharers = 1


def available_cores() -> int:
    """Return the number of processor cores that this process may use.

    If the system does not tell it, return the number of cores of the machine.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def share_memory(processes: int) -> None:
    """Let `available_bytes` divide the free memory by ``processes`` from now on.

    Call it in each of several processes that run at the same time. A limit on the address space is
    not divided, because it holds for each process alone.
    """
    global _sharers
    _sharers = max(1, processes)


def available_bytes() -> int:
    """Return the bytes that this process may still allocate without swapping.

    It is the smallest of three numbers: the free memory of the machine, what the memory limits of
    this process's cgroup and its ancestors (version 1 or 2) still leave, and what the limit on the
    process's address space still leaves. File pages that the kernel may reclaim count as free.
    After `share_memory` the first two are divided by the number of processes.
    """
    found = [1024 * int(line[1]) for line in _table(MACHINE) if line[0] == "MemAvailable:"]
    found += _left_in_groups()
    if hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    free = [min(found, default=sys.maxsize) // _sharers]
    address_space = [line[3] for line in _table(LIMITS) if line[:3] == ["Max", "address", "space"]]
    free += [int(most) - _address_space() for most in address_space if most != "unlimited"]
    return max(0, min(free))


def _left_in_groups() -> Iterator[int]:
    """Yield the number of bytes that each memory limit of a cgroup still leaves to this process.

    The cgroups are those to which the process belongs, and their ancestors. The number is the limit
    minus the memory in use, where file pages that the kernel may reclaim count as not in use.
    """
    for line in _lines(MEMBERSHIP):
        _, controllers, path = line.split(":", 2)
        for own in CONTROLLERS.keys() & controllers.split(","):
            folder, limit, usage, reclaimable = CONTROLLERS[own]
            # In a container, ``path`` may be a path of the host that does not exist in the
            # container. Then the files of the container's own cgroup are in ``folder`` itself. They
            # are read too, because the last parent of ``path`` is "/".
            for group in (PurePosixPath(path), *PurePosixPath(path).parents):
                files = f"{GROUPS}{folder}{group}/memory."
                most, used = _lines(files + limit), _lines(files + usage)
                if most and used and most[0] != "max":
                    counts = dict(_table(f"{files}stat"))
                    yield int(most[0]) - int(used[0]) + int(counts.get(reclaimable, 0))


def _address_space() -> int:
    """Return the size of this process's address space in bytes; 0 if `STATUS` does not exist."""
    return sum(int(line[0]) * os.sysconf("SC_PAGE_SIZE") for line in _table(STATUS))


def _table(path: str) -> list[list[str]]:
    return [line.split() for line in _lines(path)]


def _lines(path: str) -> list[str]:
    """Return the lines of a text file, or an empty list if the file cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []
