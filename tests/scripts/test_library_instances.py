"""Instances are added to a set of the library, and names stay."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import library_instances
from forked_scripts import Ok, Refused

import instances
from instances.catalogue.library import FOLDER


def test_an_instance_is_added_once(ok: Ok, refused: Refused, tmp_path: Path) -> None:
    shutil.copy(FOLDER / "sets" / "c25.json", tmp_path)
    before = json.loads((tmp_path / "c25.json").read_text("utf-8"))
    two = instances.Instance.from_arrays([2, 1], [3, 1], [0, 4], memory_limit=9)
    instances.save(two, tmp_path / "two.json")
    printed = ok("library_instances c25 two.json --folder .")
    after = json.loads((tmp_path / "c25.json").read_text("utf-8"))
    assert printed == f"c25: {len(before['entries']) + 1} instances\n"
    *known, new = after.pop("entries")
    assert known == before.pop("entries")
    assert after == before
    assert (new["name"], new["arrival_times"]) == ("c25-two-n2", [0, 4])
    names = ("c25", tmp_path / "two.json", "--folder", tmp_path)
    assert "is taken" in refused("library_instances", *names)


def test_an_entry_is_that_of_the_package() -> None:
    """Of an instance that a set stores, the entry is the same but for its source."""
    listed = json.loads((FOLDER / "sets" / "azure-conv.json").read_text("utf-8"))["entries"][0]
    problem = instances.library()[listed["name"]].instance
    assert library_instances.entry(listed["name"], problem, "total_latency") == listed
