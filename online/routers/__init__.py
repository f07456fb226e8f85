"""The routers; importing this package registers them all."""

from __future__ import annotations

from . import blind, counting, predicting  # noqa: F401
