"""A policy played on an instance: the machine, the run, what it measures."""

from __future__ import annotations

from .metrics import summarize
from .run import IncompleteRunError, Rounds, Run
from .simulator import simulate

__all__ = ["IncompleteRunError", "Rounds", "Run", "simulate", "summarize"]
