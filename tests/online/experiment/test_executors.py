"""Experiments on executors: local processes, and two workers of Dask."""

from __future__ import annotations

import importlib
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from experiment_processes import TINY, TINY_TOTAL, dump

from online.experiment import (
    Experiment,
    Family,
    parse_experiment,
    read_results,
    run_experiment,
    runner,
)


def here(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that a run in this process stores."""
    run_experiment(parse_experiment(TINY), path)
    return dump(path)


def test_local_processes_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "IN_FLIGHT", 3)
    with ProcessPoolExecutor(2) as executor:
        outcome = run_experiment(parse_experiment(TINY), tmp_path / "r.sqlite", executor=executor)
    assert (outcome.computed, outcome.failed) == (TINY_TOTAL, 0)
    assert dump(tmp_path / "r.sqlite") == here(tmp_path / "here.sqlite")


class Broken(Executor):
    """Does the first task, and loses all others."""

    def __init__(self) -> None:
        self.submitted: list[Future[Any]] = []

    def submit(self, function: Any, /, *args: Any, **options: Any) -> Future[Any]:
        """Do it at once."""
        future: Future[Any] = Future()
        if not self.submitted:
            future.set_result(function(*args, **options))
        elif len(self.submitted) == 1:
            future.set_exception(ConnectionError("lost"))
        self.submitted.append(future)
        return future


def test_an_error_of_the_executor_ends_the_run_and_the_next_goes_on(tmp_path: Path) -> None:
    executor = Broken()
    with pytest.raises(ConnectionError, match="lost"):
        run_experiment(parse_experiment(TINY), tmp_path / "r.sqlite", executor=executor)
    assert all(future.done() for future in executor.submitted), "what is left is cancelled"
    rest = run_experiment(parse_experiment(TINY), tmp_path / "r.sqlite").computed
    assert TINY_TOTAL - 1 <= rest <= TINY_TOTAL
    assert dump(tmp_path / "r.sqlite") == here(tmp_path / "here.sqlite")


@pytest.mark.timeout(300)
def test_two_workers_of_dask_run_a_policy_of_ones_own(tmp_path: Path) -> None:
    """No worker can import its file, which is gone when the run begins."""
    pytest.importorskip("distributed")
    distributed: Any = importlib.import_module("distributed")
    path = tmp_path / "rule_of_mine.py"
    path.write_text(
        "from online.policy_interface import PriorityPolicy\n"
        "class Mine(PriorityPolicy):\n"
        "    def priority(self, request): return request.output_length\n"
    )
    family = Family("uniform", {"n": 4, "maximum_length": 6, "memory_limit": 14}, range(3))
    experiment = Experiment("e", [family], [f"{path}:Mine", "mc-sf"], solver=None)
    path.unlink()
    results = tmp_path / "r.sqlite"
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        outcome = run_experiment(experiment, results, executor=client.get_executor())
    assert (outcome.computed, outcome.failed) == (6, 0)
    totals = [one.total_latency for one in read_results(results)]
    assert totals[::2] == totals[1::2]
