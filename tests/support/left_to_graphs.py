"""A solve that leaves all that it can to graphs of paths."""

from __future__ import annotations

import pytest

from hindsight.paths.relaxation import Climb
from hindsight.rounds import graphs, latency

LITTLE = {"MOVES": 10, "MOVE_SLICE": 10, "SEARCHED_STATES": 1, "ASCENT": 1}


def leave_to_graphs(patch: pytest.MonkeyPatch, **constants: float) -> None:
    """Take all other work from a solve, and set further constants of it."""
    patch.setattr(graphs, "CLIMB", Climb(3))
    for name, value in {**LITTLE, **constants}.items():
        patch.setattr(latency, name, value)
