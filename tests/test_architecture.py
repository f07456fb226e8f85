"""The tree in docs/architecture.md is that of the folders on disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("instances", "hindsight", "online")
LINE = re.compile(r"^(?P<indent> *)(?P<name>\w+)/(?: +(?P<about>\S.*))?$")


def folders_shown() -> dict[str, str]:
    """What the page says of each folder of its tree, by path."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = page.split("```text\n")[1].split("```")[0]
    shown: dict[str, str] = {}
    above: list[str] = []
    for line in tree.splitlines():
        found = LINE.match(line)
        assert found, line
        depth, odd = divmod(len(found["indent"]), 2)
        assert not odd, line
        assert depth <= len(above), line
        above[depth:] = [found["name"]]
        shown["/".join(above)] = found["about"] or ""
    return shown


def folders_on_disk(top: str) -> set[str]:
    """``top`` and all below it that hold a file of their own."""
    folders = {path.parent for path in (ROOT / top).rglob("*") if path.is_file()}
    return {
        folder.relative_to(ROOT).as_posix()
        for folder in folders
        if "__pycache__" not in folder.parts
        and not any(part.startswith(".") for part in folder.relative_to(ROOT).parts)
    }


@pytest.mark.parametrize("top", [*PACKAGES, "scripts", "docs"])
def test_tree_is_that_on_disk(top: str) -> None:
    shown = {path for path in folders_shown() if path.split("/")[0] == top}
    assert shown == folders_on_disk(top)


def test_rooms_of_the_tests_are_those_of_the_packages() -> None:
    shown = set(folders_shown())
    on_disk = {path for path in folders_on_disk("tests") if "/" in path}
    named = {path for path in shown if path.startswith("tests/")}
    assert named == {"/".join(path.split("/")[:2]) for path in on_disk}
    mirrors = {path.removeprefix("tests/") for path in on_disk} - {"oracles", "support"}
    assert mirrors <= shown


def test_every_room_is_described() -> None:
    mirrors = {f"tests/{package}" for package in (*PACKAGES, "scripts")}
    silent = {path for path, about in folders_shown().items() if not about}
    assert silent == mirrors
