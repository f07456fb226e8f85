"""The version of this distribution: a checkout's own, otherwise that of the installation."""

from __future__ import annotations

from functools import cache
from pathlib import Path

DISTRIBUTION = "llm-hindsight"
UNKNOWN = "0+unknown"
ROOT = Path(__file__).resolve().parents[1]


@cache
def package_version(root: Path = ROOT) -> str:
    """The version that stands in pyproject.toml, or in the metadata of the installation.

    Parameters
    ----------
    root : Path
        Folder that holds the packages.

    Returns
    -------
    str
        "0+unknown" where the packages were copied without either.
    """
    # Both are loaded when somebody asks: it is rare, and importing a package is not.
    import tomllib
    from importlib import metadata

    declared = root / "pyproject.toml"
    if declared.is_file():
        project = tomllib.loads(declared.read_text("utf-8")).get("project", {})
        if project.get("name") == DISTRIBUTION:
            return str(project["version"])
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return UNKNOWN
