"""Stored results in tests/golden: compared, or written again where GOLDEN=write (`make golden`)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "golden"
WRITES = os.environ.get("GOLDEN") == "write"


def check_text(name: str, found: str) -> None:
    """Compare a text with the stored one, line by line."""
    if WRITES:
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(found, encoding="utf-8")
    stored = (FOLDER / name).read_text(encoding="utf-8")
    lines = zip_longest(found.splitlines(), stored.splitlines(), fillvalue="(no line)")
    changed = [pair for pair in lines if pair[0] != pair[1] and not _equal_figures(*pair)]
    assert not changed, f"{name} changed: make golden"


def _equal_figures(found: str, stored: str) -> bool:
    """Tell whether two lines are equal but for the last of the ten digits of fitted curves.

    The least-squares solver of another processor has another one there.
    """
    pairs = list(zip_longest(found.split(","), stored.split(","), fillvalue=""))
    return all(one == other or _close(one, other) for one, other in pairs)


def _close(found: str, stored: str) -> bool:
    try:
        return math.isclose(float(found), float(stored), rel_tol=2e-8)
    except ValueError:
        return False


def check_entry(name: str, key: str, found: Any) -> None:
    """Compare one entry of a stored JSON object."""
    stored = _entries(name)
    if WRITES:
        stored[key] = found
        _write(name, stored)
    assert stored.get(key) == found, f"{key} in {name} changed: make golden"


def check_keys(name: str, keys: Iterable[str]) -> None:
    """Check that a stored JSON object has these keys and no other."""
    stored, keys = _entries(name), set(keys)
    if WRITES:
        stored = {key: value for key, value in stored.items() if key in keys}
        _write(name, stored)
    assert stored.keys() == keys


def _entries(name: str) -> dict[str, Any]:
    path = FOLDER / name
    entries: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return entries


def _write(name: str, entries: dict[str, Any]) -> None:
    text = json.dumps(entries, indent=1, sort_keys=True, ensure_ascii=False)
    (FOLDER / name).write_text(text + "\n", encoding="utf-8")
