"""A real scheduler and real workers on loopback."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from experiment_processes import (
    DEADLY_SEED,
    TINY,
    dump,
    environment,
    finish,
    perform_or_die,
    start,
    stored,
    tables,
    wait_until,
)

from online.experiment import (
    Experiment,
    Family,
    parse_experiment,
    read_results,
    run_experiment,
)
from online.experiment.dask_cluster import ClusterError, DaskCluster, messages_rerouted
from online.experiment.plan import make_plan
from online.experiment.work import TrialTask

distributed = pytest.importorskip("distributed")


@contextlib.contextmanager
def dask(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """``dask`` with these arguments, ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", *map(str, arguments), "--no-dashboard"],
        env={
            **environment(),
            "PYTHONPATH": f"{environment()['PYTHONPATH']}:{Path(__file__).parents[2] / 'support'}",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[str]]]]:
    """The address of a scheduler with two workers, and the workers."""
    file = folder / "scheduler.json"
    # Workers without nannies: one that is killed stays dead.
    worker = ("worker", "--scheduler-file", file, "--nthreads", 1, "--no-nanny")
    with (
        dask("scheduler", "--host", "127.0.0.1", "--port", 0, "--scheduler-file", file),
        dask(*worker) as one,
        dask(*worker) as two,
    ):
        wait_until(file.exists)
        address = json.loads(file.read_text())["address"]
        with distributed.Client(address) as client:
            client.wait_for_workers(2, timeout=120)
        yield address, [one, two]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_that_loses_a_worker_gives_the_table_of_local_cores(tmp_path: Path) -> None:
    local, remote = tmp_path / "local.sqlite", tmp_path / "remote.sqlite"
    finish(start("--preset", "smoke", "--results", local, "--jobs", 2))
    with cluster(tmp_path) as (address, workers):
        process = start("--preset", "smoke", "--results", remote, "--scheduler", address)
        wait_until(lambda: stored(remote) >= 60, process)
        assert process.poll() is None
        workers[0].kill()
        before = stored(remote)
        assert before < 220
        finish(process)
        assert workers[1].poll() is None
    assert dump(remote) == dump(local)
    assert tables(remote) == tables(local)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_lost_scheduler_ends_the_run_in_one_line_and_the_rest_is_done_later(
    tmp_path: Path,
) -> None:
    results = tmp_path / "results.sqlite"
    with cluster(tmp_path) as (address, _):
        process = start("--preset", "smoke", "--results", results, "--scheduler", address)
        wait_until(lambda: stored(results) >= 30, process)
    printed, _ = process.communicate(timeout=240)
    assert process.returncode == 2, printed
    assert "Traceback" not in printed
    assert f"error: the Dask scheduler at {address} was lost" in printed
    finish(start("--preset", "smoke", "--results", results, "--jobs", 1))
    assert stored(results) == 220


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_task_that_kills_workers_comes_back_as_an_error(tmp_path: Path) -> None:
    experiment = parse_experiment(TINY.replace("policy_seeds = [0, 1]", "policy_seeds = [13, 1]"))
    tasks: list[TrialTask] = list(make_plan(experiment).trials.values())
    deadly = next(task for task in tasks if task.seed == DEADLY_SEED)
    file = tmp_path / "scheduler.json"
    # With nannies, which replace the workers that die.
    with (
        dask("scheduler", "--host", "127.0.0.1", "--port", 0, "--scheduler-file", file),
        dask("worker", "--scheduler-file", file, "--nthreads", 1),
    ):
        wait_until(file.exists)
        with contextlib.closing(DaskCluster(json.loads(file.read_text())["address"])) as own:
            ((row, _),) = own.map(perform_or_die, [deadly])
    assert (row.key, row.status) == (deadly.key, "failed")
    assert "died" in str(row.error)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_policy_of_ones_own_goes_along_to_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker can import the file, or what it imports: both are gone when the run begins."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "order_of_mine.py").write_text("def order(request): return request.output_length\n")
    (tmp_path / "rule_of_mine.py").write_text(
        "from order_of_mine import order\n"
        "from online.policy_interface import LookaheadPrefixPolicy\n"
        "class Mine(LookaheadPrefixPolicy):\n"
        "    def priority(self, request): return order(request)\n"
    )
    family = Family("uniform", {"n": 4, "maximum_length": 6, "memory_limit": 14}, range(3))
    mine = f"{tmp_path / 'rule_of_mine.py'}:Mine"
    experiment = Experiment("e", [family], [mine, "mc-sf"], solver=None)
    for name in ("rule_of_mine", "order_of_mine"):
        (tmp_path / f"{name}.py").unlink()
    results = tmp_path / "r.sqlite"
    with cluster(tmp_path) as (address, _):
        outcome = run_experiment(experiment, results, scheduler=address)
    assert (outcome.computed, outcome.failed) == (6, 0)
    totals = [one.total_latency for one in read_results(results)]
    assert totals[::2] == totals[1::2]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is written by handlers like those distributed makes at its import.

    It makes them where logging is not set up; pytest's is.
    """
    stream = io.StringIO()
    for name in ("distributed", "distributed.client", "tornado.application"):
        logger = logging.getLogger(name)
        monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(stream)])
        monkeypatch.setattr(logger, "propagate", False)
    return stream


def complain(text: str) -> None:
    """As distributed does where its connection breaks while it makes a new one."""
    try:
        raise ConnectionRefusedError(text)
    except ConnectionRefusedError:
        for name in ("distributed.client", "distributed.core", "tornado.application"):
            logging.getLogger(name).exception("%s %s", name, text)


def test_what_distributed_says_of_a_connection_is_not_printed(
    printed: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "online.experiment.dask_cluster"):
        with messages_rerouted():
            with messages_rerouted():
                complain("twice")
            complain("once")
        assert printed.getvalue() == ""
        kept = [record for record in caplog.records if record.levelno == logging.DEBUG]
        assert {record.name for record in kept} == {"online.experiment.dask_cluster"}
        messages = [record.getMessage().split()[-1] for record in kept]
        assert messages == ["twice"] * 3 + ["once"] * 3
        assert all(record.exc_info is not None for record in kept)
    complain("after")
    assert printed.getvalue().count("ConnectionRefusedError: after") == 3


def test_a_handler_of_the_users_own_still_hears_distributed(printed: io.StringIO) -> None:
    class Kept(logging.StreamHandler[io.StringIO]):
        """Not the class that distributed makes."""

    stream = io.StringIO()
    kept = Kept(stream)
    logger = logging.getLogger("distributed.client")
    logger.addHandler(kept)
    try:
        with messages_rerouted():
            complain("heard")
    finally:
        logger.removeHandler(kept)
    assert "distributed.client heard" in stream.getvalue()
    assert printed.getvalue() == ""


def test_nobody_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: io.StringIO
) -> None:
    monkeypatch.setattr("online.experiment.dask_cluster.CONNECT_SECONDS", 0.3)
    with pytest.raises(ClusterError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"):
        run_experiment(parse_experiment(TINY), tmp_path / "r.sqlite", scheduler="tcp://127.0.0.1:9")
    assert printed.getvalue() == ""
    complain("after")
    assert "after" in printed.getvalue()
