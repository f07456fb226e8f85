"""The routers; importing this package registers them all."""

from __future__ import annotations

from . import rules  # noqa: F401
