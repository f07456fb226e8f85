"""The version where there is no checkout to tell it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from instances.version import package_version


def test_without_a_checkout_the_installation_tells_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: f"of {name}")
    assert package_version(tmp_path) == "of llm-hindsight"
    around = tmp_path / "another_project"
    around.mkdir()
    (around / "pyproject.toml").write_text('[project]\nname = "around"\nversion = "9"\n')
    assert package_version(around) == "of llm-hindsight"


def test_packages_that_were_copied_have_an_unknown_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    assert package_version(tmp_path) == "0+unknown"
