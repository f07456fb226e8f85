"""The versions that a report of a bug needs."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from instances.version import __version__

PACKAGES = ("highspy", "numba", "numpy", "scipy", "pandas", "pyomo", "pulp", "networkx")


def show_versions() -> None:
    """Print the versions of this package, Python, the solver and libraries, and the machine.

    Examples
    --------
    >>> import hindsight
    >>> hindsight.show_versions()
    llm-hindsight ...
    Python ...
    """
    print(f"{'llm-hindsight':<14}{__version__}")
    print(f"{'Python':<14}{platform.python_version()}")
    for name in PACKAGES:
        print(f"{name:<14}{metadata.version(name)}")
    print(f"{'machine':<14}{platform.platform()}, {os.cpu_count()} cores")
