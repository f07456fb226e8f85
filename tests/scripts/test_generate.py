"""scripts/generate.py as a process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked_scripts import Ok

import instances

TRACE = """\
arrived_at,num_prefill_tokens,num_decode_tokens
0.0,374,44
4.3,396,109
4.5,879,0
4.7,91,16
"""


@pytest.fixture(autouse=True)
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "some.csv"
    path.write_text(TRACE, "utf-8")
    return path


def test_a_source_is_the_draw_of_its_settings(ok: Ok, tmp_path: Path) -> None:
    # The word for False means False.
    settings = "groups=3, planted=false, seed=3"
    printed = ok(f"generate 'generator:three-partition({settings})' --out one.json")
    drawn = instances.load(tmp_path / "one.json")
    given = {"seed": 3, "groups": 3, "planted": False}
    assert drawn == instances.generate("three-partition", **given)
    assert drawn.digest in printed


def test_several_instances_go_into_a_folder(ok: Ok, tmp_path: Path) -> None:
    printed = ok("generate 'generator:arrival-model-2(seed=7, count=2)' --out drawn")
    names = sorted(path.name for path in (tmp_path / "drawn").iterdir())
    assert names == ["arrival-model-2-seed-7.json", "arrival-model-2-seed-8.json"]
    for seed, name in zip((7, 8), names, strict=True):
        drawn = instances.load(tmp_path / "drawn" / name)
        assert drawn.digest == instances.generate("arrival-model-2", seed).digest
        assert drawn.digest in printed


@pytest.mark.parametrize(
    "source", ["generator:uniform(n=4, maximum-length=6, ", "trace:some.csv(token_scale=9, "]
)
def test_files_say_how_memory_is_counted(ok: Ok, tmp_path: Path, source: str) -> None:
    ok(f"generate '{source}memory-limit=200, memory_rule=blocks:4)' --out one.json")
    found = instances.load(tmp_path / "one.json")
    assert found.memory_rule == instances.MemoryRule(4, "next", "chunks")


def test_windows_of_a_trace_become_files(ok: Ok, tmp_path: Path, trace: Path) -> None:
    source = "memory_limit=10, token_scale=64, round_seconds=1, duration_seconds=4, windows=2"
    printed = ok(f"generate 'trace:some.csv({source})' --out drawn")
    assert "some[4s+2]: some.csv: 2 of 3 rows kept (1 empty" in printed
    expected = instances.trace_windows(
        trace, memory_limit=10, token_scale=64, round_seconds=1, duration_seconds=4, windows=2
    )
    for name, (instance, _) in zip(("some-0s-1", "some-4s-2"), expected, strict=True):
        assert instances.load(tmp_path / "drawn" / f"{name}.json") == instance
        assert instance.digest in printed


@pytest.mark.parametrize("command", ["generate", "competitive_ratios --policy fcfs"])
def test_rows_that_cannot_be_read_are_skipped_and_named(
    ok: Ok, tmp_path: Path, command: str
) -> None:
    header = TRACE.splitlines()[0]
    (tmp_path / "gaps.csv").write_text(f"{header}\n0,3,2\n1,3,\n2,3,2.0\n", "utf-8")
    found = ok(f"{command} 'trace:gaps.csv(memory_limit=9, bad_rows=skip)' --json -")
    notes = json.loads(found)["notes"]
    assert any(note.endswith("1 skipped and left out") for note in notes)
