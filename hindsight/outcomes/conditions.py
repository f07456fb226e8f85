"""Bounds that rest on what nothing here proves, in words."""

from __future__ import annotations


def claim(bound: int | None, conditions: tuple[str, ...]) -> str:
    """A conditional bound and what it rests on; empty where it rests on nothing."""
    if not conditions:
        return ""
    return f"{bound} if {' and '.join(conditions)} {'holds' if len(conditions) == 1 else 'hold'}"
