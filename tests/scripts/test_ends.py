"""How command lines end: interrupted, with nobody to read them, with outputs that fail."""

from __future__ import annotations

import csv
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from forked_scripts import Process
from process_groups import end, press_ctrl_c, start, wait_until_gone, wait_until_printed

import instances

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"


def patched(folder: Path, name: str, code: str) -> Path:
    """The subcommand ``name`` with ``code`` run first, as a program."""
    path = folder / "patched.py"
    path.write_text(
        f"import sys\nfrom llm_hindsight import run_subcommand\n"
        f"{textwrap.dedent(code)}\n"
        f'if __name__ == "__main__":\n    run_subcommand("{name}")\n'
    )
    return path


# --- Ctrl-C ------------------------------------------------------------------------------------


def assert_interrupted(process: subprocess.Popen[str], at: str) -> None:
    """Ctrl-C once it has printed ``at`` ends it in one line."""
    wait_until_printed(process, at)
    press_ctrl_c(process)
    printed, complained = end(process)
    assert (process.returncode, printed, complained) == (130, "", "error: interrupted\n")


def test_ctrl_c_while_libraries_load_is_one_line(tmp_path: Path, small: Path) -> None:
    """One library stands for all: it says where it is and takes its time."""
    (tmp_path / "typer.py").write_text(
        "import time\nprint('loading', flush=True)\n"
        "try:\n    time.sleep(60)\nexcept BaseException:\n    pass\n"
    )
    process = start(SCRIPTS / "solve.py", small, path=tmp_path)
    assert_interrupted(process, "loading")


def test_ctrl_c_while_the_instance_is_read_is_one_line(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    process = start(
        patched(
            tmp_path,
            "solve",
            """
            import instances
            def load(path):
                print("reading", flush=True)
                open(path).read()
            instances.load = load
            """,
        ),
        pipe,
    )
    assert_interrupted(process, "reading")


def test_ctrl_c_while_a_subcommand_is_loaded_is_one_line(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal\nfrom online.commands import application\n"
        "application._command = lambda name: os.kill(os.getpid(), signal.SIGINT)\n"
        "application.run_application('program', {'ratios': '', 'solve': ''})\n"
    )
    process = start(program, "ratios")
    assert (*end(process), process.returncode) == ("", "error: interrupted\n", 130)


@pytest.mark.parametrize("pause", [0.0, pytest.param(1.1, marks=pytest.mark.slow)])
def test_ctrl_c_again_and_again_loses_nothing(tmp_path: Path, pause: float) -> None:
    """In a hurry, or until the search is broken off at once: what was found is saved and shown."""
    path, out = tmp_path / "large.json", tmp_path / "out.json"
    instances.save(instances.generate("arrival-model-1", 0, n=30), path)
    process = start(
        patched(
            tmp_path,
            "solve",
            f"""
            import time
            import hindsight
            from hindsight.outcomes.interval import Interval
            is_done = Interval.is_done
            def telling(self):
                print("searching", file=sys.stderr, flush=True)
                # Deaf to the first Ctrl-C, as a step that takes long would be.
                time.sleep({3 * pause})
                return is_done(self)
            Interval.is_done = telling
            """,
        ),
        *[path, "--out", out],
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "searching\n"
    for _ in range(3):
        press_ctrl_c(process)
        time.sleep(pause)
    printed, complained = end(process)
    assert process.returncode == 130, complained
    assert "Traceback" not in complained
    assert "feasible (interrupted)" in printed
    known = instances.known_bounds(instances.load(out))
    assert known is not None
    assert 0 < (known.lower_bound or 0) < (known.upper_bound or 0)


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False], ids=["terminal", "notebook"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_shows_what_is_done(jobs: int, group: bool, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    drawn = "generator:arrival-model-1(n=15, count=24)"
    given = (drawn, "--policy", "mc-sf", "--jobs", jobs, "--out", out)
    process = start(SCRIPTS / "competitive_ratios.py", *given)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=15)
    press_ctrl_c(process, group=group)
    printed, complained = end(process)
    assert (process.returncode, complained) == (130, "")
    assert "trials not run" in printed
    rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    done = [row for row in rows if row["status"] == "completed"]
    assert jobs <= len(done) < 24
    assert all(row["ratio_upper"] for row in done)
    assert [row["stop_reason"] for row in done].count("interrupted") == jobs
    wait_until_gone(process.pid)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_command_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    source = "generator:arrival-model-1(n=18, count=4)"
    process = start(SCRIPTS / "competitive_ratios.py", source, "--policy", "mc-sf", "--jobs", 2)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=15)
    process.send_signal(number)
    end(process)
    assert process.returncode == -number
    wait_until_gone(process.pid)


# --- outputs -----------------------------------------------------------------------------------


def unread(*arguments: object, cwd: Path) -> Process:
    """The script, with a reader that has left before the first line."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=240,
        )
    finally:
        os.close(writer)


TRACE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:46.9951690,396,109
"""


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("solve small.json --out o.json --certificate p.json --time-limit 0", "o.json p.json"),
        ("generate 'trace:trace.csv(memory_limit=9999)' --out out.json", "out.json"),
        pytest.param("competitive_ratios small.json --policy fcfs --out r.md", "r.md", marks=SLOW),
        pytest.param(
            "reproduce c25-figure-2 --quick --out made --page page.md", "page.md", marks=SLOW
        ),
    ],
)
def test_files_are_written_though_nobody_reads(small: Path, line: str, files: str) -> None:
    folder, (name, *arguments) = small.parent, shlex.split(line)
    (folder / "trace.csv").write_text(TRACE)
    process = unread(SCRIPTS / f"{name}.py", *arguments, cwd=folder)
    assert (process.returncode, process.stderr) == (2, "")
    assert [file for file in files.split() if not (folder / file).exists()] == []


def full_disk(folder: Path, name: str, target: str, suffix: str) -> Path:
    """The subcommand ``name`` where ``write_atomically`` of the module fails for such a file."""
    return patched(
        folder,
        name,
        f"""
        import errno
        import {target} as module
        write = module.write_atomically
        def write_or_not(path, content):
            if str(path).endswith({suffix!r}):
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            write(path, content)
        module.write_atomically = write_or_not
        """,
    )


def test_a_certificate_that_cannot_be_written_loses_nothing_else(
    tmp_path: Path, small: Path
) -> None:
    program = full_disk(tmp_path, "solve", "hindsight.certificates.writing", "proof.json")
    out, proof = tmp_path / "out.json", tmp_path / "proof.json"
    process = start(program, small, "--out", out, "--certificate", proof)
    printed, complained = end(process)
    assert complained == f"error: {proof}: No space left on device\n"
    assert process.returncode == 2
    assert "status                 optimal" in printed
    assert instances.known_bounds(instances.load(out)) is not None
    assert not proof.exists()


@pytest.mark.slow
def test_records_that_cannot_be_written_are_shown(tmp_path: Path, small: Path) -> None:
    out = tmp_path / "out.csv"
    program = full_disk(tmp_path, "ratios", "online.commands.ratios", "out.csv")
    process = start(program, small, "--policy", "fcfs", "--out", out)
    printed, complained = end(process)
    assert (process.returncode, complained) == (2, f"error: {out}: No space left on device\n")
    assert "fcfs" in printed


@pytest.mark.parametrize(("target", "status"), [(">&-", 0), ("> /dev/full", 2)])
def test_no_standard_output_at_all(tmp_path: Path, target: str, status: int) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, SCRIPTS / "generate.py", "generator:uniform", "--out", out]
    process = subprocess.run(
        ["sh", "-c", f'"$@" {target}', "sh", *map(str, command)],
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert process.returncode == status
    assert process.stderr.count("\n") == bool(status)
    assert "Traceback" not in process.stderr
    assert out.exists()
