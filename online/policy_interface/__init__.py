"""Interface of policies: observations, decisions, and base classes to build on."""

from __future__ import annotations

from .policy import *  # noqa: F403 (what every policy uses)
