"""The routers of this package. Importing this module registers all of them."""

from __future__ import annotations

from . import rules  # noqa: F401
