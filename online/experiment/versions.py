"""What a result was computed with."""

from __future__ import annotations

import hashlib
import platform
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "llm-hindsight"
PACKAGES = ("instances", "hindsight", "online")
LIBRARIES = ("highspy", "numba", "numpy", "pyomo", "scipy")
"""What decides a result besides this package: the solver, and what the searches compute with."""

ROOT = Path(__file__).resolve().parents[2]


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
def sources_digest() -> str:
    """SHA-256 (hex) of the Python files of the three packages: two builds of one version differ."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@cache
def versions() -> dict[str, str | None]:
    """Package, sources, Python and the libraries that decide a result; None for one not there."""
    found: dict[str, str | None] = {
        "package": package_version(),
        "sources": sources_digest(),
        "python": platform.python_version(),
    }
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = None
    return found
