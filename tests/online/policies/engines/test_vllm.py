"""vLLM's V1 scheduler against its rules one step at a time, and what holds for every run of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import sweep
from engine_recordings import FURTHER_SETTINGS, Recording, play, read_recordings, recording_of
from per_step_vllm import steps_of

import online
from instances import Instance


def draw(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([80, seed])
    size = int((1, 2, 4, 16)[rng.integers(4)])
    n = int(rng.integers(1, 25))
    prompts = rng.integers(1, (10, 60)[rng.integers(2)], n)
    outputs = rng.integers(1, (2, 8, 40)[rng.integers(3)], n)
    # Some arrive long after the engine has fallen idle.
    arrivals = rng.integers(0, (1, 10, 200, 2000)[rng.integers(4)], n)
    largest = int((prompts + outputs - 1).max())
    policy = ("fcfs", "priority")[rng.integers(2)]
    work = {
        "name": "drawn",
        "seed": seed,
        "prompt_lengths": prompts.tolist(),
        "output_lengths": outputs.tolist(),
        "arrival_steps": arrivals.tolist(),
        "num_blocks": -(-largest // size) + int(rng.integers(0, 1 + largest // size)),
        "block_size": size,
        "max_num_batched_tokens": int((rng.integers(1, 12), 64, 8192)[rng.integers(3)]),
        "max_num_seqs": int((rng.integers(1, 6), 256)[rng.integers(2)]),
        "long_prefill_token_threshold": int((0, rng.integers(1, 9))[rng.integers(2)]),
        "watermark": (0.0, 0.05, 0.3)[rng.integers(3)],
        "policy": policy,
        "order": ("fcfs", "shortest-output")[policy == "priority" and rng.integers(2)],
        "prefix_caching": bool(rng.integers(2)),
        "async_scheduling": bool(rng.integers(2)),
        "long_prefill_token_threshold_adaptive": bool(rng.integers(2)),
        "enable_chunked_prefill": bool(rng.integers(4)),
        "prefill_schedule_interval": int((1, rng.integers(2, 12))[rng.integers(2)]),
        "scheduler_reserve_full_isl": bool(rng.integers(2)),
    }
    if not work["enable_chunked_prefill"]:
        # The engine refuses a budget that the longest request does not fit into.
        work["max_num_batched_tokens"] += largest
    return work


def played(work: dict[str, Any]) -> Any:
    return play(recording_of({**work, "steps": steps_of(work)}))


@pytest.mark.parametrize("first", sweep(range(0, 300, 50), one_in=3))
def test_against_one_step_at_a_time(first: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first, first + 50):
        work = draw(seed)
        replay = played(work)
        assert replay.difference is None, work
        steps = replay.steps.values()
        seen["preempted"] += sum(len(step.preempted) for step in steps)
        seen["empty"] += sum(not step.scheduled and step.blocks > 0 for step in steps)
        seen["reused"] += int((replay.run.attempts.tokens_reused > 0).sum())
        seen["chunks"] += int((replay.run.actions[:, 3] > 0).sum())
        assert replay.run.decisions <= max(replay.steps) + 1 + len(work["prompt_lengths"])
    assert min(seen["preempted"], seen["empty"], seen["reused"], seen["chunks"]) > 5, seen


RECORDINGS = read_recordings(Path(__file__).with_name("vllm_recordings.json"))


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: one.name)
def test_decisions_recorded_from_the_engine(recording: Recording) -> None:
    """Kept from runs of vLLM 0.33.0's own scheduler (Apache-2.0): see ``origin`` in the file."""
    assert play(recording).difference is None
    if recording.settings["prefix_caching"]:
        assert play(recording).run.evictions


def knobs(recording: Recording) -> list[tuple[str, Any]]:
    """Return the settings of a recording that are not the defaults, with the defaults."""
    default = online.make_policy("vllm")
    known = {name: getattr(default, name) for name in ("watermark", *FURTHER_SETTINGS)}
    return [(k, value) for k, value in known.items() if recording.settings.get(k, value) != value]


@pytest.mark.parametrize(
    ("recording", "name", "value"),
    [
        pytest.param(one, name, value, id=f"{one.name}-{name}")
        for one in RECORDINGS
        for name, value in knobs(one)
    ],
)
def test_every_knob_of_a_recording_decides(recording: Recording, name: str, value: Any) -> None:
    without = replace(recording, settings={**recording.settings, name: value})
    assert play(without).difference is not None


def test_a_prompt_that_is_not_to_be_cut_and_exceeds_the_budget() -> None:
    settings = {"max_num_batched_tokens": 8, "enable_chunked_prefill": False}
    fits = Instance.from_arrays([8, 8], [1, 1], memory_limit=32)
    run = online.simulate(fits, online.make_policy("vllm", **settings))
    assert run.completion_rounds.tolist() == [1, 2]
