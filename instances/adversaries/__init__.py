"""Hard instances of the papers: traps, cascades, adversaries, reductions."""

from __future__ import annotations

# Importing these modules registers their generators.
from . import cascade, reductions, sqrt_n_adversary, traps  # noqa: F401
