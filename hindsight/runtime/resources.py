"""Processor cores and memory that this process may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath

# Linux files: the memory of the machine in kilobytes, the cgroup (control group, version 2) of this
# process, and the folder of all cgroups, whose files have their limits on memory in bytes.
MACHINE, MEMBERSHIP, GROUPS = "/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup"

# Number of processes among which `available_bytes` divides the free memory of the machine equally.
# `share_memory` sets it.
_sharers = 1


def available_cores() -> int:
    """Return the number of processor cores that this process may use.

    If the system does not show it, return the number of cores of the machine.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def share_memory(processes: int) -> None:
    """Let `available_bytes` divide the free memory by ``processes`` from now on.

    Call it in each of several processes that run at the same time.
    """
    global _sharers
    _sharers = max(1, processes)


def available_bytes() -> int:
    """Return the bytes that this process may still allocate without swapping.

    It is the smaller of two numbers: the free memory of the machine, and what the memory limits of
    this process's cgroup and its ancestors still leave. File pages that the kernel may reclaim
    count as free. If `share_memory` was called, the result is divided by its number of processes.
    """
    found = [1024 * int(line[1]) for line in _table(MACHINE) if line[0] == "MemAvailable:"]
    found += _left_in_groups()
    if hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(found, default=sys.maxsize) // _sharers)


def _left_in_groups() -> Iterator[int]:
    """Yield the number of bytes that each memory limit of a cgroup still leaves to this process.

    The cgroups are that of the process and its ancestors. The number is the limit minus the memory
    in use, where file pages that the kernel may reclaim count as not in use.
    """
    for line in _table(MEMBERSHIP):
        path = PurePosixPath(" ".join(line).rpartition(":")[2])
        # In a container, ``path`` may be a path of the host that does not exist in the container.
        # Then the files of the container's own cgroup are in `GROUPS` itself. They are read too,
        # because the last parent of ``path`` is "/".
        for group in (path, *path.parents):
            most, used, counts = (
                _table(f"{GROUPS}{group}/memory.{name}") for name in ("max", "current", "stat")
            )
            if most and used and most[0] != ["max"]:
                yield int(most[0][0]) - int(used[0][0]) + int(dict(counts).get("inactive_file", 0))


def _table(path: str) -> list[list[str]]:
    """Return the words of each line of a text file; an empty list if the file cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return [line.split() for line in file]
    except OSError:
        return []
