"""What a result was computed with."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

from instances.sources import PACKAGES, package_sources
from instances.version import package_version

LIBRARIES = ("highspy", "numba", "numpy", "pyomo", "scipy")
"""What decides a result besides this package: the solver, and what the searches compute with."""

# Now, while they are what is being imported: an editor may save others later.
package_sources(*PACKAGES)


@cache
def versions() -> dict[str, str | None]:
    """Package, sources, Python and the libraries that decide a result; None for one not there."""
    found: dict[str, str | None] = {
        "package": package_version(),
        "sources": package_sources(*PACKAGES),
        "python": platform.python_version(),
    }
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = None
    return found
