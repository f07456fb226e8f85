"""scripts/generate.py as a process."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from forked_scripts import Refused, Script

import instances
from online.commands.generate import generate

ROOT = Path(__file__).resolve().parents[2]
MODEL = "generator:arrival-model-1"


def test_a_seed_gives_the_same_digest_again(script: Script, tmp_path: Path) -> None:
    source = "generator:arrival-model-1(seed=5, n=4, memory-limit=40)"
    for name in ("one.json", "two.json"):
        process = script("generate", source, "--out", tmp_path / name)
        assert process.returncode == 0, process.stderr
    one, two = (instances.load(tmp_path / name) for name in ("one.json", "two.json"))
    assert one == two == instances.generate("arrival-model-1", 5, n=4, memory_limit=40)
    assert one.digest in process.stdout


def test_several_instances_go_into_a_folder(script: Script, tmp_path: Path) -> None:
    folder = tmp_path / "drawn"
    process = script("generate", "generator:arrival-model-2(seed=7, count=2)", "--out", folder)
    assert process.returncode == 0, process.stderr
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["arrival-model-2-seed7.json", "arrival-model-2-seed8.json"]
    for seed, name in zip((7, 8), names, strict=True):
        drawn = instances.load(folder / name)
        assert drawn.digest == instances.generate("arrival-model-2", seed).digest
        assert drawn.digest in process.stdout


@pytest.mark.parametrize("is_there", [False, True])
def test_of_instances_that_cannot_all_be_written_none_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    folder = tmp_path / "drawn"
    if is_there:
        folder.mkdir()
    save, saved = instances.save, []

    def full_at_the_second(instance: Any, path: Path) -> None:
        saved.append(path)
        if len(saved) == 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        save(instance, path)

    monkeypatch.setattr(instances, "save", full_at_the_second)
    with pytest.raises(OSError, match="No space left"):
        generate(["generator:arrival-model-2(seed=7, count=2)"], out=folder)
    assert len(saved) == 2
    assert folder.exists() == is_there
    assert not is_there or list(folder.iterdir()) == []


TRACE = """\
arrived_at,num_prefill_tokens,num_decode_tokens
0.0,374,44
4.3,396,109
4.5,879,0
4.7,91,16
"""


def test_files_say_how_memory_is_counted(script: Script, tmp_path: Path) -> None:
    trace, path = tmp_path / "some.csv", tmp_path / "one.json"
    trace.write_text(TRACE, "utf-8")
    rule = "block_size=4, emitted_token=next, prompt_allocation=chunks"
    for source in (
        f"generator:uniform(n=4, maximum-length=6, memory-limit=30, {rule})",
        f"trace:{trace}(memory_limit=2000, {rule})",
    ):
        process = script("generate", source, "--out", path)
        assert process.returncode == 0, process.stderr
        found = instances.load(path)
        assert found.memory_rule == instances.MemoryRule(4, "next", "chunks")
        assert found.digest in process.stdout


def test_windows_of_a_trace_become_files(script: Script, tmp_path: Path) -> None:
    trace, folder = tmp_path / "some.csv", tmp_path / "drawn"
    trace.write_text(TRACE, "utf-8")
    options = "memory_limit=10, token_scale=64, round_seconds=1"
    source = f"trace:{trace}({options}, duration_seconds=4, windows=2)"
    process = script("generate", source, "--out", folder)
    assert process.returncode == 0, process.stderr
    assert "some[4s+2]: some.csv: 2 of 3 rows kept (1 empty" in process.stdout
    expected = instances.trace_windows(
        trace, memory_limit=10, token_scale=64, round_seconds=1, duration_seconds=4, windows=2
    )
    for k, (instance, _) in enumerate(expected):
        assert instances.load(folder / f"some-window{k}.json") == instance
        assert instance.digest in process.stdout
    single = tmp_path / "one.json"
    assert script("generate", f"trace:{trace}({options})", "--out", single).returncode == 0
    assert len(instances.load(single)) == 3


@pytest.mark.parametrize("command", [("generate",), ("competitive_ratios", "--policy", "fcfs")])
def test_rows_that_cannot_be_read_are_skipped_and_named(
    script: Script, refused: Refused, tmp_path: Path, command: tuple[str, ...]
) -> None:
    trace = tmp_path / "gaps.csv"
    trace.write_text(
        "arrived_at,num_prefill_tokens,num_decode_tokens\n0,3,2\n1,3,\n2,3,2.0\n", "utf-8"
    )
    given = (*command, "--json", "-")
    assert "row 3: num_decode_tokens is missing; 1 of 3 rows cannot be read" in refused(
        *given, f"trace:{trace}(memory_limit=9)"
    )
    process = script(*given, f"trace:{trace}(memory_limit=9, bad_rows=skip)")
    assert process.stderr == ""
    skipped = "1 of 3 rows skipped: 1 because num_decode_tokens is missing (row 3)"
    assert any(note.endswith(skipped) for note in json.loads(process.stdout)["notes"])


def test_without_out_nothing_is_written(script: Script, tmp_path: Path) -> None:
    process = script("generate", "generator:arrival-model-1", cwd=tmp_path)
    assert process.returncode == 0
    assert instances.generate("arrival-model-1").digest in process.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_the_list_shows_every_generator(script: Script) -> None:
    process = script("generate", "--list")
    assert process.returncode == 0
    for name in instances.generator_names():
        assert name in process.stdout
    assert "n=None, memory_limit=None" in process.stdout
    assert "Arrival Model 1" in process.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a SOURCE is missing"),
        (["generator:nope"], "unknown generator 'nope'; known: a-max-trap, arrival-model-1, "),
        (["arrival-model-1"], "is a generator: write generator:arrival-model-1"),
        ([f"{MODEL}(m=3)"], "m = 3 is not one of its parameters (n, "),
        (["generator:conversations(rate=5)"], "has arrivals in seconds, and no rounds"),
        ([f"{MODEL}(n)"], "is not of the form name=value"),
        ([f"{MODEL}(n=1, n=2)"], "is given twice"),
        ([f"{MODEL}(n=ten)"], "n = 'ten' is not a whole number"),
        ([f"{MODEL}(n=2.5)"], "n = 2.5 is a float"),
        ([f"{MODEL}(n=nan)"], "n = nan is not a finite number"),
        ([f"{MODEL}(n=0)"], "n = 0 is below 1"),
        ([f"{MODEL}(n=-3)"], "n = -3 is below 1"),
        ([f"{MODEL}(seed=-1)"], "seed = -1 is below 0"),
        ([f"{MODEL}(seed=x)"], "seed = 'x' is not a whole number"),
        ([f"{MODEL}(count=0)"], "count = 0 is below 1"),
        ([MODEL, "--bogus"], "--bogus"),
        ([f"{MODEL}(count=2)", "--out", "one.json"], "give a folder"),
        ([MODEL, MODEL, "--out", "two"], "would hold two of the instances"),
        (["trace:x.csv"], "needs memory_limit, in scaled tokens"),
        (["trace:x.csv(memory_limit=9)"], "x.csv: No such file"),
        (["trace:x.csv(memory_limit=9, n=3)"], "unknown setting of trace:x.csv 'n'"),
        (["generator:uniform(emitted_token=later)"], "'later' is neither now nor next"),
        (["generator:uniform(prompt_allocation=none)"], "'none' is neither whole nor chunks"),
        (["generator:uniform(block_size=0)"], "block_size = 0 is below 1"),
        ([f"{MODEL}(block_size=1000)"], "with block_size 1000: the request can never"),
        (["generator:sqrt-n-adversary(block_size=4)"], "answers to a policy"),
        (["generator:sqrt-n-adversary"], "it has no instance before a run"),
        ([f"{MODEL}(windows=2)"], "windows = 2 is not one of its parameters"),
        ([MODEL, "--out", "missing/one.json"], "cannot be written"),
        ([MODEL, "--out", "missing/folder/"], "cannot be written"),
    ],
)
def test_errors_are_one_line(
    refused: Refused, tmp_path: Path, arguments: list[str], said: str
) -> None:
    assert said in refused("generate", *arguments)
    assert list((tmp_path / "here").iterdir()) == []


def test_a_reader_that_stops_early_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, ROOT / "scripts" / "generate.py", "--list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.wait(60)
