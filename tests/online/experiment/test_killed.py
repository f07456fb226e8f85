"""kill -9 at any moment, run again: what comes out is what an uninterrupted run gives."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from experiment_processes import (
    TINY,
    TINY_TOTAL,
    dump,
    finish,
    kill,
    start,
    stored,
    tables,
    wait_until,
)

from online.experiment import ratio_csv, ratio_rows, read_results


def table(path: Path) -> str:
    return ratio_csv(ratio_rows(read_results(path)))


def test_a_few_kills_leave_no_trace(tmp_path: Path, tiny_results: Path) -> None:
    config = tmp_path / "tiny.toml"
    config.write_text(TINY)
    broken = tmp_path / "broken.sqlite"
    for threshold in (1, 17):
        process = start(config, "--results", broken, "--jobs", 1)
        wait_until(lambda least=threshold: stored(broken) >= least, process)
        assert kill(process)
    before = stored(broken)
    assert before < TINY_TOTAL
    printed = finish(start(config, "--results", broken, "--jobs", 1))
    assert f"{TINY_TOTAL - before} computed now, 0 failed" in printed
    assert dump(broken) == dump(tiny_results)
    assert table(broken) == table(tiny_results)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_twenty_kills_of_two_hundred_trials(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.sqlite", tmp_path / "broken.sqlite"
    finish(start("--preset", "smoke", "--results", whole, "--jobs", 1))
    total = stored(whole)
    assert total == 220
    rng = np.random.default_rng(7)
    # Five at any moment of the start, where file and tables are made; fifteen during the work.
    thresholds = [0] * 5 + sorted(rng.choice(np.arange(1, total - 5), 15, replace=False).tolist())
    kills = 0
    for threshold in thresholds:
        process = start("--preset", "smoke", "--results", broken, "--jobs", 2)
        wait_until(lambda least=threshold: stored(broken) >= least, process)
        time.sleep(float(rng.uniform(0, 0.05 if threshold else 1.5)))
        kills += kill(process)
    assert kills == 20
    finish(start("--preset", "smoke", "--results", broken, "--jobs", 2))
    assert dump(broken) == dump(whole)
    assert tables(broken) == tables(whole)
