"""Experiments: declared, run on cores or an executor, stored as they go, read back as tables."""

from __future__ import annotations

from .configuration import parse_experiment, preset, preset_names, read_experiment
from .declaration import Experiment, Predictions, Solver
from .families import Family, InstanceFiles, LibraryInstances, TraceWindows
from .ratio_table import RatioRow, ratio_csv, ratio_notes, ratio_reasons, ratio_rows, ratio_table
from .results import Results, read_results
from .runner import ExperimentOutcome, ExperimentProgress, run_experiment

__all__ = [
    "Experiment",
    "ExperimentOutcome",
    "ExperimentProgress",
    "Family",
    "InstanceFiles",
    "LibraryInstances",
    "Predictions",
    "RatioRow",
    "Results",
    "Solver",
    "TraceWindows",
    "parse_experiment",
    "preset",
    "preset_names",
    "ratio_csv",
    "ratio_notes",
    "ratio_reasons",
    "ratio_rows",
    "ratio_table",
    "read_experiment",
    "read_results",
    "run_experiment",
]
