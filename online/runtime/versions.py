"""What a result was computed with."""

from __future__ import annotations

import platform
import tomllib
from functools import cache
from importlib import metadata

from instances.sources import PACKAGES, ROOT, package_sources

DISTRIBUTION = "llm-hindsight"
LIBRARIES = ("highspy", "numba", "numpy", "pyomo", "scipy")
"""What decides a result besides this package: the solver, and what the searches compute with."""

# Now, while they are what is being imported: an editor may save others later.
package_sources(*PACKAGES)


@cache
def package_version() -> str:
    """The version of this package: a checkout's own, otherwise that of the installation."""
    declared = ROOT / "pyproject.toml"
    if declared.is_file():
        project = tomllib.loads(declared.read_text("utf-8")).get("project", {})
        if project.get("name") == DISTRIBUTION:
            return str(project["version"])
    return metadata.version(DISTRIBUTION)


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
