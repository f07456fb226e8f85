"""Instances of the papers that are hard for policies or solvers."""

from __future__ import annotations

# Importing these modules registers their generators.
from . import cascade, reductions, sqrt_n_adversary, traps  # noqa: F401
