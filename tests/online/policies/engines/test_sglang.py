"""SGLang's scheduler as the policy sglang has it, against decisions of the engine itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_recordings import Recording, play, read_recordings

import online
from instances import Instance, MemoryRule

FIRST_DIFFERENCES = {
    # A retracted request finds its own prompt in the prefix cache and goes to the front.
    ("lpm", "1"): "step 107, scheduled",
    # The results of a step are known one step later.
    ("overlap", "1"): "step 43, scheduled",
    ("overlap", "2"): "step 21, scheduled",
    ("overlap_tight", "1"): "step 30, blocks",
    ("overlap_tight", "2"): "step 30, scheduled",
}
"""Recordings under rules that the policy leaves out, and the first step that shows it."""


SLOW = pytest.mark.slow


def recordings() -> list[Any]:
    path = Path(__file__).with_name("sglang_recordings.json.gz")
    return [
        pytest.param(one, id=f"{one.name}-{one.seed}", marks=() if one.seed == "1" else SLOW)
        for one in read_recordings(path)
    ]


@pytest.mark.parametrize("recording", recordings())
def test_decisions_recorded_from_the_engine(recording: Recording) -> None:
    """Runs of SGLang 0.5.23's own scheduler (Apache-2.0): see ``origin`` in the file."""
    difference = play(recording).difference
    first = FIRST_DIFFERENCES.get((recording.name, recording.seed))
    if first is None:
        assert difference is None
    else:
        assert difference is not None
        assert difference.startswith(first)


@pytest.mark.parametrize(
    ("settings", "starts", "completions"),
    [
        # 17 tokens are free beside the first. The second asks for 2 + 8 + 1, less than what the
        # first leaves of them for 0.7 of the 7 tokens it may still emit, not for all of them.
        ({}, [0, 1], [9, 9]),
        ({"ignore_eos": True}, [0, 8], [8, 16]),
    ],
)
def test_room_for_others(
    settings: dict[str, Any], starts: list[int], completions: list[int]
) -> None:
    instance = Instance.from_arrays(
        [4, 2], [8, 8], [0, 1], memory_limit=21, memory_rule=MemoryRule(1, "next", "chunks")
    )
    run = online.simulate(instance, online.make_policy("sglang", **settings))
    assert run.start_times.tolist() == starts
    assert run.completion_rounds.tolist() == completions
