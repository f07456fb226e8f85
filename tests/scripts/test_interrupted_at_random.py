"""Ctrl-C in a terminal and in a kernel, on two processes: a trial of each kind.

``tests/support/interrupt_at_random.py`` does the same at random moments, and prints what is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from interrupt_at_random import Trial, experiment_in_terminal, in_kernel, kernel, ratios_in_terminal


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.4, 3.0, 8.0, 15.0])
@pytest.mark.parametrize("trial", [ratios_in_terminal, experiment_in_terminal])
def test_in_a_terminal(
    trial: Callable[[float, Path], Trial], moment: float, tmp_path: Path
) -> None:
    assert trial(moment, tmp_path).faults == ()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_in_a_kernel_that_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("ipykernel")
    pytest.importorskip("jupyter_client")
    with kernel() as one:
        for what in ("compare_many", "run_experiment", "solve"):
            assert in_kernel(one, what, 6.0, tmp_path).faults == ()
