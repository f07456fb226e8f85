"""kill -9 at any moment, run again: what comes out is what an uninterrupted run gives."""

from __future__ import annotations

from pathlib import Path

from experiment_processes import TINY, TINY_TOTAL, dump, finish, kill, start, stored, wait_until

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
