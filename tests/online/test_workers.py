"""Tasks in worker processes: what comes back, and how it ends."""

from __future__ import annotations

import multiprocessing
import signal
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from pool_tasks import die_of_thirteen, double, refuse
from process_groups import end, press_ctrl_c, start, wait_until_gone

from instances import InvalidValueError
from online.workers import in_order, perform


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_back_in_order(jobs: int) -> None:
    assert list(in_order(double, [3, 3, 1, 2], jobs)) == [6, 6, 2, 4]
    with pytest.raises(ValueError, match="not 7"):
        list(in_order(refuse, [7], jobs))


def test_what_tasks_raise_comes_back_with_them() -> None:
    outcomes = list(perform(refuse, [5, 6], jobs=2))
    assert sorted(str(one.error) for one in outcomes) == ["not 5", "not 6"]
    with pytest.raises(ValueError, match="not"):
        outcomes[0].value()


def test_a_worker_that_dies_ends_its_own_task_only() -> None:
    outcomes = {one.task: one for one in perform(die_of_thirteen, [1, 13, 2, 3], jobs=2)}
    assert [outcomes[number].result for number in (1, 2, 3)] == [1, 2, 3]
    assert isinstance(outcomes[13].error, BrokenExecutor)


def test_a_worker_may_die_before_the_next_task_is_given() -> None:
    def tasks() -> Iterator[int]:
        yield 13
        # Workers are started before the second task is asked for.
        while multiprocessing.active_children():
            time.sleep(0.05)
        yield 2

    outcomes = {one.task: one for one in perform(die_of_thirteen, tasks(), jobs=2)}
    assert outcomes[2].result == 2
    assert isinstance(outcomes[13].error, BrokenExecutor)


def test_an_executor_performs_instead() -> None:
    with ThreadPoolExecutor(2) as executor:
        outcomes = list(perform(double, [1, 2, 3], executor=executor))
    assert sorted(one.value() for one in outcomes) == [2, 4, 6]


@pytest.mark.parametrize("jobs", [1, 2])
def test_tasks_may_follow_from_outcomes(jobs: int) -> None:
    class Growing(Iterator[int]):
        def __init__(self) -> None:
            self.waiting = [1]

        def __next__(self) -> int:
            if not self.waiting:
                raise StopIteration
            return self.waiting.pop()

    tasks = Growing()
    found = []
    for outcome in perform(double, tasks, jobs=jobs):
        found.append(outcome.value())
        tasks.waiting += [outcome.value()] if outcome.value() < 9 else []
    assert found == [2, 4, 8, 16]


def test_jobs_are_counted_from_one() -> None:
    with pytest.raises(InvalidValueError, match="jobs = 0"):
        list(perform(double, [1], jobs=0))


@pytest.mark.parametrize(
    ("jobs", "group"), [(1, True), (2, True), (2, False)], ids=["alone", "terminal", "notebook"]
)
def test_ctrl_c_reaches_what_has_begun(jobs: int, group: bool, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            from pool_tasks import wait_for_ctrl_c
            from online.workers import perform

            if __name__ == "__main__":
                print(sorted(one.result for one in perform(wait_for_ctrl_c, range(9), jobs={jobs})))
            """
        )
    )
    process = start(program)
    assert process.stdout is not None
    for _ in range(jobs):
        assert process.stdout.readline().startswith("began")
    press_ctrl_c(process, group=group)
    printed, complained = end(process)
    assert (printed.strip(), complained) == (str(["stopped"] * jobs), "")
    wait_until_gone(process.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent(number: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from pool_tasks import sleep\nfrom online.workers import perform\n"
        "if __name__ == '__main__':\n    list(perform(sleep, range(4), jobs=2))\n"
    )
    process = start(program)
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline().startswith("began")
    process.send_signal(number)
    end(process)
    wait_until_gone(process.pid)
