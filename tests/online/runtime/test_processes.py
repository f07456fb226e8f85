"""The pool of worker processes: what comes back, and how it ends."""

from __future__ import annotations

import os
import signal
import textwrap
from pathlib import Path

import pytest
from pool_tasks import (
    die_of_thirteen,
    double,
    lock,
    refuse,
    refuse_oddly,
    tell_and_sleep,
    tell_and_wait,
)
from process_groups import (
    end,
    members,
    press_ctrl_c,
    start,
    wait_until,
    wait_until_gone,
    wait_until_printed,
)

from instances.ctrl_c import Interruption
from online.runtime.processes import Completed, WorkerDiedError, WorkerPool, run_tasks


def everything(pool: WorkerPool[int, int]) -> list[Completed[int, int]]:
    back: list[Completed[int, int]] = []
    while pool.pending:
        back += pool.wait()
    return back


def test_what_tasks_return_and_raise_comes_back() -> None:
    with WorkerPool[int, int](2) as pool:
        assert list(pool.map(double, [3, 3, 1, 2])) == [6, 6, 2, 4]
        for function in (refuse, refuse_oddly, lock):
            pool.submit(function, 5)  # type: ignore[arg-type]
        errors = [back.error for back in everything(pool)]
        kinds = sorted(type(error).__name__ for error in errors)
        assert kinds == ["RuntimeError", "TypeError", "ValueError"]
        told = [str(error) for error in errors]
        assert "not 5" in told
        assert "Unpicklable: kept here" in told
        with pytest.raises(ValueError, match="not 7") as raised:
            list(pool.map(refuse, [7]))
        assert "in refuse" in raised.value.__notes__[0]


def test_a_worker_that_dies_takes_along_its_own_task_only() -> None:
    with WorkerPool[int, int](2, allowed_deaths=1) as pool:
        for number in (1, 13, 2, 3):
            pool.submit(die_of_thirteen, number)
        back = everything(pool)
        assert sorted(each.task for each in back if each.error is None) == [1, 2, 3]
        (lost,) = [each for each in back if each.error is not None]
        assert lost.task == 13
        assert isinstance(lost.error, WorkerDiedError)
        assert str(lost.error) == "the worker died (signal 9, Killed)"
    with WorkerPool[int, int](1) as pool:
        pool.submit(die_of_thirteen, 13)
        (lost,) = everything(pool)
        assert str(lost.error) == "3 workers died (signal 9, Killed)"


def test_what_does_not_end_in_time_is_left() -> None:
    pids: list[int] = []
    run = run_tasks(
        [1],
        tell_and_sleep,
        2,
        Interruption(),
        hear=lambda task, pid: pids.append(pid),
        lost=lambda task, reason: -1,
        must_stop=lambda: 2 * len(pids),
    )
    assert list(run) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_closing_ends_what_is_being_done() -> None:
    heard: list[int] = []
    pool = WorkerPool[int, object](1, hear=lambda task, pid: heard.append(pid))
    pool.submit(tell_and_wait, 1)
    while not heard:
        pool.wait(0.1)
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(heard[0], 0)


WAITING = """
    import math
    from instances.ctrl_c import Interruption
    from online.runtime.processes import WorkerPool
    from pool_tasks import tell_and_wait

    if __name__ == "__main__":
        with WorkerPool(2, hear=lambda task, pid: print("at work", flush=True)) as pool:
            with Interruption(math.inf) as pressed:
                for number in range(5):
                    pool.submit(tell_and_wait, number)
                back, told = [], False
                while pool.pending:
                    if pressed() and not told:
                        pool.stop()
                        told = True
                    back += pool.wait(0.1)
            print(sorted(each.value() for each in back), flush=True)
"""


def waiting_program(folder: Path) -> Path:
    """Two workers busy until they are given up, three tasks that wait for them."""
    path = folder / "waiting.py"
    path.write_text(textwrap.dedent(WAITING))
    return path


@pytest.mark.parametrize("group", [True, False], ids=["terminal", "notebook"])
def test_ctrl_c_is_the_parents_to_hear(tmp_path: Path, group: bool) -> None:
    process = start(waiting_program(tmp_path))
    wait_until_printed(process, "at work", "at work")
    for _ in range(3):
        press_ctrl_c(process, group=group)
    printed, complained = end(process)
    assert (process.returncode, complained) == (0, "")
    assert printed == "[(0, 'stopped'), (1, 'stopped')]\n"
    wait_until_gone(process.pid)


def test_ctrl_c_while_workers_start_does_not_end_them(tmp_path: Path) -> None:
    """What a worker imports takes a second or more, in which nothing handles the signal."""
    process = start(waiting_program(tmp_path))
    # The resource tracker of multiprocessing is one of them.
    wait_until(lambda: len(members(process.pid)) == 4, "workers to start")
    for pid in members(process.pid):
        if pid != process.pid:
            os.kill(pid, signal.SIGINT)
    wait_until_printed(process, "at work", "at work")
    press_ctrl_c(process)
    printed, complained = end(process)
    assert (printed, complained) == ("[(0, 'stopped'), (1, 'stopped')]\n", "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    process = start(waiting_program(tmp_path))
    wait_until_printed(process, "at work", "at work")
    process.send_signal(number)
    end(process)
    assert process.returncode == -number
    wait_until_gone(process.pid)


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "unguarded.py"
    path.write_text(
        "from online.runtime.processes import WorkerPool\n"
        "from pool_tasks import double\n"
        "with WorkerPool(1) as pool:\n"
        "    print(list(pool.map(double, [1])))\n"
    )
    process = start(path)
    _, complained = end(process)
    assert process.returncode == 1
    assert complained.splitlines()[-1].endswith('its entry with if __name__ == "__main__"')
    wait_until_gone(process.pid)
