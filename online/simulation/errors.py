"""Errors inside the simulator."""

from __future__ import annotations


class InternalError(AssertionError):
    """The simulator produced something its own checker refuses: a bug of this package."""
