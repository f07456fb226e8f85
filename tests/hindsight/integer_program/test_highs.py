"""HiGHS behind the models: what one solve leaves to the next of the same process."""

from __future__ import annotations

import subprocess
import sys

import highspy
import numpy as np
import pytest

from hindsight import relax, solve
from hindsight.integer_program.highs import WarmProgram
from instances import generate


def test_a_solve_with_more_threads_leaves_others_their_programs() -> None:
    """The scheduler of HiGHS is global: with its size of before, one thread was an error."""
    solve(generate("arrival-model-1", 0, n=5), threads=2, method="mip")
    program = WarmProgram(np.array([1.0, 2.0]), np.array([3.0, 3.0]))
    program.add_row(2.0, np.inf, np.array([0, 1]), np.array([1.0, 1.0]))
    result = program.solve()
    assert result.bound == 2.0
    assert result.row_duals is not None


def test_highs_writes_nothing() -> None:
    """A process of its own: what HiGHS may write comes once, past Python's own streams."""
    program = "from instances import Instance; import hindsight; "
    program += "requests = Instance.from_arrays([3, 1, 2], [1, 3, 2], memory_limit=5); "
    program += "hindsight.solve(requests, method='mip'); hindsight.relax(requests, method='lp')"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (ran.stdout, ran.stderr) == (b"", b"")


def test_callbacks_begin_without_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS 1.16 prints its banner where callbacks are enabled, in the constructor."""
    flags = []
    enable = highspy.Highs.enableCallbacks

    def recorded(solver: highspy.Highs) -> None:
        flags.append(solver.getOptionValue("output_flag")[1])
        enable(solver)

    monkeypatch.setattr(highspy.Highs, "enableCallbacks", recorded)
    relax(generate("arrival-model-1", 0, n=5), method="lp")
    assert flags
    assert not any(flags)
