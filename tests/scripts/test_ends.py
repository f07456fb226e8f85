"""How command lines end: interrupted, with nobody to read them, with outputs that fail."""

from __future__ import annotations

import csv
import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from forked_scripts import SCRIPTS
from process_groups import end, press_ctrl_c, start, wait_until_gone, wait_until_printed

import instances


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


READS = """
import instances
def load(path):
    print("reading", flush=True)
    open(path).read()
instances.load = load
"""
SEARCHES = """
from hindsight.outcomes.interval import Interval
is_done = Interval.is_done
def telling(self):
    print("searching", file=sys.stderr, flush=True)
    return is_done(self)
Interval.is_done = telling
"""


def test_ctrl_c_while_the_instance_is_read_is_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    process = start(patched(tmp_path, "solve", READS), tmp_path / "pipe.json")
    assert_interrupted(process, "reading")


def test_ctrl_c_again_and_again_loses_nothing(tmp_path: Path) -> None:
    path, out = tmp_path / "large.json", tmp_path / "out.json"
    instances.save(instances.generate("arrival-model-1", 0, n=30), path)
    process = start(patched(tmp_path, "solve", SEARCHES), path, "--out", out)
    assert process.stderr is not None
    assert process.stderr.readline() == "searching\n"
    for _ in range(3):
        press_ctrl_c(process)
    printed, complained = end(process)
    assert process.returncode == 130, complained
    assert "Traceback" not in complained
    assert "interrupted" in printed
    known = instances.known_bounds(instances.load(out))
    assert known is not None
    assert 0 < (known.lower_bound or 0) < (known.upper_bound or 0)


def ratios(source: str, *options: object) -> subprocess.Popen[str]:
    """A table of two processes that takes longer than fifteen seconds, after these seconds."""
    given = (f"generator:{source}", "--policy", "mc-sf", "--jobs", 2, *options)
    process = start(SCRIPTS / "competitive_ratios.py", *given)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=15)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False], ids=["terminal", "notebook"])
def test_ctrl_c_shows_what_is_done(group: bool, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    process = ratios("arrival-model-1(n=15, count=24)", "--out", out)
    press_ctrl_c(process, group=group)
    printed, complained = end(process)
    assert (process.returncode, complained) == (130, "")
    assert "trials not run" in printed
    rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    done = [row for row in rows if row["status"] == "completed"]
    assert 2 <= len(done) < 24
    assert all(row["ratio_upper"] for row in done)
    assert [row["stop_reason"] for row in done].count("interrupted") == 2
    wait_until_gone(process.pid)


# --- outputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("solve small.json --out o.json --certificate p.json --time-limit 0", "o.json p.json"),
        ("competitive_ratios small.json --policy fcfs --out r.md", "r.md"),
    ],
)
def test_files_are_written_though_nobody_reads(small: Path, line: str, files: str) -> None:
    """The reader has left before the first line."""
    folder, (name, *arguments) = small.parent, shlex.split(line)
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, SCRIPTS / f"{name}.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=240,
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (2, b"")
    assert [file for file in files.split() if not (folder / file).exists()] == []


FULL_DISK = """
import errno
import hindsight.certificates.writing as module
write = module.write_atomically
def write_or_not(path, content):
    if str(path).endswith("proof.json"):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))
    write(path, content)
module.write_atomically = write_or_not
"""


def test_a_certificate_that_cannot_be_written_loses_nothing_else(
    tmp_path: Path, small: Path
) -> None:
    out, proof = tmp_path / "out.json", tmp_path / "proof.json"
    program = patched(tmp_path, "solve", FULL_DISK)
    process = start(program, small, "--out", out, "--certificate", proof)
    printed, complained = end(process)
    assert complained == f"error: {proof}: No space left on device\n"
    assert process.returncode == 2
    assert "optimal" in printed
    assert instances.known_bounds(instances.load(out)) is not None
    assert not proof.exists()


@pytest.mark.parametrize(("target", "status"), [(">&-", 0), ("> /dev/full", 2)])
def test_no_standard_output_at_all(tmp_path: Path, target: str, status: int) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, SCRIPTS / "generate.py", "generator:uniform", "--out", out]
    shell = ["sh", "-c", f'"$@" {target}', "sh", *map(str, command)]
    process = subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=120)
    assert process.returncode == status
    assert process.stderr.count("\n") == bool(status)
    assert "Traceback" not in process.stderr
    assert out.exists()
