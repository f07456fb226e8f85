"""Results that several tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiment_processes import TINY

from online.experiment import parse_experiment, run_experiment


@pytest.fixture(scope="session")
def tiny_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny experiment, run without interruption in one process. Not to be written to."""
    path = tmp_path_factory.mktemp("tiny") / "whole.sqlite"
    run_experiment(parse_experiment(TINY), path)
    return path
