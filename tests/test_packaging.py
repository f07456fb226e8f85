"""The lock, the metadata and what a person reads about them agree."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from instances.version import __version__

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


UNLOCKED = {"aiconfigurator"}
"""Extras that no development environment needs: their pins stand in pyproject.toml."""


def locked() -> dict[str, list[str]]:
    """Every locked version by canonical name; some differ by Python version."""
    versions: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", LOCK, flags=re.MULTILINE):
        versions.setdefault(canonicalize_name(name), []).append(version)
    return versions


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].items()
    locked_extras = [extra for name, extra in extras if name not in UNLOCKED]
    texts = [*PROJECT["dependencies"], *(text for extra in locked_extras for text in extra)]
    return [one for one in map(Requirement, texts) if one.name != PROJECT["name"]]


def test_every_requirement_is_locked_at_a_version_it_allows() -> None:
    versions = locked()
    for requirement in requirements():
        known = versions.get(canonicalize_name(requirement.name))
        assert known, f"{requirement.name} is not in requirements.lock: run `make lock`"
        assert all(one in requirement.specifier for one in known), f"{requirement}: locked {known}"


def test_the_lock_pins_hashes_and_names_no_place() -> None:
    assert not re.search(r"://|file:|index-url|find-links|(^|\s)/", LOCK, flags=re.MULTILINE)
    for entry in filter(str.strip, re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)):
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_the_build_needs_nothing_outside_the_lock() -> None:
    assert {"hatchling", "editables"} <= locked().keys()


def test_one_version_is_told_everywhere() -> None:
    texts = "".join(path.read_text("utf-8") for path in [ROOT / "CITATION.cff", *ROOT.glob("*.md")])
    assert all(one + __version__ in texts for one in ("\nversion: ", "\n## ", "{Version "))
    # The workflow that publishes compares the tag with the version, which that file has.
    assert "instances/version.py" in WORKFLOWS[0].read_text()


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_pin_what_they_use(file: Path) -> None:
    used = re.findall(r"uses: (\S+)", file.read_text(encoding="utf-8"))
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one)] == []


def test_workflows_run_what_is_there() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in WORKFLOWS)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    run = {*re.findall(r"run: make ([a-z-]+)", text)}
    run |= {*", ".join(re.findall(r"target: \[(.+)\]", text)).split(", ")}
    assert {"test", "lint", "test-browser", "release-check"} <= run <= {*targets}


def test_every_package_tells_the_version() -> None:
    packages = map(importlib.import_module, ("instances", "hindsight", "online"))
    assert {one.__version__ for one in packages} == {__version__}
