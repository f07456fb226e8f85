"""scripts/replay_recordings.py as a process, on recordings kept with the tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from forked_scripts import Ok, Refused

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


def test_recordings_of_the_engine(ok: Ok, tmp_path: Path) -> None:
    packed = tmp_path / "recordings.json.gz"
    packed.write_bytes(gzip.compress(KEPT.read_bytes()))
    for path in (KEPT, packed):
        lines = ok(f"replay_recordings {path}").splitlines()
        assert [line.split()[-1] for line in lines] == ["identical"] * 12
        assert lines[-1] == "11 of 11 recordings identical"


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
    ok: Ok, tmp_path: Path, step: int, column: int, value: Any, shown: str
) -> None:
    recording = small()
    recording["steps"][step][column] = value
    (tmp_path / "one.json").write_text(json.dumps([small(), recording]), "utf-8")
    same, other, total = ok("replay_recordings one.json", status=1).splitlines()
    assert same.split() == ["by", "hand", "seed", "1", "5", "steps", "identical"]
    assert other.endswith(shown)
    assert total == "1 of 2 recordings identical"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"steps": small()["steps"][:3]}, "step 3 is not recorded"),
        ({"output_lengths": [10**9], "num_blocks": 10**9}, ""),
        ({"prompt_lengths": [10**9], "num_blocks": 10**9}, ""),
        ({"prompt_lengths": [5] * 2, "output_lengths": [3, 1], "arrival_steps": [1, 10**12]}, ""),
    ],
)
def test_a_workload_longer_than_its_recording_ends_with_it(
    ok: Ok, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    (tmp_path / "one.json").write_text(json.dumps([{**small(), **change}]), "utf-8")
    printed = ok("replay_recordings one.json", status=1)
    assert said in printed
    assert printed.splitlines()[-1] == "0 of 1 recordings identical"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"steps": None}, "steps are not a list"),
        ({"steps": [[0, []]]}, "is not [index, scheduled"),
        ({"steps": [[0, [[1, 3]], [], [], 0]]}, "request"),
        ({"steps": [[0, 5, [], [], 0]]}, "recording 1"),
        ({"steps": [[0, [[0]], [], [], 0]]}, "recording 1"),
        ({"steps": [[0, [], "", [], 0]]}, "step 0 has no lists"),
        ({"steps": [[0, [], [], [], 9], *small()["steps"]]}, "0 is there twice"),
        ({"seed": "\x1b[31m"}, "control character"),
        ({"output_lengths": [3, 4]}, "are not lists of one length"),
        ({"output_lengths": ["x"]}, "output_length"),
        ({"num_blocks": 3}, "can never run"),
        ({"watermark": None}, "watermark"),
        ({"async_scheduling": "no"}, "async_scheduling"),
        ({"max_num_seqs": 1.5}, "max_num_seqs"),
        ({"name": 3}, "name"),
    ],
)
def test_what_is_no_recording(
    refused: Refused, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps([{**small(), **change}]), "utf-8")
    assert reason in refused("replay_recordings", path)


def test_what_is_no_list_of_recordings(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    without = {name: value for name, value in small().items() if name != "steps"}
    for content, reason in (
        ([], "is not a list of recordings"),
        ([small(), 7], "recording 2: is not a JSON object"),
        ([without], "recording 1: key 'steps' is missing"),
    ):
        path.write_text(json.dumps(content), "utf-8")
        assert reason in refused("replay_recordings", path)
    packed = tmp_path / "cut.json.gz"
    packed.write_bytes(gzip.compress(KEPT.read_bytes())[:500])
    assert "not a whole gzip file" in refused("replay_recordings", packed)
