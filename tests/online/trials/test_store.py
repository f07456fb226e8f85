"""What a sweep keeps: one process writes a store, and the best bounds hold for all its trials."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import online
from instances import Instance, InvalidValueError
from online.trials.store import opened
from online.trials.trial import with_best_bounds

SMALL = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6, name="small")


def test_one_process_writes_a_store(tmp_path: Path) -> None:
    store = tmp_path / "trials.jsonl"
    with opened(store), pytest.raises(InvalidValueError, match="written by another process"):
        online.sweep([SMALL], "fcfs", store)


def test_a_better_run_improves_the_bounds_of_all() -> None:
    (worse,) = online.sweep([SMALL], "fcfs", optimum=None)
    better = replace(worse, policy="better", cost=8, lower=6)
    assert [(one.lower, one.upper) for one in with_best_bounds([worse, better])] == [(6, 8)] * 2
