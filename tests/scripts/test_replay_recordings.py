"""scripts/replay_recordings.py as a process, on recordings kept with the tests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked_scripts import Refused, Script

KEPT = (
    Path(__file__).resolve().parents[1] / "online" / "policies" / "engines" / "vllm_recordings.json"
)


def small() -> dict[str, Any]:
    """One request alone: 5 prompt tokens in chunks of 3, then 2 decodes."""
    return {
        "name": "by hand",
        "seed": 1,
        "prompt_lengths": [5],
        "output_lengths": [3],
        "arrival_steps": [1],
        "num_blocks": 4,
        "block_size": 2,
        "max_num_batched_tokens": 3,
        "max_num_seqs": 4,
        "watermark": 0.0,
        "prefix_caching": False,
        "async_scheduling": False,
        "steps": [
            [0, [], [], [], 0],
            [1, [[0, 3]], [], [], 2],
            [2, [[0, 2]], [], [0], 3],
            [3, [[0, 1]], [], [0], 3],
            [4, [[0, 1]], [], [0], 4],
        ],
    }


def test_recordings_of_the_engine(script: Script, tmp_path: Path) -> None:
    packed = tmp_path / "recordings.json.gz"
    packed.write_bytes(gzip.compress(KEPT.read_bytes()))
    for path in (KEPT, packed):
        process = script("replay_recordings", path)
        assert process.returncode == 0, process.stderr
        lines = process.stdout.splitlines()
        assert [line.split()[-1] for line in lines] == ["identical"] * 4
        assert lines[-1] == "3 of 3 recordings identical"


@pytest.mark.parametrize(
    ("step", "column", "value", "shown"),
    [
        (1, 1, [[0, 2]], "step 1, scheduled: recorded [(0, 2)], played [(0, 3)]"),
        (2, 2, [0], "step 2, preempted: recorded [0], played []"),
        (2, 3, [], "step 2, emitted: recorded [], played [0]"),
        (4, 4, 3, "step 4, blocks: recorded 3, played 4"),
    ],
)
def test_the_first_step_that_differs(
    script: Script, tmp_path: Path, step: int, column: int, value: Any, shown: str
) -> None:
    recording = small()
    recording["steps"][step][column] = value
    path = tmp_path / "one.json"
    path.write_text(json.dumps([small(), recording]), "utf-8")
    process = script("replay_recordings", path)
    assert process.returncode == 1
    same, other, total = process.stdout.splitlines()
    assert same.split() == ["by", "hand", "seed", "1", "5", "steps", "identical"]
    assert other.endswith(shown)
    assert total == "1 of 2 recordings identical"


def test_a_recording_that_ends_too_early(script: Script, tmp_path: Path) -> None:
    recording = small()
    del recording["steps"][3:]
    path = tmp_path / "one.json"
    path.write_text(json.dumps([recording]), "utf-8")
    process = script("replay_recordings", path)
    assert process.returncode == 1
    assert "step 3 is not recorded" in process.stdout


@pytest.mark.parametrize(
    "change",
    [
        {"output_lengths": [10**9], "num_blocks": 10**9},
        {"prompt_lengths": [10**9], "num_blocks": 10**9},
        {"prompt_lengths": [5, 5], "output_lengths": [3, 1], "arrival_steps": [1, 10**12]},
    ],
)
def test_a_workload_far_longer_than_its_recording_ends_with_it(
    script: Script, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps([{**small(), **change}]), "utf-8")
    process = script("replay_recordings", path)
    assert (process.returncode, process.stderr) == (1, "")
    assert process.stdout.splitlines()[-1] == "0 of 1 recordings identical"


def without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda one: [{k: v for k, v in one.items() if k != key}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda one: one, "is not a list of recordings"),
        (lambda one: [], "is not a list of recordings"),
        (lambda one: [one, 7], "recording 2: is not a JSON object"),
        (without("steps"), "recording 1: key 'steps' is missing"),
        (without("arrival_steps"), "key 'arrival_steps' is missing"),
        (lambda one: [{**one, "steps": 3}], "steps are not a list"),
        (lambda one: [{**one, "steps": [[0, []]]}], "is not [index, scheduled"),
        (lambda one: [{**one, "steps": [[0, [[1, 3]], [], [], 0]]}], "request"),
        (lambda one: [{**one, "steps": [[0, 5, [], [], 0]]}], "recording 1"),
        (lambda one: [{**one, "steps": [[0, [[0]], [], [], 0]]}], "recording 1"),
        (lambda one: [{**one, "steps": [[0, [], "", [], 0]]}], "step 0 has no lists"),
        (lambda one: [{**one, "steps": [[0, [], [], {}, 0]]}], "step 0 has no lists"),
        (lambda one: [{**one, "steps": [[0, [], [], [], 9], *one["steps"]]}], "0 is there twice"),
        (lambda one: [{**one, "seed": "\x1b[31m"}], "control character"),
        (lambda one: [{**one, "output_lengths": [3, 4]}], "are not lists of one length"),
        (lambda one: [{**one, "output_lengths": ["x"]}], "output_length"),
        (lambda one: [{**one, "num_blocks": 3}], "can never run"),
        (lambda one: [{**one, "block_size": 0}], "block_size"),
        (lambda one: [{**one, "watermark": 2}], "watermark"),
        (lambda one: [{**one, "watermark": None}], "watermark"),
        (lambda one: [{**one, "async_scheduling": "no"}], "async_scheduling"),
        (lambda one: [{**one, "max_num_seqs": 1.5}], "max_num_seqs"),
        (lambda one: [{**one, "name": 3}], "name"),
    ],
)
def test_what_is_no_recording(
    refused: Refused, tmp_path: Path, content: Callable[[dict[str, Any]], Any], reason: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(content(small())), "utf-8")
    assert reason in refused("replay_recordings", path)
