"""Simulation of a policy on an instance: the machine, the record of a run, and its measurements."""

from __future__ import annotations

from .metrics import summarize
from .run import IncompleteRunError, Rounds, Run
from .simulator import simulate

__all__ = ["IncompleteRunError", "Rounds", "Run", "simulate", "summarize"]
