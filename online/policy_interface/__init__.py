"""Interface of policies: what a policy sees and decides, and base classes for custom policies."""

from __future__ import annotations

from .policy import *  # noqa: F403 (what every policy uses)
