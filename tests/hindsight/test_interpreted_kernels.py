"""Compiled loops once more as plain Python, in which no index may leave its array."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from interpreted_kernels import interpreted

ROOT = Path(__file__).parents[2]

# Tests whose loops are short, so that they take little time in Python either.
TABLES = """
prices/test_states.py
paths/test_relaxation.py::test_a_climb_closes_the_gap_of_the_three
prices/test_stops.py
exact/test_states.py::test_twins_start_in_order_of_arrival_whatever_their_order
"""
EVERY_ROOM = """
prices/test_tokens.py::test_a_minimum_many_blocks_later_is_found
prices/test_volume.py::test_fractions_are_not_rounded_to_the_nearest
prices/test_state_ascent.py::test_large_prices_do_not_overflow
prices/test_state_tables.py
exact/test_stops.py
schedules/test_orders.py::test_a_longer_schedule_that_is_better_is_followed
schedules/test_beams.py::test_a_beam_of_everything_finds_the_optimum
schedules/test_orders.py::test_small_optima_are_reached[0]
schedules/test_moves.py::test_nothing_but_its_region_matters_to_a_move
paths/test_relaxation.py::test_graphs_have_as_many_nodes_as_ever
paths/test_relaxation.py::test_prices_that_go_astray_prove_nothing_false[1.0-True]
paths/test_relaxation.py::test_limits_and_stops
prices/test_relaxation.py::test_auto_goes_on_by_prices_where_highs_finds_no_optimum
schedules/test_keys.py::test_a_stop_leaves_the_first_schedule
schedules/test_serving.py
test_compile_kernels.py::test_each_part_runs_whatever_is_proved_before
"""


def run_interpreted(tests: str) -> str:
    paths = [str(ROOT / "tests" / folder) for folder in ("oracles", "support")]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *["-q", "-n", "0", "-p", "no:cacheprovider", "-p", "interpreted_kernels", "-m"],
            "not slow",
            *(f"tests/hindsight/{one}" for one in tests.split()),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def test_loops_that_read_tables_stay_within_them() -> None:
    run_interpreted(TABLES)


@pytest.mark.slow
def test_every_loop_stays_within_its_arrays() -> None:
    assert "never ran" not in run_interpreted(TABLES + EVERY_ROOM)


def _last(table: np.ndarray, place: int) -> int:
    unset = np.empty(2, np.int64)
    return int(table[place] + table[-1] + unset[0])


@pytest.mark.parametrize("place", [-1, 3])
def test_an_index_outside_is_seen(place: int) -> None:
    with pytest.raises(IndexError):
        interpreted(_last)(np.arange(3), place)


def test_what_is_unset_stands_out() -> None:
    assert interpreted(_last)(np.arange(3), 2) < -(1 << 60)
